"""The contract for types in processes of their own: what becomes of their jobs, in the database."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from support import isolated_jobs
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually, looked
from support.factories import enqueue, status_of
from support.isolation import Ledger, gone, is_there, ledger
from support.running import brisk, running
from support.working import job_row
from wakeful.core.settings import Settings
from wakeful.telemetry.events import (
    JOB_CANCELLED,
    JOB_FINISHED,
    JOB_HANDED_BACK,
    JOB_OVERLAPPED,
    JOB_RETRIED,
    JOB_STARTED,
    JOB_STUCK,
)

__all__ = ["ledger"]


def isolated(*, concurrency: int = 4, processes: int = 1, memory: int = 512) -> Settings:
    settings = brisk(concurrency=concurrency)
    worker = replace(settings.worker, processes=processes, process_memory=memory)
    return replace(settings, worker=worker)


async def test_result_steps_lines_and_what_is_asked_for_are_stored(
    db: ClonedDatabase, sql: Connection
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated()) as one:
        job_id = (await enqueue(sql, "ASK")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(job_id))
        logged = "select array_agg(message order by line_no) from wakeful.job_log where job_id = $1"
        lines = await eventually(lambda: sql.fetchval(logged, job_id))

    row = await job_row(sql, job_id)
    assert (row["status"], row["result"], row["degraded"]) == ("DONE", "asked", ["the moon is not out"])
    assert [(step["name"], step["status"]) for step in row["progress"]["steps"]] == [
        ("first", "done"),
        ("second", "done"),
    ]
    assert "looked up at=sky" in lines
    assert await sql.fetchval("select count(*) from wakeful.jobs where job_type = 'FOLLOW'") == 1
    assert await sql.fetchval("select kind from wakeful.alert_outbox") == "moon_missing"


async def test_a_deadline_ends_the_attempt_at_once_and_nothing_overlaps(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated(concurrency=1)) as one:
        job_id = (await enqueue(sql, "DEAF")).job_id
        (pid,) = await ledger.pids("deaf")
        (attempt,) = one.parts.attempts.running.values()
        attempt.deadline = 0.0
        await one.recorder.seen(JOB_RETRIED, job_id=str(job_id))
        assert not is_there(pid)
        other = (await enqueue(sql, "ECHO")).job_id
        await one.recorder.seen(JOB_FINISHED, job_id=str(other))
        assert not one.recorder.of(JOB_STUCK) and not one.recorder.of(JOB_OVERLAPPED)

    row = await job_row(sql, job_id)
    assert (row["last_error"], row["attempts"]) == ("JobDeadlineExceeded: ran for more than 60 s", 1)


async def test_a_crash_is_a_failed_attempt_that_says_how(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated(processes=2)) as one:
        neighbour = (await enqueue(sql, "LOOK")).job_id
        await ledger.noted("looking")
        job_id = (await enqueue(sql, "DIE", payload={"how": "segfault"})).job_id
        await one.recorder.seen(JOB_RETRIED, job_id=str(job_id))
        assert await status_of(sql, neighbour) == "RUNNING"
        await sql.execute("select wakeful.cancel($1)", neighbour)
        await one.recorder.seen(JOB_FINISHED, job_id=str(neighbour))

    row = await job_row(sql, job_id)
    assert row["last_error"] == "ProcessDied: the handler's process ended before the handler did: SIGSEGV"
    assert (row["attempts"], row["lost"]) == (1, 0)
    errors = await sql.fetchval("select errors::text from wakeful.jobs where job_id = $1", job_id)
    assert "ProcessDied" in errors and "Traceback" not in errors, "whose code would that show?"
    assert await sql.fetchval("select count(*) from wakeful.alert_outbox where kind = 'last_words'") == 1


async def test_an_error_is_stored_as_it_was_raised_there(db: ClonedDatabase, sql: Connection) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated()) as one:
        failed = (await enqueue(sql, "RAISE", payload={"what": "ValueError"})).job_id
        snoozed = (await enqueue(sql, "RAISE", payload={"what": "Snooze"})).job_id
        given_up = (await enqueue(sql, "RAISE", payload={"what": "Fail"})).job_id
        discarded = (await enqueue(sql, "RAISE", payload={"what": "Discard"})).job_id
        await eventually(lambda: status_of(sql, discarded), until=lambda status: status == "CANCELLED")
        await eventually(lambda: status_of(sql, given_up), until=lambda status: status == "DEAD")
        await one.recorder.seen(JOB_RETRIED, job_id=str(failed))
        await eventually(lambda: job_row(sql, snoozed), until=lambda row: row["snoozed"])

    row = await job_row(sql, failed)
    assert row["last_error"] == "ValueError: no such colour"
    assert "isolated_jobs.py" in row["errors"][0]["traceback"]
    assert "Traceback" in row["errors"][0]["traceback"]


async def test_a_cancel_reaches_the_handler_and_then_its_process(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated()) as one:
        job_id = (await enqueue(sql, "WAIT")).job_id
        await ledger.noted("waiting")
        await sql.execute("select wakeful.cancel($1)", job_id)
        await one.recorder.seen(JOB_CANCELLED, job_id=str(job_id))
        assert await ledger.noted("stopped") == [["True"]]

        deaf = (await enqueue(sql, "DEAF")).job_id
        (pid,) = await ledger.pids("deaf")
        await sql.execute("select wakeful.cancel($1)", deaf)
        await one.recorder.seen(JOB_CANCELLED, job_id=str(deaf))
        assert not is_there(pid)

    assert await status_of(sql, deaf) == "CANCELLED"


async def test_a_stop_hands_the_job_back_and_leaves_no_process(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated()) as one:
        job_id = (await enqueue(sql, "DEAF")).job_id
        (pid,) = await ledger.pids("deaf")
        await sql.execute("select wakeful.pause('default')")
        one.parts.attempts.interrupt_all()
        await one.recorder.seen(JOB_HANDED_BACK, job_id=str(job_id))
        assert not is_there(pid)

    row = await job_row(sql, job_id)
    assert (row["status"], row["attempts"], row["handed_back"]) == ("PENDING", 0, 1)
    await gone(*one.parts.executing.processes.pids)


async def test_memory_past_the_limit_fails_the_attempt(db: ClonedDatabase, sql: Connection) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated(memory=128)) as one:
        job_id = (await enqueue(sql, "GROW")).job_id
        await one.recorder.seen(JOB_RETRIED, job_id=str(job_id))

    assert (await job_row(sql, job_id))["last_error"].startswith(
        "MemoryLimitExceeded: the handler's process had "
    )


@pytest.mark.case("I12")
async def test_a_held_interpreter_stops_neither_the_heartbeat_nor_other_jobs(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated(processes=2)) as one:
        job_id = (await enqueue(sql, "HOLD", payload={})).job_id
        holding, _sleeper = await ledger.pids("holding")
        beats = "select beat_seq from wakeful.instance where instance_id = $1"
        before = await sql.fetchval(beats, one.instance_id)
        for _ in range(3):
            other = (await enqueue(sql, "ECHO")).job_id
            await one.recorder.seen(JOB_FINISHED, job_id=str(other))
        await eventually(lambda: sql.fetchval(beats, one.instance_id), until=lambda beat: beat > before + 2)
        assert is_there(holding)
        assert await status_of(sql, job_id) == "RUNNING"
        (attempt,) = one.parts.attempts.running.values()
        attempt.deadline = 0.0
        await one.recorder.seen(JOB_RETRIED, job_id=str(job_id))


async def test_a_job_that_waits_for_a_process_is_not_charged_for_it(
    db: ClonedDatabase, sql: Connection, ledger: Ledger
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated(concurrency=2)) as one:
        first = (await enqueue(sql, "LOOK")).job_id
        await ledger.noted("looking")
        late = (await enqueue(sql, "ECHO")).job_id
        await one.recorder.seen(JOB_STARTED, job_id=str(late))
        waiting = next(each for each in one.parts.attempts.running.values() if each.job_id == late)
        await eventually(looked(lambda: waiting.waited))
        waiting.deadline = 0.0
        run_no = "select run_no from wakeful.ready where job_id = $1"
        await eventually(lambda: sql.fetchval(run_no, late), until=lambda number: number == 2)
        await sql.execute("select wakeful.cancel($1)", first)
        await one.recorder.seen(JOB_FINISHED, job_id=str(late))

    row = await job_row(sql, late)
    assert (row["status"], row["attempts"], row["handed_back"]) == ("DONE", 1, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_signal_to_the_process_costs_one_attempt(
    db: ClonedDatabase, sql: Connection, ledger: Ledger, number: int
) -> None:
    async with running(db, isolated_jobs.registry, settings=isolated()) as one:
        job_id = (await enqueue(sql, "LOOK")).job_id
        (pid,) = await ledger.pids("looking")
        os.kill(pid, number)
        await one.recorder.seen(JOB_RETRIED, job_id=str(job_id))

    assert signal.Signals(number).name in (await job_row(sql, job_id))["last_error"]
