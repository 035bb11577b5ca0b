"""Letters, to a real SMTP server: what is sent, what its answers mean, and that nothing goes in the clear."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from support.mailbox import PASSWORD, USER, Mailbox, certified, running_mailbox
from support.messages import KOREAN, PAYLOAD_VALUE, body, delivery, digest
from support.vendors import outcome, settings_of, shows_a_secret, tried
from wakeful.outbox.cards.letters import letter
from wakeful.outbox.sinks import Failed, Sent, Sink, build_sinks
from wakeful.telemetry.bus import Telemetry

ONE, TWO = "one@example.com", "two@example.com"


def sink_of(url: str, *, password: str | None = None, timeout: float = 30.0) -> Sink:
    settings = replace(settings_of("email", url, timeout=timeout), key=password)
    (sink,) = build_sinks({"mail": settings}, Telemetry(strict=True))
    return sink


def plain(mailbox: Mailbox) -> Sink:
    return sink_of(f"smtp+plain://127.0.0.1:{mailbox.port}")


async def test_a_letter_says_all_that_people_need_as_text_and_as_a_page() -> None:
    async with running_mailbox() as mailbox:
        answered = await tried(plain(mailbox), delivery(body(error=KOREAN, title="COLLECT died <b>")))

    assert answered == Sent("taken for 2 of 2 recipients")
    assert mailbox.recipients == [[ONE, TWO]]
    (mail,) = mailbox.parsed()
    text, page = (mail.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None and page is not None
    for part in (text.get_content(), page.get_content()):
        for said in (
            "37 times",
            "2026-12-01 05:48:18 UTC",
            "5 of 5",
            "place 9",
            "production",
            KOREAN,
            "Open job",
        ):
            assert said in part, said
        assert PAYLOAD_VALUE not in part
    assert "<b>" in text.get_content() and "<b>" not in page.get_content()
    assert mail["Subject"] == "[production] job_dead:COLLECT:place 9"
    assert mail["Auto-Submitted"] == "auto-generated"


async def test_the_letters_about_one_alert_are_one_thread_and_each_try_has_the_same_bytes() -> None:
    async with running_mailbox() as mailbox:
        sink = plain(mailbox)
        opened = delivery(body())
        resolved = replace(delivery(body("alert.resolved", resolved_reason="quiet")), delivery_id=UUID(int=2))
        other = replace(delivery(body(alert_id=8)), delivery_id=UUID(int=3))
        for one in (opened, opened, resolved, other):
            assert outcome(await tried(sink, one)) == "sent"

    first, again, end, another = mailbox.parsed()
    assert mailbox.letters[0] == mailbox.letters[1]
    assert first["Message-ID"] == again["Message-ID"] == f"<{opened.delivery_id}@example.com>"
    assert first["Message-ID"] != end["Message-ID"]
    assert first["References"] == end["References"] == end["In-Reply-To"] != another["References"]
    assert end["Subject"] == f"Re: {first['Subject']}"


@pytest.mark.parametrize(
    "ending", ["\r\nBcc: evil@example.com", "\nBcc: evil@example.com", "\x0bBcc:", "\u2028Bcc: x"]
)
async def test_no_text_of_an_alert_becomes_a_header(ending: str) -> None:
    hostile = f"a title{ending}\r\n\r\nand a body"
    async with running_mailbox() as mailbox:
        message = body(title=hostile, environment=hostile, subject=hostile, kind=hostile, dedupe_key=hostile)
        assert outcome(await tried(plain(mailbox), delivery(message))) == "sent"

    (mail,) = mailbox.parsed()
    assert "Bcc" not in mail
    assert mailbox.recipients == [[ONE, TWO]]
    head = mailbox.letters[0].partition(b"\r\n\r\n")[0]
    assert not re.search(rb"^Bcc", head, re.MULTILINE | re.IGNORECASE)


def test_a_long_subject_in_any_script_survives_its_encoding() -> None:
    mail = letter(
        body(dedupe_key="job_dead:" + "한" * 500),
        UUID(int=1),
        sender="a@b.example",
        recipients=["c@d.example"],
    )

    assert mail["Subject"].startswith("[production] job_dead:한한")
    assert all(len(one) <= 998 for one in mail.as_bytes().splitlines())


@pytest.mark.parametrize("text", [digest(), body("alert.test"), body(error="한국 " * 100_000)])
async def test_every_message_is_a_letter(text: str) -> None:
    async with running_mailbox() as mailbox:
        assert outcome(await tried(plain(mailbox), delivery(text))) == "sent"

    assert len(mailbox.letters[0]) < 60_000


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("250 taken", "sent"),
        ("451 try later", "retry"),
        ("421 closing", "retry"),
        ("552 too large", "never"),
        ("554 no", "never"),
    ],
)
async def test_what_the_server_says_of_the_letter(said: str, meant: str) -> None:
    async with running_mailbox() as mailbox:
        mailbox.data = f"{said} passw0rd-of-mail"
        answered = await tried(plain(mailbox))

    assert outcome(answered) == meant
    assert len(mailbox.letters) == 1
    assert shows_a_secret([answered], PASSWORD) == []


async def test_a_letter_that_one_recipient_took_is_not_sent_again() -> None:
    async with running_mailbox() as mailbox:
        mailbox.refused = {TWO: "550 nobody here"}
        answered = await tried(plain(mailbox))

    assert answered == Sent("taken for 1 of 2 recipients")
    assert mailbox.recipients == [[ONE]]


@pytest.mark.parametrize("said", ["550 nobody here", "450 busy"])
async def test_a_letter_that_nobody_took_is_tried_again(said: str) -> None:
    async with running_mailbox() as mailbox:
        mailbox.refused = {ONE: said, TWO: said}
        answered = await tried(plain(mailbox))

    assert outcome(answered) == "retry"
    assert mailbox.letters == []


async def test_with_starttls_the_password_and_the_letter_are_encrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, trusted = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with running_mailbox(tls=tls) as mailbox:
        answered = await tried(sink_of(f"smtp://{USER}@localhost:{mailbox.port}", password=PASSWORD))

    assert outcome(answered) == "sent", answered
    assert mailbox.encrypted == [True]


async def test_tls_from_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls, trusted = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with running_mailbox(tls=tls, implicit=True) as mailbox:
        answered = await tried(sink_of(f"smtps://localhost:{mailbox.port}"))

    assert outcome(answered) == "sent", answered
    assert len(mailbox.letters) == 1


async def test_a_server_that_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    tls, _ = certified(tmp_path)
    async with running_mailbox(tls=tls) as mailbox:
        answered = await tried(sink_of(f"smtp://{USER}@localhost:{mailbox.port}", password=PASSWORD))

    assert outcome(answered) == "retry"
    assert mailbox.letters == []
    assert shows_a_secret([answered], PASSWORD) == []


@pytest.mark.parametrize("user", ["", f"{USER}@"])
async def test_without_starttls_nothing_is_sent_in_the_clear(user: str) -> None:
    async with running_mailbox() as mailbox:
        answered = await tried(sink_of(f"smtp://{user}localhost:{mailbox.port}", password=PASSWORD))

    assert outcome(answered) == "retry"
    assert mailbox.letters == []


async def test_a_wrong_password_is_tried_again_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, trusted = certified(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with running_mailbox(tls=tls) as mailbox:
        answered = await tried(sink_of(f"smtp://{USER}@localhost:{mailbox.port}", password="wr0ng-passw0rd"))

    assert isinstance(answered, Failed)
    assert "535" in answered.reason and not answered.permanent
    assert shows_a_secret([answered], "wr0ng-passw0rd") == []


@pytest.mark.parametrize("text", ["[]", "not json"])
async def test_what_is_no_message_is_given_up(text: str) -> None:
    async with running_mailbox() as mailbox:
        assert outcome(await tried(plain(mailbox), delivery(text))) == "never"

    assert mailbox.letters == []


async def test_a_server_that_is_away_is_a_failure() -> None:
    async with running_mailbox() as mailbox:
        sink = plain(mailbox)

    assert outcome(await tried(sink)) == "retry"
