"""Where the pipeline writes, how politely it crawls and which provider it asks: read from the environment, once.

Invariant: every mistake is reported in one error, and the provider's key is only ever shown as `***`.
`VARIABLES` is the whole list; the table in docs/onboarding.md is held to it by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from yarl import URL

Value = TypeVar("Value")

USER_AGENT: Final = "WakefulOnboarding/0.1 (example crawler; set ONBOARDING_USER_AGENT to say whose it is)"

VARIABLES: Final[Mapping[str, str]] = {
    "ONBOARDING_OUTPUT": "folder for artefacts and published sites; every host that runs these jobs must share it",
    "ONBOARDING_PUBLIC_URL": "address under which the published sites will be reached, for their sitemaps",
    "ONBOARDING_KEEP_RELEASES": "releases of each site that are kept",
    "ONBOARDING_USER_AGENT": "what the crawler calls itself; its first word is looked up in robots.txt",
    "ONBOARDING_MAX_PAGES": "pages read of one site, at most",
    "ONBOARDING_MAX_IMAGES": "pictures looked at, at most",
    "ONBOARDING_REQUEST_TIMEOUT": "seconds for one request, from the look-up of the name to the last byte",
    "ONBOARDING_CRAWL_TIME": "seconds after which no further page of a site is read",
    "ONBOARDING_DELAY": "seconds between two requests to one host; a longer Crawl-delay of its robots.txt wins",
    "ONBOARDING_CONNECT_TO": "HOST=ADDRESS:PORT, ...: where to connect for a host; *.NAME fits all below NAME",
    "ONBOARDING_PRIVATE_HOSTS": "hosts, separated by commas, that may have a private or loopback address",
    "ONBOARDING_LLM_URL": "an OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1; none: facts alone",
    "ONBOARDING_LLM_KEY": "its key",
    "ONBOARDING_LLM_KEY_FILE": "a file that holds the key, instead of ONBOARDING_LLM_KEY",
    "ONBOARDING_LLM_MODEL": "its model",
    "ONBOARDING_LLM_TIMEOUT": "seconds for one answer",
    "ONBOARDING_LLM_PATIENCE": "seconds of Retry-After that are waited for; for longer ones the facts must do",
    "ONBOARDING_LLM_PICTURES": "pictures for which a description is asked; 0 for none",
}


class SettingsError(Exception):
    """Some variables can't be used; `problems` has a line for each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(problems))


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that is never printed: `reveal()` at the one place that sends it."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        return self._text

    def redact(self, text: str) -> str:
        """Take this secret out of a text that came from outside, such as a provider's error."""
        return text.replace(self._text, "***") if self._text else text

    def __str__(self) -> str:
        return "***"

    def __bool__(self) -> bool:
        return bool(self._text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    """Limits of one visit to a site; durations in seconds, sizes in bytes."""

    user_agent: str = USER_AGENT
    max_pages: int = 20
    max_images: int = 12
    max_page_bytes: int = 1024 * 1024
    max_image_bytes: int = 10 * 1024 * 1024
    request_timeout: float = 10.0
    crawl_time: float = 120.0
    channel_time: float = 60.0
    delay: float = 0.2
    connections_per_host: int = 2
    connect_to: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    private_hosts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """The OpenAI-compatible endpoint that VISION and COPY share, with one key."""

    url: URL
    key: Secret = Secret("")
    model: str = "gpt-4o-mini"
    timeout: float = 60.0
    patience: float = 120.0
    pictures: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that the pipeline is told from outside; `provider` is None when no endpoint is configured."""

    output: Path = Path("onboarding-output")
    public_url: str = "https://sites.example/"
    keep_releases: int = 3
    crawl: CrawlSettings = CrawlSettings()
    provider: ProviderSettings | None = None


def from_environment(environment: Mapping[str, str]) -> Settings:
    """Read the `ONBOARDING_*` variables; an empty one counts as not set. Raises SettingsError with every problem."""
    reader = _Reader(environment)
    plain = Settings()
    settings = Settings(
        output=reader.read("OUTPUT", Path, plain.output),
        public_url=reader.read("PUBLIC_URL", _web_address, plain.public_url),
        keep_releases=reader.read("KEEP_RELEASES", _count_from_one, plain.keep_releases),
        crawl=_crawl(reader),
        provider=_provider(reader),
    )
    reader.check_names()
    if reader.problems:
        raise SettingsError(tuple(reader.problems))
    return settings


def _crawl(reader: _Reader) -> CrawlSettings:
    plain = CrawlSettings()
    return CrawlSettings(
        user_agent=reader.read("USER_AGENT", _header_text, plain.user_agent),
        max_pages=reader.read("MAX_PAGES", _count_from_one, plain.max_pages),
        max_images=reader.read("MAX_IMAGES", _count, plain.max_images),
        request_timeout=reader.read("REQUEST_TIMEOUT", _seconds, plain.request_timeout),
        crawl_time=reader.read("CRAWL_TIME", _seconds, plain.crawl_time),
        delay=reader.read("DELAY", _seconds, plain.delay),
        connect_to=reader.read("CONNECT_TO", _connect_to, plain.connect_to),
        private_hosts=reader.read("PRIVATE_HOSTS", _hosts, plain.private_hosts),
    )


def _provider(reader: _Reader) -> ProviderSettings | None:
    address = reader.read("LLM_URL", _web_address, "")
    key = reader.read("LLM_KEY", _key, None) or reader.read("LLM_KEY_FILE", _key_in_file, None)
    plain = ProviderSettings(url=URL(address))
    settings = ProviderSettings(
        url=plain.url,
        key=key or plain.key,
        model=reader.read("LLM_MODEL", str, plain.model),
        timeout=reader.read("LLM_TIMEOUT", _seconds, plain.timeout),
        patience=reader.read("LLM_PATIENCE", _seconds, plain.patience),
        pictures=reader.read("LLM_PICTURES", _count, plain.pictures),
    )
    return settings if address else None


class _Reader:
    """Reads single variables and gathers what is wrong with them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[str] = []

    def read(self, suffix: str, parse: Callable[[str], Value], default: Value) -> Value:
        name = f"ONBOARDING_{suffix}"
        text = self._environment.get(name, "").strip()
        if not text:
            return default
        try:
            return parse(text)
        except (ValueError, OSError) as error:
            self.problems.append(f"{name}: {error}")
            return default

    def check_names(self) -> None:
        """An unknown variable with our prefix is a typing mistake that would else go unseen."""
        unknown = sorted(name for name in self._environment if name.startswith("ONBOARDING_"))
        self.problems.extend(f"{name}: no such variable" for name in unknown if name not in VARIABLES)


def _count(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if not 0 <= number <= 10_000:
        raise ValueError(f"{text!r} is not a whole number from 0 to 10000")
    return number


def _count_from_one(text: str) -> int:
    number = _count(text)
    if number == 0:
        raise ValueError("must be 1 or more")
    return number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= 86_400.0:
        raise ValueError(f"{text!r} is not a number of seconds from 0 to 86400")
    return seconds


def _web_address(text: str) -> str:
    address = URL(text)
    if address.scheme not in ("http", "https") or not address.host:
        raise ValueError("is not an http or https address")
    if address.user or address.password:
        raise ValueError("must hold no credentials")
    return text


def _header_text(text: str) -> str:
    if not text.isascii() or not text.isprintable():
        raise ValueError("must be printable ASCII")
    return text


def _key(text: str) -> Secret | None:
    if not text.isascii() or not text.isprintable():
        raise ValueError("must be printable ASCII")
    return Secret(text)


def _key_in_file(path: str) -> Secret | None:
    return _key(Path(path).read_text(encoding="utf-8").strip())


def _hosts(text: str) -> frozenset[str]:
    return frozenset(host.strip().lower() for host in text.split(",") if host.strip())


def _connect_to(text: str) -> Mapping[str, tuple[str, int]]:
    return dict(_connect_entry(entry.strip()) for entry in text.split(",") if entry.strip())


def _connect_entry(entry: str) -> tuple[str, tuple[str, int]]:
    host, equals, target = entry.partition("=")
    address, colon, port = target.rpartition(":")
    if not (host and equals and address and colon and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{entry!r} is not HOST=ADDRESS:PORT")
    return host.strip().lower(), (address.strip("[] "), int(port))
