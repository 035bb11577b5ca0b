"""Letters: what an alert says stands in its subject and text, and can't become a header of its own."""

from __future__ import annotations

from email import message_from_bytes

import pytest

from support.messages import DELIVERY_ID, body
from wakeful.outbox.cards.letters import letter

HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References"),
    *("Auto-Submitted", "X-Auto-Response-Suppress", "MIME-Version", "Content-Type"),
}


@pytest.mark.parametrize(
    "text",
    [
        "=?utf-8?q?a=0D=0ABcc:_evil@example.com?=",
        "=?utf-8?b?YQ0KQmNjOiBldmlsQGV4YW1wbGUuY29t?=",
        "=?utf-7?q?a+AA0ACg-Bcc:_evil@example.com?=",
        "==?=?utf-8?q?a=0ABcc:_evil@example.com?=",
        "a\r\nBcc: evil@example.com",
    ],
)
@pytest.mark.parametrize("field", ["title", "environment"])
def test_no_text_of_an_alert_becomes_a_header(field: str, text: str) -> None:
    raw = letter(
        body(**{field: text}), DELIVERY_ID, sender="a@b.example", recipients=["c@d.example"]
    ).as_bytes()

    head = raw.partition(b"\r\n\r\n")[0]
    assert set(message_from_bytes(raw).keys()) == HEADERS
    assert b"\n" not in head.replace(b"\r\n", b"")
    assert b"\nBcc" not in head


def test_a_subject_that_looks_encoded_is_shown_as_it_is() -> None:
    mail = letter(
        body(title="=?utf-8?q?x?= died"), DELIVERY_ID, sender="a@b.example", recipients=["c@d.example"]
    )

    assert mail["Subject"] == "[production] = ?utf-8?q?x?= died"
