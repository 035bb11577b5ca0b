"""Processes of handlers come to an end in every way, and it costs the job that ran there and nothing else (R8)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import isolated_jobs
from support.eventually import eventually, looked
from support.isolation import Ledger, gone, is_there, ledger, processes
from support.sources import TOP
from unit.test_isolation import raised_by, value_of
from wakeful import JobCancelled, JobDeadlineExceeded, JobInterrupted
from wakeful.errors import MemoryLimitExceeded, ProcessDied
from wakeful.handlers.invoke import Raised, Returned
from wakeful.handlers.isolation.carrying import LINE_WEIGHT, TURN_WEIGHT

__all__ = ["ledger"]

PR_SET_CHILD_SUBREAPER = 36
ENDS = {
    "segfault": "ended before the handler did: SIGSEGV",
    "exit": "ended before the handler did: exit code 7",
    # It then ends by itself: which of the two is seen first is the machine's.
    "closes": "ended before the handler did: ",
    "garbage": "was killed: it sent a message that is no JSON",
    "endless": "was killed: it sent a message that says to have 4294967295 bytes",
    signal.SIGKILL: "SIGKILL (by hand, or by the kernel when memory ran out)",
    signal.SIGTERM: "ended before the handler did: SIGTERM",
    signal.SIGABRT: "ended before the handler did: SIGABRT",
}


@pytest.mark.parametrize("how", ENDS, ids=str)
async def test_a_process_that_dies_says_how_and_the_next_job_has_another(how: str | int) -> None:
    async with processes() as one:
        (before,) = one.pool.pids
        died = await one.run("DIE", how=how)
        assert not is_there(before)
        after = value_of((await one.run("ECHO")).answer)["pid"]

    error = raised_by(died.answer)
    assert isinstance(error, ProcessDied)
    assert ENDS[how] in str(error)
    # What it had asked for before its end is kept, as for any attempt that fails.
    assert [alert.kind for alert in died.attempt.job.close().alerts] == ["last_words"]
    assert after != before


async def test_a_death_costs_no_neighbour_anything(ledger: Ledger) -> None:
    async with processes(processes=2) as one:
        looking = one.start("LOOK")
        await ledger.noted("looking")
        assert isinstance((await one.run("DIE", how="segfault")).answer, Raised)

        assert await one.stop(looking, JobInterrupted("enough")) == Returned("in time")


async def test_what_a_process_has_started_dies_with_it(ledger: Ledger) -> None:
    async with processes() as one:
        await one.run("OUTLIVE")
        await gone(*await ledger.pids("child", 3))


@pytest.mark.case("I12")
async def test_at_the_deadline_a_held_interpreter_is_killed_with_its_children_and_at_once(
    ledger: Ledger,
) -> None:
    async with processes() as one:
        held = one.start("HOLD")
        ((pid, sleeper),) = [map(int, line) for line in await ledger.noted("holding")]
        answer = await one.stop(held, JobDeadlineExceeded("ran for more than 60 s"))
        assert not is_there(pid)  # no next attempt can meet it
        await gone(sleeper)
        assert value_of((await one.run("ECHO")).answer)

    assert isinstance(answer, Raised)


async def test_a_plain_handler_sees_that_it_should_stop_and_its_process_lives_on(ledger: Ledger) -> None:
    async with processes() as one:
        looking = one.start("LOOK")
        (pid,) = await ledger.pids("looking")

        assert await one.stop(looking, JobCancelled("cancelled on request")) == Returned("in time")
        assert value_of((await one.run("ECHO")).answer)["pid"] == pid


async def test_an_async_handler_is_cancelled_and_cleans_up(ledger: Ledger) -> None:
    async with processes() as one:
        waiting = one.start("WAIT")
        (pid,) = await ledger.pids("waiting")
        assert isinstance(await one.stop(waiting, JobInterrupted("the process is stopping")), Raised)

        assert await ledger.noted("stopped") == [["True"]]
        assert value_of((await one.run("ECHO")).answer)["pid"] == pid


async def test_a_deaf_handler_is_killed_after_its_grace(ledger: Ledger) -> None:
    async with processes() as one:
        deaf = one.start("DEAF")
        (pid,) = await ledger.pids("deaf")
        answer = await one.stop(deaf, JobCancelled("cancelled on request"))

        assert isinstance(answer, Raised)
        assert isinstance(answer.exception, ProcessDied)
        assert not is_there(pid)


@pytest.mark.parametrize(("payload", "shown"), [({"leap": 8192}, "was refused more at"), ({}, "more than")])
async def test_memory_past_the_limit_is_an_error_that_names_it(payload: dict[str, int], shown: str) -> None:
    async with processes(process_memory=128) as one:
        ran = await one.run("GROW", **payload)

    error = raised_by(ran.answer)
    assert isinstance(error, MemoryLimitExceeded)
    assert f"{shown} its limit of 128 MiB (worker.process_memory)" in str(error)
    assert any(word.isdigit() for word in str(error).split(" MiB in memory")[0].split())


async def test_a_process_that_has_kept_much_is_replaced(ledger: Ledger) -> None:
    async with processes(process_memory=300) as one:
        grown = value_of((await one.run("GROW", to=200)).answer)
        assert value_of((await one.run("ECHO")).answer)["pid"] != grown
        assert await ledger.noted(f"left {grown}")  # in good order
        await gone(grown)


async def test_a_process_is_replaced_after_so_many_jobs() -> None:
    async with processes(process_jobs=2) as one:
        pids = [value_of((await one.run("ECHO")).answer)["pid"] for _ in range(5)]

    assert pids[0] == pids[1] != pids[2]
    assert pids[2] == pids[3] != pids[4]


async def test_no_more_run_at_once_than_there_may_be_and_who_waits_has_not_begun(ledger: Ledger) -> None:
    async with processes(processes=2) as one:
        running = [one.start("LOOK"), one.start("LOOK")]
        await ledger.noted("looking", 2)
        late = one.start("ECHO")
        label = late[0].attempt.job.label
        await eventually(looked(lambda: one.pool.waits(label)))
        assert len(one.pool.pids) == 2

        await one.stop(running[0], JobInterrupted("enough"))
        assert value_of(await one.answer(late[0]))
        assert not one.pool.waits(label)
        await one.stop(running[1], JobInterrupted("enough"))


async def test_a_start_goes_on_for_the_next_where_the_first_waits_no_longer() -> None:
    async with processes() as one:
        await one.run("DIE", how="exit")
        waiting = one.start("ECHO")
        await eventually(looked(lambda: one.pool.waits(waiting[0].attempt.job.label)))
        answer = await one.stop(waiting, JobInterrupted("enough"))
        assert isinstance(answer, Raised) and isinstance(answer.exception, asyncio.CancelledError)

        await eventually(looked(lambda: one.pool.idle))
        (started,) = one.pool.pids
        assert value_of((await one.run("ECHO")).answer)["pid"] == started


async def test_an_idle_process_that_dies_is_not_given_to_a_job() -> None:
    async with processes() as one:
        (pid,) = one.pool.pids
        os.kill(pid, signal.SIGKILL)
        await eventually(looked(lambda: pid not in one.pool.pids))

        assert value_of((await one.run("ECHO")).answer)["pid"] != pid


async def test_a_process_that_dies_before_it_has_begun_costs_its_job_nothing() -> None:
    async with processes() as one:
        (pid,) = one.pool.pids
        os.kill(pid, signal.SIGSTOP)
        ran, _scope = one.start("ECHO")
        await eventually(looked(lambda: not one.pool.idle))
        os.kill(pid, signal.SIGKILL)

        assert value_of(await one.answer(ran))["pid"] != pid


async def test_a_process_that_can_not_get_ready_fails_the_job_that_wanted_it_and_no_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with processes() as one:
        await one.run("DIE", how="exit")
        monkeypatch.setenv(isolated_jobs.LEDGER, "/no/such/folder/ledger")
        error = raised_by((await one.run("ECHO")).answer)
        monkeypatch.setenv(isolated_jobs.LEDGER, str(ledger.path))

        assert value_of((await one.run("ECHO")).answer)
    assert isinstance(error, ProcessDied)
    assert str(error).startswith("the process of a handler could not get ready: FileNotFoundError")


async def test_the_wait_for_a_process_takes_nothing_from_the_handlers_time(ledger: Ledger) -> None:
    async with processes() as one:
        running = one.start("LOOK")
        await ledger.noted("looking")
        late, _scope = one.start("ECHO")
        await eventually(looked(lambda: one.pool.waits(late.attempt.job.label)))
        late.attempt.clock.seconds += 59
        await one.stop(running, JobInterrupted("enough"))

        assert 50 < value_of(await one.answer(late))["left"] <= 60


async def test_where_orphans_come_to_the_daemon_they_are_buried(ledger: Ledger) -> None:
    libc = ctypes.CDLL(None)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0  # as the first process of a container
    try:
        async with processes() as one:
            await one.run("OUTLIVE")
            pids = await ledger.pids("child", 3)
            await eventually(looked(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids)))
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.parametrize("kind", ["lines", "marks", "prints"])
async def test_a_flood_keeps_the_loop_and_the_neighbours_going(ledger: Ledger, kind: str) -> None:
    async with processes(processes=2) as one:
        flooding = one.start("FLOOD", **{"with": kind})
        (pid,) = await ledger.pids("flooding")
        if kind != "marks":
            await eventually(looked(lambda: len(flooding[0].messages) == 100))
        for _ in range(20):
            assert value_of((await one.run("ECHO")).answer)["pid"] != pid
        await one.stop(flooding, JobDeadlineExceeded("ran for more than 60 s"))
        assert not is_there(pid)


async def test_of_a_flood_only_so_much_is_taken_in_one_turn_of_the_loop() -> None:
    async with processes() as one:
        flooding, scope = one.start("FLOOD", **{"with": "lines"})
        turns = Turns()
        flooding.attempt.job.log = turns
        one.group.start_soon(turns.count)
        await eventually(looked(lambda: turns.lines > 1000))
        flooding.attempt.control.cancel(JobDeadlineExceeded("ran for more than 60 s"))
        scope.cancel()
        await one.answer(flooding)

    assert turns.most <= TURN_WEIGHT // LINE_WEIGHT


class Turns:
    """A job's logger that counts how many lines come in one turn of the loop."""

    def __init__(self) -> None:
        self.lines = self.most = self._in_this_turn = 0

    async def count(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._in_this_turn = 0

    def info(self, *_arguments: object, **_fields: object) -> None:
        self.lines += 1
        self._in_this_turn += 1
        self.most = max(self.most, self._in_this_turn)


async def test_a_forked_copy_says_nothing_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    async with processes() as one:
        ran = await one.run("FORK")
        assert value_of(ran.answer) == "original"
        assert value_of((await one.run("ECHO")).answer)["pid"] == one.pool.pids[0]

    assert "from the copy" not in caplog.messages


PROGRAM = """
import anyio
from support.isolation import processes

async def main():
    async with processes(processes=2) as one:
        one.start("HOLD")
        one.start("LOOK")
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_nothing_stays_behind_when_the_daemon_is_killed(ledger: Ledger) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(TOP / "tests"), str(TOP / "examples")))}
    daemon = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PROGRAM], env=environment, stderr=subprocess.DEVNULL
    )
    try:
        holding, sleeper = await ledger.pids("holding")
        (looking,) = await ledger.pids("looking")
    finally:
        daemon.kill()
        daemon.wait()
    await gone(holding, sleeper, looking)
