"""Letters and servers of mail: whom they name, what servers say of senders and at odd moments, and who they are."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import trustme

from support.mailbox import PASSWORD, USER, running_mailbox
from support.messages import body, delivery
from support.vendors import outcome, settings_of, shows_a_secret, tried
from wakeful.core.settings import SinkSettings
from wakeful.outbox.sinks import Sink, build_sinks
from wakeful.telemetry.bus import Telemetry

ONE, TWO = "one@example.com", "two@example.com"


def sink_of(url: str, *, timeout: float = 30.0, **changed: object) -> Sink:
    settings = replace(settings_of("email", url, timeout=timeout), **changed)  # type: ignore[arg-type]
    assert isinstance(settings, SinkSettings)
    (sink,) = build_sinks({"mail": settings}, Telemetry(strict=True))
    return sink


@asynccontextmanager
async def dialogue(*lines: str, hold: bool = False) -> AsyncIterator[int]:
    """A server that says one line after another, whatever it hears; then hangs up, or is silent with `hold`."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(OSError):
            for number, line in enumerate(lines):
                if number and not await reader.readline():
                    break
                writer.write(f"{line}\r\n".encode())
                await writer.drain()
            while hold and await reader.readline():
                pass

    server = await asyncio.start_server(take, "127.0.0.1", 0, limit=1 << 20)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def test_names_in_any_script_arrive_as_they_are() -> None:
    async with running_mailbox() as mailbox:
        sink = sink_of(
            f"smtp+plain://127.0.0.1:{mailbox.port}",
            sender="알림 봇 <wakeful@example.com>",
            recipients=("운영팀 <one@example.com>", TWO),
        )
        assert outcome(await tried(sink)) == "sent"

    (mail,) = mailbox.parsed()
    assert str(mail["From"]) == "알림 봇 <wakeful@example.com>"
    assert str(mail["To"]) == "운영팀 <one@example.com>, two@example.com"
    assert mailbox.recipients == [[ONE, TWO]]


async def test_a_thread_holds_though_the_title_changes_with_each_occurrence() -> None:
    told = ["alert.opened", "alert.updated", "alert.reminder", "alert.resolved"]
    async with running_mailbox() as mailbox:
        sink = sink_of(f"smtp+plain://127.0.0.1:{mailbox.port}")
        for number, kind in enumerate(told):
            text = body(kind, title=f"COLLECT died: place {number} has gone", resolved_reason="quiet")
            assert (
                outcome(await tried(sink, replace(delivery(text), delivery_id=UUID(int=number + 1))))
                == "sent"
            )

    letters = mailbox.parsed()
    assert len({str(one["References"]) for one in letters}) == 1
    assert len({str(one["Message-ID"]) for one in letters}) == 4
    assert len({str(one["Subject"]).removeprefix("Re: ") for one in letters}) == 1
    assert [str(one["Subject"]).startswith("Re: ") for one in letters] == [False, True, True, True]


async def test_one_recipient_who_is_told_to_wait_costs_the_others_nothing() -> None:
    async with running_mailbox() as mailbox:
        mailbox.refused = {ONE: "450 greylisted"}
        answered = await tried(sink_of(f"smtp+plain://127.0.0.1:{mailbox.port}"))

    assert outcome(answered) == "sent"
    assert "1 of 2" in str(answered)
    assert mailbox.recipients == [[TWO]]


@pytest.mark.parametrize(
    "lines",
    [
        ["421 too busy"],
        ["554 no service"],
        ["220 hello", "421 not now"],
        ["220 hello", "250 mailbox", "550 not this sender"],
        ["220 hello", "250 mailbox", "451 not this sender now"],
        ["220 hello", "250 mailbox", "250 fine", "250 fine", "250 fine", "354 go on"],
        ["220 hello", "250 mailbox", "250 fine", "250 fine", "250 fine", "554 no letters"],
        ["not smtp at all"],
        ["220 " + "x" * 100_000],
    ],
)
async def test_whatever_a_server_says_before_the_letter_is_tried_again(lines: list[str]) -> None:
    async with dialogue(*lines) as port:
        answered = await tried(sink_of(f"smtp+plain://127.0.0.1:{port}"))

    meant = "never" if lines[-1] == "554 no letters" else "retry"
    assert outcome(answered) == meant, answered
    assert shows_a_secret([answered], PASSWORD) == []


@pytest.mark.parametrize(
    "lines",
    [[], ["220 hello"], ["220 hello", "250 mailbox", "250 fine", "250 fine", "250 fine", "354 go on"]],
)
async def test_a_server_that_falls_silent_costs_the_time_of_one_try(lines: list[str]) -> None:
    async with dialogue(*lines, hold=True) as port:
        answered = await tried(sink_of(f"smtp+plain://127.0.0.1:{port}", timeout=0.4))

    assert outcome(answered) == "retry"


async def test_a_user_where_the_server_knows_no_passwords_sends_nothing() -> None:
    async with running_mailbox() as mailbox:
        answered = await tried(sink_of(f"smtp+plain://{USER}@127.0.0.1:{mailbox.port}", key=PASSWORD))

    assert outcome(answered) == "retry"
    assert mailbox.letters == []
    assert shows_a_secret([answered], PASSWORD) == []


WRONG = {
    "expired": "it has expired",
    "another host's": "another host",
    "a stranger's": "nobody who is trusted",
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("implicit", [True, False], ids=["smtps", "starttls"])
async def test_a_server_with_a_wrong_certificate_gets_neither_letter_nor_password_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, implicit: bool
) -> None:
    authority, stranger, now = trustme.CA(), trustme.CA(), datetime.now(UTC)
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    long_ago, lately = now - timedelta(days=9), now - timedelta(days=1)
    certificate = {
        "expired": lambda: authority.issue_cert("localhost", not_before=long_ago, not_after=lately),
        "another host's": lambda: authority.issue_cert("elsewhere.example"),
        "a stranger's": lambda: stranger.issue_cert("localhost"),
    }[wrong]()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(tls)
    scheme = "smtps" if implicit else "smtp"
    async with running_mailbox(tls=tls, implicit=implicit) as mailbox:
        answered = await tried(sink_of(f"{scheme}://{USER}@localhost:{mailbox.port}", key=PASSWORD))

    assert outcome(answered) == "retry"
    assert WRONG[wrong] in str(answered), answered
    assert mailbox.letters == []
    assert shows_a_secret([answered], PASSWORD) == []
