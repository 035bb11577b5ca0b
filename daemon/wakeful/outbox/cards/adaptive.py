"""An Adaptive Card in the envelope that Teams takes: as Workflows want it, and as far as old connectors go.

Texts of others stand in `RichTextBlock`s, whose runs are plain: a `TextBlock` or a `FactSet` would read markup in them.
What a card may have is checked in `test_sink_cards.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, read
from wakeful.outbox.cards.shortening import Room, cut, fitting
from wakeful.outbox.cards.telling import Fact

# Teams takes 28 KB, counts in UTF-16 and has refused from about 14 KB of text on.
LARGEST_BYTES: Final = 14_000
_LABEL: Final = 40
_STYLES: Final[Mapping[str, str]] = {
    "info": "accent",
    "warning": "warning",
    "error": "attention",
    "critical": "attention",
}

_Element = dict[str, Any]


def adaptive_message(body: str, most: int = LARGEST_BYTES) -> bytes:
    """Give the bytes to post for a stored message, `most` in UTF-16. Raises ValueError where it is none."""
    message = read(body)
    return fitting(lambda room: _envelope(message, room), most=most)


def _envelope(message: Message, room: Room) -> _Element:
    card = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": _card(message, room),
    }
    return {"type": "message", "attachments": [card]}


def _card(message: Message, room: Room) -> _Element:
    notice = message.notice
    title = cut(notice.title, min(room.text, telling.TITLE_SHOWN))
    body = [
        _head(message, title),
        *_facts(telling.times(message, room)),
        *_error(message, room),
        *_facts(telling.facts(message, room)),
        *_lines(message, room),
    ]
    card: _Element = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "msteams": {"width": "Full"},
        "fallbackText": title,
        "body": body,
    }
    actions = [
        {"type": "Action.OpenUrl", "title": cut(link.label, _LABEL), "url": link.url}
        for link in (notice.links if room.entries else notice.links[:1])
    ]
    return card | ({"actions": actions} if actions else {})


def _head(message: Message, title: str) -> _Element:
    style = "good" if telling.is_resolved(message) else _STYLES[message.notice.severity]
    return {
        "type": "Container",
        "style": style,
        "bleed": True,
        "items": [
            _text(_run(f"{telling.sign(message)} {telling.state(message)}", weight="Bolder")),
            _text(_run(title, weight="Bolder", size="Large"), spacing="Small"),
        ],
    }


def _facts(facts: Iterable[Fact]) -> list[_Element]:
    return [
        _text(_run(f"{fact.label}: ", isSubtle=True), _run(fact.value), spacing="Small") for fact in facts
    ]


def _error(message: Message, room: Room) -> list[_Element]:
    error = telling.error(message, min(room.text, telling.ERROR_SHOWN))
    if not error:
        return []
    items = [_text(_run(error, fontType="Monospace"))]
    return [{"type": "Container", "style": "emphasis", "items": items}]


def _lines(message: Message, room: Room) -> list[_Element]:
    lines = (*telling.samples(message, room), *telling.others(message, room), telling.note(message))
    shown = [_text(_run(line), spacing="Small") for line in lines if line]
    return [one | ({} if number else {"spacing": "Default"}) for number, one in enumerate(shown)]


def _text(*runs: _Element, spacing: str = "Default") -> _Element:
    return {"type": "RichTextBlock", "spacing": spacing, "inlines": list(runs)}


def _run(text: str, **looks: object) -> _Element:
    return {"type": "TextRun", "text": text, **looks}
