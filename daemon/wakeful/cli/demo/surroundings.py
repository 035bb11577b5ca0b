"""What the example's pipeline meets: the bundled sites and the stand-in language model, or real ones, by environment.

Invariant: a variable that is exported wins over what is bundled, and a bundled key never goes to an endpoint that is
not bundled. The only module of the demo that imports the example.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from onboarding import llm
from onboarding import site as bundled
from onboarding.places import PLACES, Place, place_for
from onboarding.settings import SettingsError, from_environment
from wakeful.cli.exits import USAGE, CommandFailed
from wakeful.errors import ConfigError

OUTPUT: str = "sites"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the pipeline meets; `environment` are the variables that lead it there."""

    environment: Mapping[str, str]
    sites: str
    model: str


def places_of(sites: Sequence[str]) -> tuple[Place, ...]:
    """The places to onboard: the bundled ones, or these sites. Raises CommandFailed."""
    try:
        return tuple(place_for(url) for url in sites) or PLACES
    except ValueError as error:
        raise CommandFailed(f"--site: {error}", code=USAGE) from error


def check(environ: Mapping[str, str]) -> None:
    """Look at the example's variables now, before anything is started. Raises ConfigError with every mistake."""
    try:
        from_environment(environ)
    except SettingsError as error:
        raise ConfigError(error.problems) from error


@asynccontextmanager
async def surrounded(
    folder: Path, sites: Sequence[str], environ: Mapping[str, str]
) -> AsyncIterator[Surroundings]:
    """Serve what is bundled, as far as it is needed, while the block runs."""
    given = {name: value for name, value in environ.items() if name.startswith("ONBOARDING_") and value}
    ours = {"ONBOARDING_OUTPUT": str(folder / OUTPUT)}
    async with AsyncExitStack() as stack:
        if sites:
            ours |= _private(sites, given)
        served = await stack.enter_async_context(bundled.serve())
        ours |= _bundled_sites(served.environment(), given)
        if "ONBOARDING_LLM_URL" not in given:
            ours |= (await stack.enter_async_context(llm.serve())).environment()
        yield Surroundings(
            environment={**ours, **{name: value for name, value in given.items() if name not in _JOINED}},
            sites=", ".join(sites) or f"bundled, served at {served.url}",
            model=given.get("ONBOARDING_LLM_URL") or "a stand-in on loopback",
        )


_JOINED = ("ONBOARDING_CONNECT_TO", "ONBOARDING_PRIVATE_HOSTS")


def _bundled_sites(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    return {**environment, "ONBOARDING_CONNECT_TO": _joined(given, "ONBOARDING_CONNECT_TO", environment)}


def _private(sites: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Whoever names a site on the command may well mean one of their own machine or network."""
    hosts = ",".join(urlsplit(site).hostname or "" for site in sites)
    return {
        "ONBOARDING_PRIVATE_HOSTS": _joined(
            given, "ONBOARDING_PRIVATE_HOSTS", {"ONBOARDING_PRIVATE_HOSTS": hosts}
        )
    }


def _joined(given: Mapping[str, str], name: str, ours: Mapping[str, str]) -> str:
    return ",".join(filter(None, (ours.get(name), given.get(name))))
