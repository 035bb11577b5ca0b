"""A letter by e-mail: the same bytes at every try, one thread an alert, plain text and simple HTML.

Invariant: no text of a message can begin a header or end one: `document` has taken line breaks out, and none is brought
back by an encoded word (`=?utf-8?q?=0A?=`), which the library would decode: a subject has none.
"""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final
from uuid import UUID

from wakeful.outbox.cards import telling
from wakeful.outbox.cards.document import Message, read
from wakeful.outbox.cards.shortening import Room, cut

_ROOM: Final = Room(text=3000, entries=20)
_SUBJECT: Final = 200


def letter(body: str, delivery_id: UUID, *, sender: str, recipients: Sequence[str]) -> EmailMessage:
    """Give the letter for a stored message. Raises ValueError where it is none."""
    message = read(body)
    domain = _domain(sender)
    thread = f"<{_thread(message)}@{domain}>"
    mail = EmailMessage(policy=SMTP)
    mail["From"] = sender
    mail["To"] = ", ".join(recipients)
    mail["Subject"] = subject(message).replace("=?", "= ?")
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
    """Give the subject: the same for all letters of a thread, since many programs go by it."""
    environment = message.notice.environment
    return cut(f"[{environment or 'wakeful'}] {message.notice.title}", _SUBJECT)


def plain_text(message: Message) -> str:
    """Give all that a card says as plain text."""
    notice = message.notice
    parts = [
        f"{telling.state(message)}\n{notice.title}",
        "\n".join(f"{fact.label}: {fact.value}" for fact in telling.facts(message, _ROOM)),
        cut(notice.error, _ROOM.text),
        "\n".join((*telling.samples(message, _ROOM), *telling.others(message, _ROOM))),
        telling.note(message),
        "\n".join(f"{link.label}: {link.url}" for link in notice.links),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _thread(message: Message) -> str:
    notice = message.notice
    told = "\0".join((notice.environment, notice.dedupe_key or notice.group, notice.kind))
    return f"wakeful.{notice.alert_id or 'all'}.{hashlib.sha256(told.encode()).hexdigest()[:24]}"


def _page(message: Message) -> str:
    notice = message.notice
    rows = "".join(
        f"<tr><td style='padding-right:1em;color:#666'>{_safe(fact.label)}</td><td>{_safe(fact.value)}</td></tr>"
        for fact in telling.facts(message, _ROOM)
    )
    error = cut(notice.error, _ROOM.text)
    lines = (*telling.samples(message, _ROOM), *telling.others(message, _ROOM), telling.note(message))
    links = " &middot; ".join(f"<a href='{_safe(link.url)}'>{_safe(link.label)}</a>" for link in notice.links)
    return (
        "<!DOCTYPE html><html><head><meta charset='utf-8'></head><body style='font-family:sans-serif'>"
        f"<p>{_safe(telling.sign(message))} {_safe(telling.state(message))}</p><h2>{_safe(notice.title)}</h2>"
        f"<table>{rows}</table>"
        + (
            f"<pre style='white-space:pre-wrap;background:#f4f4f4;padding:.8em'>{_safe(error)}</pre>"
            if error
            else ""
        )
        + "".join(f"<p>{_safe(line)}</p>" for line in lines if line)
        + (f"<p>{links}</p>" if links else "")
        + "</body></html>\n"
    )


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
