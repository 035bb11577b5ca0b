"""An embed, for Discord: texts of others escaped, and nobody mentioned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, is_time, read
from wakeful.outbox.cards.shortening import Room, cut, encoded, utf16_units
from wakeful.outbox.cards.telling import Fact

# Of one message all texts together may have 6,000 characters; with this room they stay under it.
WHOLE: Final = Room(text=telling.ERROR_SHOWN, entries=20, lines=1200)
_TITLE: Final = 256
_VALUE: Final = 1024
_LABEL: Final = 80
_NARROW: Final = 24  # of what stands beside others, three in a row
_COLOURS: Final[Mapping[str, int]] = {
    "info": 0x3B82F6,
    "warning": 0xEAB308,
    "error": 0xDC2626,
    "critical": 0x991B1B,
}
_RESOLVED_COLOUR: Final = 0x16A34A
_MARKUP: Final = re.compile(r"([\\*_~|`>#\[\]()<:@-])")


def discord_message(body: str, room: Room = WHOLE) -> bytes:
    """Give the bytes to post for a stored message. Raises ValueError where it is none."""
    message = read(body)
    return encoded({"allowed_mentions": {"parse": []}, "embeds": [_embed(message, room)]})


def escaped(text: str) -> str:
    """Give a text as Discord shows it: nothing in it is markup."""
    return _MARKUP.sub(r"\\\1", text)


def cut_escaped(text: str, most: int) -> str:
    """Give a text as Discord shows it, and as much of it as is at most so many characters then."""
    return escaped(cut(text, most, size=_escaped_size))


def _embed(message: Message, room: Room) -> dict[str, Any]:
    title = cut(message.notice.title, telling.TITLE_SHOWN)
    colour = _RESOLVED_COLOUR if telling.is_resolved(message) else _COLOURS[message.notice.severity]
    embed: dict[str, Any] = {
        "author": {"name": cut(telling.state(message), _TITLE, size=utf16_units)},
        "title": cut_escaped(f"{telling.sign(message)} {title}", _TITLE),
        "color": colour,
        "description": _description(message, room),
        "fields": [*map(_fact, telling.facts(message, room)), *_links(message)],
    }
    return embed | ({"timestamp": message.timestamp} if is_time(message.timestamp) else {})


def _description(message: Message, room: Room) -> str:
    times = "\n".join(f"**{fact.label}:** {escaped(fact.value)}" for fact in telling.times(message, room))
    error = telling.error(message, room.text, size=utf16_units)
    code = "```\n" + error.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}") + "\n```" if error else ""
    jobs = telling.samples(message, room, size=_escaped_size)
    left = replace(room, lines=2 * room.lines - utf16_units(code) - sum(map(_escaped_size, jobs)) - len(jobs))
    lines = (*jobs, *telling.others(message, left, size=_escaped_size), telling.note(message))
    return "\n".join(part for part in (times, code, *map(escaped, lines)) if part)


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "name": fact.label,
        "value": cut_escaped(fact.value, _LABEL * 2),
        "inline": len(fact.value) <= _NARROW,
    }


def _links(message: Message) -> list[dict[str, Any]]:
    shown = ""
    for link in message.notice.links:
        label = cut_escaped(link.label, _LABEL)
        address = link.url.replace("(", "%28").replace(")", "%29")
        more = f"{shown} · [{label}]({address})" if shown else f"[{label}]({address})"
        shown = more if utf16_units(more) <= _VALUE else shown
    return [{"name": "Links", "value": shown, "inline": False}] if shown else []


def _escaped_size(text: str) -> int:
    return utf16_units(escaped(text))
