"""What is known of a place: one value, built from the fragments that the channels found.

Invariant: every text in a `Facts` is clean (no control character, no lone surrogate, one line, bounded), so that it can
be stored as JSON, sent to a provider and printed anywhere; where it goes into HTML it still has to be escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from typing import Any, Final

SHORT: Final = 200
LONG: Final = 1200
MOST_ITEMS: Final = 60

_UNWANTED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")


def clean(text: object, limit: int = SHORT) -> str:
    """Give `text` on one line of at most `limit` characters; what is no text or number gives an empty one."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return ""
    line = " ".join(_UNWANTED.sub(" ", str(text)).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that the site shows; `url` is absolute."""

    url: str
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A line of a menu or price list, the price as it was written."""

    name: str
    price: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """An entry of a feed; the date is YYYY-MM-DD, or as it was written where that can't be told."""

    title: str
    url: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A page of the site, in short."""

    url: str
    title: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that was found; an empty text or tuple means that no channel knew."""

    name: str = ""
    description: str = ""
    phone: str = ""
    email: str = ""
    address: str = ""
    price_range: str = ""
    theme_colour: str = ""
    language: str = ""
    opening_hours: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()
    news: tuple[News, ...] = ()
    sections: tuple[Section, ...] = ()
    pictures: tuple[Picture, ...] = ()

    @property
    def known(self) -> int:
        """How many things are known; 0 means that nothing was found. A language alone says nothing of a place."""
        values = (getattr(self, part.name) for part in fields(self) if part.name != "language")
        return sum(len(value) if isinstance(value, tuple) else bool(value) for value in values)


def merge(fragments: Iterable[Facts]) -> Facts:
    """Join fragments, the most trusted first: the first text wins, lists are joined without repeats."""
    merged = reduce(_merge_two, fragments, Facts())
    return replace(merged, pictures=_one_of_each(merged.pictures))


def to_document(facts: Facts) -> dict[str, object]:
    """The facts as a JSON object."""
    return asdict(facts)


def from_document(document: Mapping[str, object]) -> Facts:
    """Read back what `to_document` gave. Raises ValueError when it is something else."""
    try:
        return Facts(
            name=_text(document, "name"),
            description=_text(document, "description"),
            phone=_text(document, "phone"),
            email=_text(document, "email"),
            address=_text(document, "address"),
            price_range=_text(document, "price_range"),
            theme_colour=_text(document, "theme_colour"),
            language=_text(document, "language"),
            opening_hours=_texts(document, "opening_hours"),
            links=_texts(document, "links"),
            offers=tuple(Offer(**entry) for entry in _entries(document, "offers")),
            news=tuple(News(**entry) for entry in _entries(document, "news")),
            sections=tuple(Section(**entry) for entry in _entries(document, "sections")),
            pictures=tuple(Picture(**entry) for entry in _entries(document, "pictures")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"these are no facts: {error!r}") from error


def _merge_two(first: Facts, second: Facts) -> Facts:
    return Facts(
        **{part.name: _join(getattr(first, part.name), getattr(second, part.name)) for part in fields(Facts)}
    )


def _one_of_each(pictures: tuple[Picture, ...]) -> tuple[Picture, ...]:
    """One entry an address, with the first description that is given for it."""
    described = {picture.url: picture for picture in reversed(pictures) if picture.alt}
    return tuple(
        described.get(url, Picture(url)) for url in dict.fromkeys(picture.url for picture in pictures)
    )


def _join(first: Any, second: Any) -> Any:
    if isinstance(first, tuple):
        return tuple(dict.fromkeys(first + second))[:MOST_ITEMS]
    return first or second


def _text(document: Mapping[str, object], name: str) -> str:
    value = document[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _sequence(document: Mapping[str, object], name: str) -> list[object]:
    value = document[name]
    if not isinstance(value, list | tuple):
        raise TypeError(f"{name} is no list")
    return list(value)


def _texts(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    return tuple(str(entry) for entry in _sequence(document, name))


def _entries(document: Mapping[str, object], name: str) -> list[dict[str, str]]:
    entries = _sequence(document, name)
    return [
        {str(key): str(value) for key, value in entry.items()} for entry in entries if isinstance(entry, dict)
    ]
