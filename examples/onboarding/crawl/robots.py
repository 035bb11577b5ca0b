"""What a host's robots.txt wishes, after RFC 9309: parsed by Protego, which knows wildcards and the longest match.

Pure; `fetch` reads the file. Invariant: a file that could not be read because of the network or the server (5xx, 429)
forbids everything on its host, one that is not there (4xx) nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Final

from protego import Protego
from yarl import URL

from onboarding.crawl.trouble import ChannelTrouble

LONGEST_DELAY_SECONDS: Final = 3600.0

_HOST_IS_AWAY: Final = (
    "dns",
    "refused",
    "unreachable",
    "timeout",
    "tls",
    "private_address",
    "broken",
    "rate_limited",
)


@dataclass(frozen=True, slots=True)
class Robots:
    """The wishes of one host; `rules` is None where all is allowed, `trouble` says why the file could not be read."""

    rules: Protego | None = None
    http_status: int | None = None
    trouble: ChannelTrouble | None = None
    lines: int = 0

    def refusal(self, url: URL, agent: str) -> ChannelTrouble | None:
        """Why `url` must not be fetched; None when it may be."""
        if self.trouble is not None:
            return _refusal_without_file(self.trouble)
        if self.rules is None or self.rules.can_fetch(str(url), agent):
            return None
        return ChannelTrouble("robots", f"robots.txt forbids {url.raw_path}")

    def delay(self, agent: str) -> float:
        """Seconds between two requests that the host asks for."""
        asked = (self.rules.crawl_delay(agent) if self.rules else None) or 0.0
        return min(max(asked, 0.0), LONGEST_DELAY_SECONDS) if isfinite(asked) else 0.0

    @property
    def sitemaps(self) -> tuple[str, ...]:
        return tuple(self.rules.sitemaps) if self.rules else ()


def parse_robots(text: str, http_status: int) -> Robots:
    """Read a robots.txt; rubbish in it is ignored, as the standard asks."""
    lines = sum(
        line.strip().lower().startswith(("allow", "disallow", "sitemap", "crawl-delay"))
        for line in text.splitlines()
    )
    return Robots(rules=Protego.parse(text), http_status=http_status, lines=lines)


def robots_without_file(trouble: ChannelTrouble) -> Robots:
    """What holds when reading the file ended with `trouble`."""
    status = trouble.http_status
    absent = status is not None and 400 <= status < 500 and trouble.kind != "rate_limited"
    return Robots(http_status=status, trouble=None if absent else trouble)


def _refusal_without_file(trouble: ChannelTrouble) -> ChannelTrouble:
    if trouble.kind in _HOST_IS_AWAY:
        return trouble
    return ChannelTrouble(
        "robots",
        f"robots.txt could not be read ({trouble}), so nothing is fetched",
        http_status=trouble.http_status,
    )
