"""Alerts as lines of the log: bounded, readable, and refused for good where there is nothing to tell."""

from __future__ import annotations

import io
import json

import pytest

from support.messages import ENGLISH, PAYLOAD_VALUE, body, delivery
from support.vendors import outcome
from wakeful.core.settings import LogSettings
from wakeful.outbox.sinks import LogSink, Sent
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import ALERT_TOLD
from wakeful.telemetry.logging import configure_logging, log_subscriber
from wakeful.telemetry.recorder import Recorder


def told() -> tuple[LogSink, Recorder]:
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)
    return LogSink("log", telemetry), recorder


async def test_a_line_says_all_that_a_card_says() -> None:
    sink, recorder = told()

    assert await sink.send(delivery()) == Sent("logged")

    (line,) = recorder.of(ALERT_TOLD)
    assert (line["title"], line["occurrences"], line["error"]) == ("COLLECT died: no prices", 37, ENGLISH)
    assert (line["attempts"], line["environment"], line["subject"]) == ("5 of 5", "production", "place 9")
    assert str(line["first_seen"]).startswith("2026-12-01T05:48:18")
    assert PAYLOAD_VALUE not in str(line)


async def test_a_line_says_what_to_do_and_why_it_is_over() -> None:
    sink, recorder = told()

    await sink.send(delivery(body(advice="start an instance", resolved_reason="quiet")))

    (line,) = recorder.of(ALERT_TOLD)
    assert (line["advice"], line["resolved_reason"]) == ("start an instance", "quiet")


async def test_no_text_makes_a_line_long_or_two_of_it() -> None:
    sink, recorder = told()
    text = "한국어\n\x1b[31m " * 50_000

    await sink.send(delivery(body(title=text, error=text, subject=text, job_type=text, environment=text)))

    (line,) = recorder.of(ALERT_TOLD)
    for name in ("title", "error", "subject", "job_type", "environment"):
        assert len(str(line[name])) <= 500, name
        assert not any(ord(character) < 32 for character in str(line[name])), name


@pytest.mark.parametrize("text", ["[]", "{}", "not json", "[" * 100_000, '{"data": 7}'])
async def test_what_is_no_message_is_given_up(text: str) -> None:
    sink, recorder = told()

    assert outcome(await sink.send(delivery(text))) == "never"

    assert recorder.of(ALERT_TOLD) == []


async def test_a_secret_in_an_alert_is_in_no_line() -> None:
    telemetry, log = Telemetry(strict=True), io.StringIO()
    telemetry.redactor.add("geheim-geheim")
    undo = configure_logging(LogSettings(format="json", level="debug"), telemetry.redactor, stream=log)
    telemetry.subscribe(log_subscriber)
    try:
        secret = "could not reach postgresql://bob:s3cr3t@host/name with geheim-geheim"
        await LogSink("log", telemetry).send(delivery(body(title=secret, error=secret)))
    finally:
        undo()

    line = json.loads(log.getvalue())
    assert line["event"] == "alert.told"
    assert "geheim" not in log.getvalue() and "s3cr3t" not in log.getvalue()
