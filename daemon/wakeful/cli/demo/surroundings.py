"""What the example's pipeline meets: the bundled sites and the stand-in language model, or real ones, by environment.

Invariant: a variable that is exported wins over what is bundled, and the stand-in's key and a real one never go to each
other's endpoint. The only module that imports the example, and only where it is used, since it needs an extra.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from wakeful.cli.demo.producing import Place
from wakeful.cli.exits import USAGE, CommandFailed
from wakeful.errors import ConfigError

OUTPUT: Final = "sites"
SEED: Final = 10
"""How the stand-in feels: with this one the first places show a 429 that is waited out and a copy that is degraded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the pipeline meets; `environment` are the variables that lead it there."""

    environment: Mapping[str, str]
    sites: str
    model: str


def places_of(sites: Sequence[str]) -> tuple[Place, ...]:
    """The places to onboard: the bundled ones, or these sites. Raises CommandFailed."""
    from onboarding.places import PLACES, place_for  # noqa: PLC0415 -- of an optional extra

    try:
        return tuple(place_for(url) for url in sites) or PLACES
    except ValueError as error:
        raise CommandFailed(f"--site: {error}", code=USAGE) from error


def check(environ: Mapping[str, str]) -> None:
    """Look at the example's variables now, before anything is started. Raises ConfigError with every mistake."""
    from onboarding.settings import SettingsError, from_environment  # noqa: PLC0415 -- of an optional extra

    try:
        from_environment(environ)
    except SettingsError as error:
        raise ConfigError(error.problems) from error


@asynccontextmanager
async def surrounded(
    folder: Path, sites: Sequence[str], environ: Mapping[str, str]
) -> AsyncIterator[Surroundings]:
    """Serve what is bundled while the block runs, the model only where no other is given."""
    from onboarding import llm  # noqa: PLC0415 -- of an optional extra
    from onboarding import site as bundled  # noqa: PLC0415

    given = {name: value for name, value in environ.items() if name.startswith("ONBOARDING_") and value}
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(bundled.serve())
        bound = {"ONBOARDING_CONNECT_TO": served.environment()["ONBOARDING_CONNECT_TO"]}
        if sites:
            # Whoever names a site on the command may well mean one of their own machine or network.
            bound["ONBOARDING_PRIVATE_HOSTS"] = ",".join(urlsplit(site).hostname or "" for site in sites)
        for name in bound.keys() & given.keys():
            bound[name] += f",{given[name]}"
        if "ONBOARDING_LLM_URL" not in given:
            bound |= (await stack.enter_async_context(llm.serve(llm.seeded(SEED)))).environment()
        usual = {"ONBOARDING_OUTPUT": str(folder / OUTPUT)} | ({} if sites else served.environment())
        yield Surroundings(
            environment={**usual, **given, **bound},
            sites=", ".join(sites) or f"bundled, served at {served.url}",
            model=given.get("ONBOARDING_LLM_URL") or "a stand-in on loopback",
        )
