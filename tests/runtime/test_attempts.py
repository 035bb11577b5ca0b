"""The one timer over all attempts: deadlines, fences, stubborn handlers, in this order and each told once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support.holding import make_holding
from support.working import telling
from wakeful.errors import JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost
from wakeful.handlers.control import AttemptControl
from wakeful.runtime.attempts import (
    AGAIN_SECONDS,
    STUCK_SECONDS,
    Attempt,
    Attempts,
    Overseeing,
    ask,
    oversee,
    request_cancel,
    run_overseer,
)
from wakeful.runtime.lease import Lease, Owner, suspended_clock
from wakeful.telemetry.events import JOB_CANCEL_REQUESTED, JOB_OVERLAPPED, JOB_STUCK, LEASE_FENCED
from wakeful.telemetry.recorder import Recorder


class _InThread:
    """A place whose threads carry every attempt."""

    def carries(self, _label: str) -> bool:
        return True

    def waits(self, _label: str) -> bool:
        return False


@dataclass(slots=True, kw_only=True)
class Office:
    """An overseer and what it did; `now` moves only when told to."""

    attempts: Attempts
    overseeing: Overseeing
    lease: Lease
    recorder: Recorder
    now: float = 1000.0
    replaced: list[Attempt] = field(default_factory=list)
    given_up: list[Attempt] = field(default_factory=list)
    may_replace: bool = True
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    cancellations: dict[int, int] = field(default_factory=dict)

    def begin(self, *, deadline: float = 10.0, on_loop: bool = True) -> Attempt:
        """An attempt of a handler that counts its cancellations and goes on."""
        number = len(self.tasks)
        self.cancellations[number] = 0

        async def deaf() -> None:
            while True:
                try:
                    await anyio.sleep_forever()
                except asyncio.CancelledError:
                    self.cancellations[number] += 1
                    if self.cancellations[number] > 100:
                        raise

        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(deaf())
        self.tasks.append(task)
        attempt = Attempt(
            make_holding(),
            AttemptControl(deadline),
            task=task,
            seconds=deadline,
            place=None if on_loop else _InThread(),
            started=self.now,
        )
        self.attempts.begin(attempt)
        return attempt

    def look(self, after: float = 0.0) -> None:
        """Let time pass, and look."""
        self.now += after
        oversee(self.attempts, self.overseeing, self.now)


@asynccontextmanager
async def office() -> AsyncIterator[Office]:
    telemetry, recorder = telling()
    lease = Lease()
    lease.registered(Owner(1, 1), sent=suspended_clock())
    attempts = Attempts()

    def replace(attempt: Attempt) -> bool:
        if made.may_replace:
            made.replaced.append(attempt)
        return made.may_replace

    def give_up(attempt: Attempt) -> None:
        made.given_up.append(attempt)

    overseeing = Overseeing(lease=lease, telemetry=telemetry, replace=replace, give_up=give_up)
    made = Office(attempts=attempts, overseeing=overseeing, lease=lease, recorder=recorder)
    try:
        yield made
    finally:
        for number, task in enumerate(made.tasks):
            made.cancellations[number] = 1000
            task.cancel()
        await asyncio.wait(made.tasks) if made.tasks else None


def asked_now(o: Office, attempt: Attempt) -> None:
    """Put the time at which the attempt was asked on the test's clock."""
    assert attempt.asked is not None
    attempt.asked = attempt.delivered = o.now


async def test_an_attempt_is_left_alone_until_its_deadline_and_asked_then() -> None:
    async with office() as o:
        attempt = o.begin(deadline=10.0)
        await anyio.lowlevel.checkpoint()
        o.look(after=9.9)
        assert not attempt.control.cancelled
        o.look(after=0.2)
        assert isinstance(attempt.control.reason, JobDeadlineExceeded)
        assert str(attempt.control.reason) == "ran for more than 10 s"
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert o.cancellations == {0: 1}


async def test_a_handler_that_goes_on_is_asked_again_stuck_replaced_and_given_up_in_time() -> None:
    async with office() as o:
        attempt = o.begin(deadline=10.0)
        o.look(after=10.0)
        asked_now(o, attempt)
        o.look(after=AGAIN_SECONDS)
        assert not attempt.stuck
        o.look(after=STUCK_SECONDS)
        assert attempt.stuck
        assert o.replaced == [attempt]
        for _ in range(8):
            o.look(after=1.0)
        assert o.given_up == []
        o.look(after=1.0)
        o.look(after=1.0)
        assert o.given_up == [attempt]
        assert o.replaced == [attempt]
        for event in (JOB_STUCK, JOB_OVERLAPPED):
            assert len(o.recorder.of(event)) == 1
        assert o.recorder.of(JOB_STUCK)[0]["kind"] == "async"


async def test_a_thread_is_never_cancelled_only_told() -> None:
    async with office() as o:
        attempt = o.begin(deadline=10.0, on_loop=False)
        o.look(after=10.0)
        asked_now(o, attempt)
        for _ in range(20):
            o.look(after=1.0)
        await anyio.lowlevel.checkpoint()
        assert o.cancellations == {0: 0}
        assert attempt.control.cancelled
        assert o.recorder.of(JOB_STUCK)[0]["kind"] == "thread"


