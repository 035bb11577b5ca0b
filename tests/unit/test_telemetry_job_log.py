"""What attempts log: each line carries the names of its own job, and the last hundred are kept for its page."""

from __future__ import annotations

import asyncio
import copy
import io
import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from uuid import UUID

import anyio
import anyio.lowlevel
import pytest
import structlog

from support.attempts import make_job
from wakeful.core.job import Job
from wakeful.core.settings import LogSettings
from wakeful.telemetry.job_log import LineBuffer, attempt_context, job_logger
from wakeful.telemetry.logging import configure_logging
from wakeful.telemetry.redaction import Redactor


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where all that is logged goes to, as JSON."""
    stream = io.StringIO()
    undo = configure_logging(LogSettings(format="json"), Redactor(["geheim"]), stream=stream)
    yield stream
    undo()


async def test_each_line_carries_its_own_job_in_tasks_and_in_threads(stream: io.StringIO) -> None:
    """F93: many jobs in few slots, of both kinds of handlers, each saying its own number."""
    numbers = iter(range(500))

    async def work(threads: ThreadPoolExecutor) -> None:
        for number in numbers:
            names, lines = _names(number), LineBuffer(Redactor())
            async with anyio.create_task_group() as attempt:
                attempt.start_soon(_attempt, names, lines, threads)
            assert [line.message for line in lines.lines()] == [
                f"mine {number}",
                f"any {number}",
                f"std {number}",
            ]
            logging.getLogger("worker").info("between")

    with ThreadPoolExecutor(4) as threads:
        async with anyio.create_task_group() as workers:
            for _ in range(16):
                workers.start_soon(work, threads)

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    of_jobs = [line for line in lines if line["event"] != "between"]
    assert len(of_jobs) == 1500 and len(lines) == 2000
    for line in of_jobs:
        number = int(line["event"].split()[1])
        assert (line["job_id"], line["attempt"]) == (str(UUID(int=number)), number)
    assert not [
        line for line in lines if line["event"] == "between" and ("job_id" in line or "bound" in line)
    ]


async def _attempt(names: Job, lines: LineBuffer, threads: ThreadPoolExecutor) -> None:
    with attempt_context(names, lines):
        if names.attempts % 2:
            await asyncio.get_running_loop().run_in_executor(
                threads, copy_context().run, _handle, names, lines
            )
        else:
            await anyio.lowlevel.checkpoint()
            _handle(names, lines)


def _handle(names: Job, lines: LineBuffer) -> None:
    structlog.contextvars.bind_contextvars(bound="by the handler, never taken back")
    job_logger(names, lines).info(f"mine {names.attempts}")
    structlog.get_logger("any").info("any %d", names.attempts)
    logging.getLogger("std").info("std %d", names.attempts)


def test_the_logger_of_a_job_works_where_logging_is_not_configured(caplog: pytest.LogCaptureFixture) -> None:
    lines = LineBuffer(Redactor())

    with caplog.at_level(logging.INFO):
        log = job_logger(_names(7), lines)
        log.bind(place="Café").warning("fetched %d", 4, url="postgresql://a:pw@h/x")

    (line,) = lines.lines()
    assert line.message == "fetched 4 place=Café url=postgresql://a:***@h/x"
    assert (line.level, line.logged_at.utcoffset() is not None) == ("warning", True)
    assert [(record.name, record.message) for record in caplog.records] == [("wakeful.job", "fetched 4")]


def test_an_exception_is_kept_as_its_text_and_logged_whole(stream: io.StringIO) -> None:
    lines = LineBuffer(Redactor())
    log = job_logger(_names(7), lines)
    try:
        raise ValueError("no such place")
    except ValueError as error:
        log.exception("bad")
        log.error("bad", exc_info=error)

    assert {line.message for line in lines.lines()} == {'bad error="ValueError: no such place"'}
    assert {line.level for line in lines.lines()} == {"error"}
    for line in stream.getvalue().splitlines():
        assert json.loads(line)["exception"][0]["exc_value"] == "no such place"


def test_the_last_hundred_lines_are_kept_bounded_and_clean() -> None:
    lines = LineBuffer(Redactor(["geheim"]))
    log = job_logger(_names(1), lines)
    for number in range(250):
        log.info("line %d geheim\nforged\x00\ud800", number, text="x" * 100_000)

    kept = lines.lines()
    assert len(kept) == 100
    assert kept[-1].message.startswith("line 249 ***\\nforged\u2400")
    assert all(len(line.message.encode()) <= 4096 for line in kept)


def test_debug_lines_are_kept_only_where_they_are_logged(stream: io.StringIO) -> None:
    lines = LineBuffer(Redactor())
    log = job_logger(_names(1), lines)

    log.debug("quiet")
    logging.getLogger("wakeful.job").setLevel(logging.DEBUG)
    log.debug("loud")
    logging.getLogger("wakeful.job").setLevel(logging.NOTSET)

    assert [line.message for line in lines.lines()] == ["loud"]


def test_what_a_handler_binds_comes_before_its_names_and_what_it_clears_does_not_take_them(
    stream: io.StringIO,
) -> None:
    with attempt_context(_names(3), LineBuffer(Redactor())):
        structlog.contextvars.bind_contextvars(queue="mine", place="x")
        structlog.get_logger("any").info("bound")
        structlog.contextvars.clear_contextvars()
        logging.getLogger("any").info("cleared")

    bound, cleared = (json.loads(line) for line in stream.getvalue().splitlines())
    assert list(bound)[4:] == ["attempt", "job_id", "job_type", "place", "queue", "run_no"]
    assert (bound["queue"], bound["place"], bound["attempt"]) == ("mine", "x", 3)
    assert (cleared["queue"], cleared["attempt"]) == ("default", 3)


async def test_the_logger_of_a_job_is_a_structlog_logger_in_all_that_it_can_do(stream: io.StringIO) -> None:
    log = job_logger(_names(3), LineBuffer(Redactor()))

    bound = copy.copy(log).bind(place="x", page=1)
    bound.unbind("page").try_unbind("none").info("one")
    bound.new(other=2).warn("two")
    log.log(logging.ERROR, "three %s", "times")
    await log.acritical("four")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        *(("info", "one"), ("warning", "two")),
        *(("error", "three times"), ("critical", "four")),
    ]
    assert [(line.get("place"), line.get("page"), line.get("other")) for line in lines] == [
        *(("x", None, None), (None, None, 2)),
        *((None, None, None), (None, None, None)),
    ]
    assert structlog.get_context(bound.bind(a=1)) == {"a": 1}
    assert {line["job_id"] for line in lines} == {str(UUID(int=3))}
    assert log.is_enabled_for(logging.DEBUG) and not hasattr(log, "no_such_method")


def test_a_line_is_kept_once(stream: io.StringIO) -> None:
    lines = LineBuffer(Redactor())
    names = _names(1)

    with attempt_context(names, lines):
        job_logger(names, lines).info("mine")
        logging.getLogger("wakeful").info("an event of the daemon")
    logging.getLogger("x").info("after the attempt")

    assert [line.message for line in lines.lines()] == ["mine"]


def _names(number: int) -> Job:
    return make_job(job_id=UUID(int=number), attempts=number)
