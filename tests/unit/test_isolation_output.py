"""What is printed in a process of handlers is of the attempt that printed it or of nobody, and without its secrets."""

from __future__ import annotations

import io
import logging
import os

import pytest

from support.eventually import eventually, looked
from support.isolated_jobs import note
from support.isolation import Ledger, ledger, processes
from wakeful.core.settings import LogSettings
from wakeful.handlers.isolation.output import LINE_LIMIT_BYTES, Output
from wakeful.telemetry.logging import configure_logging
from wakeful.telemetry.redaction import Redactor

__all__ = ["ledger"]


async def test_what_a_process_prints_becomes_lines_of_the_attempt() -> None:
    async with processes() as one:
        ran = await one.run("ASK")
        died = await one.run("DIE", how="segfault")

    printed = [message for _level, message in (*ran.messages, *died.messages) if "printed_by=" in message]
    assert "printed" in printed[0]
    assert "\x1b" not in printed[0]
    assert printed[1].startswith("complained")
    assert any("Segmentation fault" in line for line in printed)  # and after it, where that was


async def test_what_is_printed_last_is_the_attempts_too() -> None:
    async with processes() as one:
        ran = await one.run("PRINT")

    assert ran.messages[-2][1].startswith("line 249 ")
    assert ran.messages[-1][1].startswith("unended ")


async def test_no_line_that_is_printed_goes_to_the_next_attempt(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with processes() as one:
        ran = await one.run("PRINT", lines=5000)
        following = await one.run("PRINT", lines=3)

    said = [record.getMessage() for record in caplog.records if record.name == "wakeful.job"]
    assert said[-4:] == ["line 0", "line 1", "line 2", "unended"]
    assert len(following.messages) == 4
    assert ran.messages[-2][1].startswith("line 4999 ")
    left_out = sum(int(line.split()[0]) for line in said if "left out" in line)
    assert len([line for line in said[:-4] if line.startswith("line ")]) + left_out == 5000
    assert "wakeful.output" not in [record.name for record in caplog.records]


async def test_what_is_printed_between_attempts_is_of_neither(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with processes() as one:
        ran = await one.run("LEAK")
        note("over")
        await ledger.noted("late")
        following = await one.run("ECHO")

    assert [*ran.messages, *following.messages] == []
    assert ("wakeful.output", logging.INFO, "printed late") in caplog.record_tuples


@pytest.mark.parametrize("end", ["returns", "died", "garbage"])
async def test_a_secret_that_is_printed_is_shown_nowhere(end: str) -> None:
    shown = io.StringIO()
    undo = configure_logging(LogSettings(format="json"), Redactor(), stream=shown)
    try:
        async with processes() as one:
            ran = await one.run("TOKEN", token="hunter2-secret", lines=900, **{end: True})
            await one.run("ECHO")
    finally:
        undo()

    kept = "".join(message for _level, message in ran.messages)
    assert "card ***" in kept and "card ***" in shown.getvalue()
    assert "hunt" not in kept + shown.getvalue()


async def test_of_a_line_without_end_no_later_part_is_said() -> None:
    ours, theirs = os.pipe()
    output, said = Output(ours), list[str]()
    output.claim(said.append)
    os.write(theirs, b"x" * (2 * LINE_LIMIT_BYTES - 3) + b"hunter2")
    await eventually(looked(lambda: said))
    os.write(theirs, b"-secret\nnext\n")
    await eventually(looked(lambda: len(said) == 2))
    os.write(theirs, b"x" * (2 * LINE_LIMIT_BYTES + 1))
    await eventually(looked(lambda: len(said) == 3))
    os.write(theirs, b"-secret\nlast")
    output.settle()
    output.close()
    os.close(theirs)

    assert (said[1], said[3:]) == ("next", ["last"])


async def test_what_is_left_when_a_pipe_ends_is_said() -> None:
    ours, theirs = os.pipe()
    output, said = Output(ours), list[str]()
    output.claim(said.append)
    os.write(theirs, b"line\n" * 200 + b"last")
    os.close(theirs)
    await eventually(looked(lambda: "last" in said))

    assert said == ["line"] * 200 + ["last"]


async def test_what_is_said_late_where_secrets_have_been_is_only_counted(ledger: Ledger) -> None:
    shown = io.StringIO()
    undo = configure_logging(LogSettings(format="json"), Redactor(), stream=shown)
    try:
        async with processes() as one:
            await one.run("TOKEN", token="hunter2-secret", lines=1, late=True)
            note("over")
            await ledger.noted("late")
            following = await one.run("ECHO")
    finally:
        undo()

    assert following.messages == []
    assert "hunt" not in shown.getvalue()
    assert shown.getvalue().count("not shown") == 2  # by print, and by a logger


async def test_what_a_thread_says_after_its_attempt_is_not_the_next_ones(
    ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    async with processes() as one:
        ran = await one.run("LEAK")
        note("over")
        await ledger.noted("late")
        following = await one.run("ECHO")

    assert [*ran.messages, *following.messages] == []
    assert "too late" in caplog.messages
