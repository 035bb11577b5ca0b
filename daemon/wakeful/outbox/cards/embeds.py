"""An embed, for Discord: texts of others escaped, and nobody mentioned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, read
from wakeful.outbox.cards.shortening import Room, cut, encoded, utf16_units

# Of one message, all texts together; the rooms below stay under it.
MOST_CHARACTERS: Final = 6000
_TITLE: Final = 256
_VALUE: Final = 1024
_DESCRIPTION: Final = 2500
_LABEL: Final = 80
_COLOURS: Final[Mapping[str, int]] = {
    "info": 0x3B82F6,
    "warning": 0xEAB308,
    "error": 0xDC2626,
    "critical": 0x991B1B,
}
_RESOLVED_COLOUR: Final = 0x16A34A
_ROOM: Final = Room(text=1500, entries=8)
_MARKUP: Final = re.compile(r"([\\*_~|`>#\[\]()<:@-])")


def discord_message(body: str) -> bytes:
    """Give the bytes to post for a stored message. Raises ValueError where it is none."""
    message = read(body)
    return encoded({"allowed_mentions": {"parse": []}, "embeds": [_embed(message)]})


def escaped(text: str) -> str:
    """Give a text as Discord shows it: nothing in it is markup."""
    return _MARKUP.sub(r"\\\1", text)


def _embed(message: Message) -> dict[str, Any]:
    title = cut(f"{telling.sign(message)} {message.notice.title}", _TITLE, size=_escaped_size)
    colour = _RESOLVED_COLOUR if telling.is_resolved(message) else _COLOURS[message.notice.severity]
    embed: dict[str, Any] = {
        "title": escaped(title),
        "color": colour,
        "description": _description(message),
        "fields": [*_facts(message), *_links(message)],
        "footer": {"text": cut(telling.state(message), _TITLE, size=utf16_units)},
    }
    return embed | ({"timestamp": message.timestamp} if _is_time(message.timestamp) else {})


def _description(message: Message) -> str:
    error = cut(message.notice.error, _ROOM.text, size=utf16_units)
    code = "```\n" + error.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}") + "\n```" if error else ""
    lines = (*telling.samples(message, _ROOM), *telling.others(message, _ROOM), telling.note(message))
    text = code
    for line in lines:
        shown = escaped(cut(line, _VALUE, size=_escaped_size))
        if line and utf16_units(text) + utf16_units(shown) < _DESCRIPTION:
            text += f"\n{shown}"
    return text.strip("\n")


def _facts(message: Message) -> list[dict[str, Any]]:
    return [
        {
            "name": fact.label,
            "value": escaped(cut(fact.value, _LABEL * 2, size=_escaped_size)),
            "inline": len(fact.value) < _LABEL // 2,
        }
        for fact in telling.facts(message, _ROOM)
    ]


def _links(message: Message) -> list[dict[str, Any]]:
    shown = ""
    for link in message.notice.links:
        label = escaped(cut(link.label, _LABEL, size=_escaped_size))
        address = link.url.replace("(", "%28").replace(")", "%29")
        more = f"{shown} · [{label}]({address})" if shown else f"[{label}]({address})"
        shown = more if utf16_units(more) <= _VALUE else shown
    return [{"name": "Links", "value": shown, "inline": False}] if shown else []


def _escaped_size(text: str) -> int:
    return utf16_units(escaped(text))


def _is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
