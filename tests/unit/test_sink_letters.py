"""Letters: what an alert says stands in its subject and text, and can't become a header of its own."""

from __future__ import annotations

from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

import pytest

from support.messages import DELIVERY_ID, body
from wakeful.outbox.cards.letters import letter

HEADERS = {
    *("From", "To", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "List-Id"),
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
@pytest.mark.parametrize("field", ["title", "environment", "dedupe_key", "kind"])
def test_no_text_of_an_alert_becomes_a_header(field: str, text: str) -> None:
    raw = letter(
        body(**{field: text}), DELIVERY_ID, sender="a@b.example", recipients=["c@d.example"]
    ).as_bytes()

    head = raw.partition(b"\r\n\r\n")[0]
    assert set(message_from_bytes(raw).keys()) == HEADERS
    assert b"\n" not in head.replace(b"\r\n", b"")
    assert b"\nBcc" not in head


def made(text: str, sender: str = "Wakeful <a@b.example>") -> EmailMessage:
    return letter(text, DELIVERY_ID, sender=sender, recipients=["운영팀 <c@d.example>", "e@f.example"])


def test_a_subject_that_looks_encoded_is_shown_as_it_is() -> None:
    mail = made(body(dedupe_key="job_dead:=?utf-8?q?x?= died"))

    assert mail["Subject"] == "[production] job_dead:= ?utf-8?q?x?= died"


STATES = ["opened", "updated", "reminder", "acknowledged", "resolved"]


def test_all_letters_about_an_alert_have_one_subject_and_all_but_the_first_are_answers() -> None:
    subjects = [
        made(
            body(
                f"alert.{state}",
                title=f"COLLECT died: place {n} has gone",
                severity="critical",
                occurrences=n,
            )
        )["Subject"]
        for n, state in enumerate(STATES)
    ]

    assert (
        subjects
        == ["[production] job_dead:COLLECT:place 9"] + ["Re: [production] job_dead:COLLECT:place 9"] * 4
    )


def test_a_key_that_does_not_say_what_it_is_about_has_the_kind_before_it() -> None:
    assert (
        made(body(kind="publish_failed", dedupe_key="8f3a"))["Subject"] == "[production] publish_failed: 8f3a"
    )


def test_a_list_can_be_filtered_and_nobody_answers_by_a_program() -> None:
    mail = made(body())

    assert mail["List-Id"] == "Alerts of Wakeful <alerts.wakeful.b.example>"
    assert (mail["Auto-Submitted"], mail["X-Auto-Response-Suppress"]) == ("auto-generated", "All")


@pytest.mark.parametrize("error", ["x" * 200_000, "한국어 " * 50_000, "\U0001f9d1\u200d\U0001f4bb" * 9000])
def test_every_line_is_short_enough_and_the_text_is_whole_again_when_it_is_read(error: str) -> None:
    raw = made(body(error=error, title=error[:500], dedupe_key=error[:300]), "알림 <a@b.example>").as_bytes()

    assert max(map(len, raw.split(b"\r\n"))) <= 78
    assert raw.isascii()
    mail = message_from_bytes(raw, policy=default)
    assert str(mail["From"]) == "알림 <a@b.example>"
    assert str(mail["To"]) == "운영팀 <c@d.example>, e@f.example"
    for kind in ("plain", "html"):
        part = mail.get_body((kind,))
        assert part is not None and error[:40] in part.get_content()


def test_the_page_has_its_own_colours_for_day_and_for_night_and_fits_a_phone() -> None:
    page = made(body()).get_body(("html",))

    assert page is not None
    assert 'name="viewport"' in page.get_content() and "prefers-color-scheme:dark" in page.get_content()