async def test_a_place_that_could_not_be_given_away_is_asked_for_again() -> None:
    async with office() as o:
        attempt = o.begin(deadline=60.0)
        o.may_replace = False
        o.look(after=60.0)
        asked_now(o, attempt)
        o.look(after=2.0)
        assert attempt.stuck
        assert not attempt.replaced
        o.may_replace = True
        o.look(after=1.0)
        assert attempt.replaced


async def test_without_a_beat_for_80_percent_of_its_lease_an_attempt_is_fenced() -> None:
    async with office() as o:
        attempt = o.begin(deadline=3600.0)
        o.lease._sent = suspended_clock() - 0.79 * 30
        o.look()
        assert not attempt.control.cancelled
        o.lease._sent = suspended_clock() - 0.81 * 30
        o.look()
        assert isinstance(attempt.control.reason, LeaseLost)
        assert attempt.fenced
        assert o.recorder.of(LEASE_FENCED)[0]["stage"] == "running"


@pytest.mark.case("I1")
async def test_an_attempt_that_only_the_database_silences_is_handed_back_and_counts_as_no_lost_owner() -> (
    None
):
    async with office() as o:
        attempt = o.begin(deadline=3600.0)
        o.lease.sending()
        o.lease._sent = suspended_clock() - 0.81 * 30
        o.look()
        assert isinstance(attempt.control.reason, JobInterrupted)
        assert not attempt.fenced


async def test_the_fence_goes_by_the_lease_of_each_type() -> None:
    async with office() as o:
        short, long = o.begin(deadline=3600.0), o.begin(deadline=3600.0)
        long.holding.lease = 180.0
        o.lease._sent = suspended_clock() - 100
        o.look()
        assert short.fenced
        assert not long.fenced


async def test_the_first_reason_stands() -> None:
    async with office() as o:
        attempt = o.begin(deadline=10.0)
        request_cancel(o.attempts, o.overseeing.telemetry, attempt.holding)
        request_cancel(o.attempts, o.overseeing.telemetry, attempt.holding)
        o.look(after=20.0)
        o.attempts.interrupt_all()
        assert isinstance(attempt.control.reason, JobCancelled)
        assert len(o.recorder.of(JOB_CANCEL_REQUESTED)) == 1


async def test_a_cancellation_is_of_the_claim_that_it_names() -> None:
    async with office() as o:
        former = o.begin()
        current = o.begin()
        current.holding = make_holding(job_id=former.job_id, claim=99)
        o.attempts.begin(current)
        assert o.attempts.cancel(former.holding, LeaseLost("another claim")) is former
        assert not current.control.cancelled
        o.attempts.end(former.holding)
        assert o.attempts.running[current.holding] is current
        assert o.attempts.cancel(former.holding, LeaseLost("another claim")) is None


async def test_everything_is_interrupted_when_the_process_stops() -> None:
    async with office() as o:
        attempts = [o.begin(), o.begin(on_loop=False)]
        o.attempts.interrupt_all()
        assert all(isinstance(one.control.reason, JobInterrupted) for one in attempts)
        assert o.attempts.interrupting


@pytest.mark.parametrize("waiters", [1, 3])
async def test_whoever_waits_for_the_last_attempt_goes_on_when_it_has_ended(waiters: int) -> None:
    async with office() as o:
        first, second = o.begin(), o.begin()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(waiters):
                    group.start_soon(o.attempts.idle)
                await anyio.wait_all_tasks_blocked()
                o.attempts.end(first.holding)
                await anyio.wait_all_tasks_blocked()
                assert len(o.attempts.running) == 1
                o.attempts.end(second.holding)
        await o.attempts.idle()


async def test_the_timer_turns_by_itself_and_ends_with_the_stop() -> None:
    async with office() as o:
        attempt = o.begin()
        attempt.deadline = 0.0
        stop = anyio.Event()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(run_overseer, o.attempts, o.overseeing, stop)
                while not attempt.control.cancelled:
                    await anyio.sleep(0.01)
                stop.set()


async def test_asking_delivers_at_once() -> None:
    async with office() as o:
        attempt = o.begin()
        await anyio.lowlevel.checkpoint()
        ask(attempt, JobInterrupted("stopping"))
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        assert o.cancellations == {0: 1}


async def test_who_watches_handlers_sleeps_until_one_begins() -> None:
    async with office() as o:
        told, stop = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as group:
            group.cancel_scope.deadline = anyio.current_time() + 5
            group.start_soon(o.attempts.begun, stop, 3600.0, told.set)
            await anyio.lowlevel.checkpoint()
            assert not told.is_set()
            o.begin()
            assert told.is_set()  # in the same step: before the handler's own first one
        assert not group.cancel_scope.cancelled_caught
        await o.attempts.begun(anyio.Event(), 3600.0)  # one runs: no wait


async def test_who_sleeps_until_a_handler_begins_ends_with_the_stop() -> None:
    async with office() as o:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(o.attempts.begun, stop)
            await anyio.lowlevel.checkpoint()
            stop.set()
