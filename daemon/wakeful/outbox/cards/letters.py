"""A letter by e-mail: the same bytes at every try, one thread an alert, plain text and simple HTML.

Invariant: no text of a message can begin a header or end one: `document` has taken line breaks out, and none is brought
back by an encoded word (`=?utf-8?q?=0A?=`), which the library would decode: a subject has none.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final
from uuid import UUID

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, read
from wakeful.outbox.cards.shortening import Room, cut
from wakeful.outbox.cards.telling import Fact

_ROOM: Final = Room(text=1500, entries=20)
_TITLE: Final = 200
_SUBJECT: Final = 150
_FIRST: Final = frozenset({"alert.opened", telling.TEST, telling.DIGEST})
# Each colour is given with its ground, for both themes: one alone would be unreadable in the other.
_LOOKS: Final = (
    ":root{color-scheme:light dark}"
    "body{font-family:sans-serif;margin:12px;background:#fff;color:#1f1f1f}"
    "h1{font-size:1.15em;margin:.3em 0 .6em}"
    "p,h1,td,div{overflow-wrap:anywhere}div{margin:4px 0}"
    "td{vertical-align:top;padding:2px 0}td.what{padding-right:12px;white-space:nowrap;color:#595959}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:10px;margin:.8em 0;background:#f2f2f2;color:#1f1f1f}"
    "a{color:#0b57d0}"
    "a.open{display:inline-block;padding:8px 14px;margin:0 8px 8px 0;border:1px solid #767676;border-radius:4px}"
    "@media(prefers-color-scheme:dark){body{background:#1b1b1b;color:#f0f0f0}td.what{color:#b5b5b5}"
    "pre{background:#2b2b2b;color:#f0f0f0}a{color:#a8c7fa}}"
)


def letter(body: str, delivery_id: UUID, *, sender: str, recipients: Sequence[str]) -> EmailMessage:
    """Give the letter for a stored message. Raises ValueError where it is none."""
    message = read(body)
    domain = _domain(sender)
    thread = f"<{_thread(message)}@{domain}>"
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = subject(message).replace("=?", "= ?")
    mail["List-Id"] = f"Alerts of Wakeful <alerts.wakeful.{domain}>"
    mail["Date"] = _date(message.timestamp)
    mail["Message-ID"] = f"<{delivery_id}@{domain}>"
    # The first letter of a thread is one that nobody sends: then it does not matter which arrives first.
    mail["In-Reply-To"] = thread
    mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(plain_text(message), cte="base64")
    mail.add_alternative(_page(message), subtype="html", cte="base64")
    mail.set_boundary(f"=_{delivery_id.hex}")
    return mail


def subject(message: Message) -> str:
    """Give the subject: the same for all letters of a thread, but for "Re:", since many programs go by it.

    So it is made of what an alert is known by: its title is that of its latest occurrence, and changes.
    """
    notice = message.notice
    name = notice.dedupe_key or notice.group or notice.title
    if message.type == telling.DIGEST:
        name = "summary of alerts"
    elif not name.startswith(notice.kind):
        name = f"{notice.kind}: {name}"
    again = "" if message.type in _FIRST else "Re: "
    return again + cut(f"[{notice.environment or 'wakeful'}] {name}", _SUBJECT)


def headline(message: Message) -> str:
    """Give what happened in one line, for who is told by a line and a text."""
    environment = message.notice.environment
    return cut(f"{telling.sign(message)} [{environment or 'wakeful'}] {message.notice.title}", _TITLE)


def plain_text(message: Message) -> str:
    """Give all that a card says as plain text."""
    notice = message.notice
    parts = [
        f"{telling.sign(message)} {telling.state(message)}\n{cut(notice.title, _TITLE)}",
        _rows(telling.times(message, _ROOM)),
        telling.error(message, _ROOM.text),
        _rows(telling.facts(message, _ROOM)),
        "\n".join((*telling.samples(message, _ROOM), *telling.others(message, _ROOM))),
        telling.note(message),
        "\n".join(f"{link.label}: {link.url}" for link in notice.links),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _rows(facts: Iterable[Fact]) -> str:
    return "\n".join(f"{fact.label}: {fact.value}" for fact in facts)


def _thread(message: Message) -> str:
    notice = message.notice
    told = "\0".join((notice.environment, notice.dedupe_key or notice.group, notice.kind))
    return f"wakeful.{notice.alert_id or 'all'}.{hashlib.sha256(told.encode()).hexdigest()[:24]}"


def _page(message: Message) -> str:
    notice = message.notice
    error = telling.error(message, _ROOM.text)
    lines = (*telling.samples(message, _ROOM), *telling.others(message, _ROOM), telling.note(message))
    links = "".join(f'<a class="open" href="{_safe(one.url)}">{_safe(one.label)}</a>' for one in notice.links)
    return (
        '<!DOCTYPE html><html><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><style>{_LOOKS}</style></head><body>'
        f"<p>{_safe(telling.sign(message))} {_safe(telling.state(message))}</p>"
        f'<h1 dir="auto">{_safe(cut(notice.title, _TITLE))}</h1>'
        + _table(telling.times(message, _ROOM))
        + (f'<pre dir="auto">{_safe(error)}</pre>' if error else "")
        + _table(telling.facts(message, _ROOM))
        + "".join(f'<div dir="auto">{_safe(line)}</div>' for line in lines if line)
        + (f"<p>{links}</p>" if links else "")
        + "</body></html>\n"
    )


def _table(facts: Iterable[Fact]) -> str:
    rows = "".join(
        f'<tr><td class="what">{_safe(fact.label)}</td><td>{_safe(fact.value)}</td></tr>' for fact in facts
    )
    return f"<table>{rows}</table>" if rows else ""


def _safe(text: str) -> str:
    return html.escape(text, quote=True)


def _domain(sender: str) -> str:
    return sender.rpartition("@")[2].strip(" >") or "localhost"


def _date(text: str) -> datetime:
    """Give when the message was made: not when it is sent, so that all tries are the same."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return datetime(2000, 1, 1, tzinfo=UTC)
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
