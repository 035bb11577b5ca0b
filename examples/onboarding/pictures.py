"""The pictures of a run: fetched into its folder, looked at, described; the artefact that VISION leaves for BUILD.

Invariant: a picture that can't be fetched or decoded is an entry with a `problem`, never an error, and one that an
earlier attempt fetched or had described is not asked for again: a description costs money.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from yarl import URL

from onboarding.artefacts import Run, read_json, write_bytes, write_json
from onboarding.crawl.fetch import Fetcher, Want
from onboarding.crawl.trouble import ChannelTrouble
from onboarding.facts import Picture
from onboarding.vision import Colour, PictureFacts, look_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A picture of the site and what became of it; `file` lies in the run's `pictures` folder."""

    url: str
    alt: str
    file: str
    facts: PictureFacts = field(default_factory=lambda: PictureFacts(bytes=0))
    description: str = ""

    @property
    def usable(self) -> bool:
        return not self.facts.problem

    @property
    def caption(self) -> str:
        return self.description or self.alt


async def download(fetcher: Fetcher, picture: Picture, *, run: Run, max_bytes: int) -> Seen:
    """Fetch one picture into the run's folder, unless it is there already."""
    seen = Seen(url=picture.url, alt=picture.alt, file=file_name(picture.url))
    path = run.pictures / seen.file
    if path.exists():
        return seen
    try:
        reply = await fetcher.get(
            URL(picture.url), Want(types=("image/", "application/octet-stream"), max_bytes=max_bytes)
        )
    except ChannelTrouble as trouble:
        return replace(seen, facts=PictureFacts(bytes=0, problem=str(trouble)))
    write_bytes(path, reply.body)
    return seen


def measure(seen: Seen, run: Run) -> Seen:
    """Look at a picture that was fetched. Heavy: give it a thread."""
    return replace(seen, facts=look_at(run.pictures / seen.file)) if seen.usable else seen


def best_first(pictures: list[Seen]) -> list[Seen]:
    """The usable ones, large and sharp before small and blurred; the order is the same in every attempt."""
    usable = [seen for seen in pictures if seen.usable]
    return sorted(usable, key=lambda seen: (-min(seen.facts.width, 1200), -seen.facts.sharpness, seen.url))


def write_vision(run: Run, pictures: list[Seen]) -> None:
    """Leave what was seen for the next stages."""
    write_json(run.vision, {"pictures": [asdict(seen) for seen in pictures]})


def read_vision(run: Run) -> list[Seen]:
    """What VISION left. Raises MissingArtefact."""
    entries = read_json(run.vision).get("pictures")
    return [_seen(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def read_descriptions(run: Run) -> dict[str, str]:
    """The descriptions that earlier attempts were given, by address."""
    path = _descriptions(run)
    return {url: str(text) for url, text in read_json(path).items()} if path.exists() else {}


def write_descriptions(run: Run, descriptions: Mapping[str, str]) -> None:
    """Keep them at once: the next picture's may end in a 429, and this one is paid for."""
    write_json(_descriptions(run), dict(descriptions))


def with_descriptions(pictures: list[Seen], descriptions: Mapping[str, str]) -> list[Seen]:
    return [replace(seen, description=descriptions.get(seen.url, "")) for seen in pictures]


def file_name(url: str) -> str:
    """A name that depends on the address alone and says nothing of its type: that is for the decoder to find out."""
    return hashlib.sha256(url.encode()).hexdigest()[:20]


def _descriptions(run: Run) -> Path:
    return run.folder / "descriptions.json"


def _seen(entry: Mapping[str, object]) -> Seen:
    looked = entry["facts"]
    assert isinstance(looked, dict)
    colours = tuple(Colour(**colour) for colour in looked["colours"])
    return Seen(
        url=str(entry["url"]),
        alt=str(entry["alt"]),
        file=str(entry["file"]),
        facts=PictureFacts(**{**looked, "colours": colours}),
        description=str(entry["description"]),
    )
