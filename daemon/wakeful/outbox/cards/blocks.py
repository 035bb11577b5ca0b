"""A message of Block Kit, for Slack: texts of others as plain text, or escaped where markup is read.

Links are written as links and not as buttons: a button asks Slack to call an app back, and a webhook has none.
What a message may have is checked in `test_sink_cards.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Link, Message, read
from wakeful.outbox.cards.shortening import Room, cut, fitting, utf16_units
from wakeful.outbox.cards.telling import Fact

LARGEST_BYTES: Final = 30_000
_HEADER: Final = 150
_SECTION: Final = 3000
_FIELDS: Final = 10
_FALLBACK: Final = 300
_LABEL: Final = 75

_Block = dict[str, Any]


def slack_message(body: str, most: int = LARGEST_BYTES) -> bytes:
    """Give the bytes to post for a stored message. Raises ValueError where it is none."""
    message = read(body)
    return fitting(lambda room: _message(message, replace(room, lines=_SECTION)), most=most)


def escaped(text: str) -> str:
    """Give a text as Slack's markup shows it: no links, no mentions, no end of the code that it may stand in."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return safe.replace("`", "\N{MODIFIER LETTER GRAVE ACCENT}")


def _message(message: Message, room: Room) -> _Block:
    title = f"{telling.sign(message)} {message.notice.title}"
    blocks = [
        {"type": "header", "text": _plain(title, _HEADER)},
        {"type": "context", "elements": [_plain(telling.state(message), _FALLBACK)]},
        *_facts(telling.times(message, room)),
        *_error(message, room),
        *_facts(telling.facts(message, room)),
        *_lines(telling.samples(message, room, size=utf16_units)),
        *_lines(telling.others(message, room, size=utf16_units)),
        *_lines([telling.note(message)]),
        *_links(message.notice.links),
    ]
    fallback = f"{telling.state(message)}: {message.notice.title}"
    return {
        "text": escaped(cut(fallback, _FALLBACK, size=_escaped_size)),
        "mrkdwn": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": blocks,
    }


def _facts(facts: Iterable[Fact]) -> list[_Block]:
    fields = [_plain(f"{fact.label}\n{fact.value}", 2000) for fact in facts]
    return [{"type": "section", "fields": fields[:_FIELDS]}] if fields else []


def _error(message: Message, room: Room) -> list[_Block]:
    error = telling.error(message, min(room.text, telling.ERROR_SHOWN), size=_escaped_size)
    return [_markup(f"```{escaped(error)}```")] if error else []


def _lines(lines: Sequence[str]) -> list[_Block]:
    text = "\n".join(line for line in lines if line)
    return [{"type": "section", "text": _plain(text, _SECTION)}] if text else []


def _links(links: tuple[Link, ...]) -> list[_Block]:
    found: list[str] = []
    for link in links:
        label = escaped(cut(link.label, _LABEL, size=_escaped_size))
        more = f"<{link.url.replace('&', '&amp;')}|{label}>"
        if utf16_units("  ·  ".join([*found, more])) <= _SECTION:
            found.append(more)
    return [_markup("  ·  ".join(found))] if found else []


def _plain(text: str, most: int) -> _Block:
    return {"type": "plain_text", "text": cut(text, most, size=utf16_units), "emoji": False}


def _markup(text: str) -> _Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}


def _escaped_size(text: str) -> int:
    return utf16_units(escaped(text))
