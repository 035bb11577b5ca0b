"""The attempts that run here now, and the one timer that ends those that must not run on.

Invariant: a stop is asked for with its reason first, then delivered, again and again, until the handler has ended; the
reason, not the exception, decides what becomes of the attempt. A handler that does not end keeps its row: its worker is
replaced, up to a bound, and the attempt fails only when the grace is over (I13, F35). No handler can hold a timer up.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol
from uuid import UUID

import anyio

from wakeful.aio.periodic import pause, rest
from wakeful.aio.wakeup import Wakeup
from wakeful.errors import JobCancelled, JobDeadlineExceeded, JobInterrupted, LeaseLost, NoFreeThread
from wakeful.handlers.control import AttemptControl, StopReason
from wakeful.runtime.conclusion import Landing
from wakeful.runtime.holdings import Holding, identity_of
from wakeful.runtime.lease import INTERRUPT_AT, Lease
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import JOB_CANCEL_REQUESTED, JOB_OVERLAPPED, JOB_STUCK, LEASE_FENCED, Event

TICK_SECONDS: Final = 0.05
STUCK_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 0.5


class Place(Protocol):
    """Where handlers run that are not on the loop, each under the label of its attempt."""

    def carries(self, label: str, /) -> bool:
        """Whether its code is in a thread now, and not on the loop (a hook) or waiting for a thread."""
        ...

    def waits(self, label: str, /) -> bool:
        """Whether it waits for a thread or a process: nothing of it has run."""
        ...


class Attempt:
    """One running attempt, which may take `seconds` from now on; `place` is None for one on the loop.

    Monotonic seconds; `asked` is when its stop was first asked for. Not a dataclass: it is made for each job.
    """

    __slots__ = (
        *("asked", "control", "deadline", "delivered", "fenced", "given_up", "grace", "holding", "landed"),
        *("place", "replaced", "stuck", "task", "waited"),
    )

    def __init__(
        self,
        holding: Holding,
        control: AttemptControl,
        *,
        task: asyncio.Task[object],
        seconds: float,
        place: Place | None = None,
        landed: Callable[[Landing], None] | None = None,
        started: float | None = None,
    ) -> None:
        self.holding, self.control, self.task, self.place, self.landed = holding, control, task, place, landed
        self.deadline = (holding.started or time.monotonic() if started is None else started) + seconds
        self.grace = seconds
        self.asked: float | None = None
        self.delivered = 0.0
        self.waited = self.fenced = self.stuck = self.replaced = self.given_up = False

    @property
    def on_loop(self) -> bool:
        """Whether its handler runs on the loop, as far as it is the handler that runs."""
        return self.place is None

    @property
    def job_id(self) -> UUID:
        """Id of its job."""
        return self.holding.job_id

    @property
    def label(self) -> str:
        """Its name in logs and in the list of threads, the same as `JobContext.label`."""
        job = self.holding.job
        return f"{job.job_type} {job.job_id} run {job.run_no}"


@dataclass(slots=True, kw_only=True)
class Overseeing:
    """What the overseer may do: `replace` a stuck worker (False past a bound), `give_up` one after its grace."""

    lease: Lease
    telemetry: Telemetry
    replace: Callable[[Attempt], bool]
    give_up: Callable[[Attempt], None]


@dataclass(slots=True)
class Attempts:
    """The running attempts by their claims. Used on the event loop only."""

    running: dict[Holding, Attempt] = field(default_factory=dict)
    interrupting: bool = False
    _none_left: anyio.Event = field(default_factory=anyio.Event)
    _resting: list[tuple[Wakeup, Callable[[], None]]] = field(default_factory=list)
    _stirred: bool = False

    def begin(self, attempt: Attempt) -> None:
        """A handler is about to be called."""
        self.running[attempt.holding] = attempt
        if self._resting and not self._stirred:
            self._stir()

    def end(self, holding: Holding) -> None:
        """The handler has ended, or never began: nothing is delivered to its task any more."""
        self.running.pop(holding, None)
        if not self.running:
            self._none_left.set()

    async def idle(self) -> None:
        """Wait until no handler runs."""
        while self.running:
            if self._none_left.is_set():  # else others wait for it already
                self._none_left = anyio.Event()
            await self._none_left.wait()

    async def begun(
        self, stop: anyio.Event, seconds: float = math.inf, first: Callable[[], None] = lambda: None
    ) -> None:
        """Wait until a handler runs, for `seconds` at most, or until `stop` is set.

        For who has something to watch only while handlers run: an idle process is not to wake up for nothing, and the
        first handler is not to wait for those who watch it. They are woken a moment later; `first` is called at once.
        """
        if self.running:
            return
        bell = Wakeup()
        self._resting.append((bell, first))
        try:
            await rest(stop, bell, seconds)
        finally:
            self._resting = [one for one in self._resting if one[0] is not bell]

    def _stir(self) -> None:
        self._stirred = True
        for _, first in self._resting:
            first()
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._wake)

    def _wake(self) -> None:
        self._stirred = False
        for bell, _ in self._resting:
            bell.ring()

    @property
    def stuck(self) -> list[Attempt]:
        """Attempts whose handler does not end although it was asked to."""
        return [one for one in self.running.values() if one.stuck]

    def cancel(self, holding: Holding, reason: StopReason) -> Attempt | None:
        """Ask one attempt to stop; None where it does not run here, or was asked before."""
        attempt = self.running.get(holding)
        if attempt is None or attempt.control.cancelled:
            return None
        ask(attempt, reason)
        return attempt

    def interrupt_all(self) -> None:
        """Ask all attempts to stop, since the process does."""
        self.interrupting = True
        for attempt in list(self.running.values()):
            ask(attempt, JobInterrupted("the process is stopping"))


def ask(attempt: Attempt, reason: StopReason) -> None:
    """Ask an attempt to stop, and deliver it at once; the first reason stands."""
    attempt.control.cancel(reason)
    attempt.asked = attempt.asked or time.monotonic()
    deliver(attempt)


def deliver(attempt: Attempt) -> None:
    """Cancel what the handler waits for. A thread can't be cancelled: it looks at `job.cancelled`."""
    attempt.delivered = time.monotonic()
    if attempt.place is None or not attempt.place.carries(attempt.label):
        attempt.task.cancel()


async def run_overseer(attempts: Attempts, overseeing: Overseeing, stop: anyio.Event) -> None:
    """Watch deadlines, leases and stubborn handlers until `stop` is set."""
    while not stop.is_set():
        await attempts.begun(stop)
        if not await pause(stop, TICK_SECONDS):
            oversee(attempts, overseeing)


def oversee(attempts: Attempts, overseeing: Overseeing, now: float | None = None) -> None:
    """One look at every running attempt."""
    at = time.monotonic() if now is None else now
    silent = overseeing.lease.silent()
    for attempt in list(attempts.running.values()):
        if attempt.asked is None:
            _look_at_limits(attempt, overseeing, at=at, silent=silent)
        else:
            _press(attempt, overseeing, at=at)


def _look_at_limits(attempt: Attempt, overseeing: Overseeing, *, at: float, silent: float) -> None:
    if attempt.place is not None:
        _look_at_wait(attempt, attempt.place, at)
    if at >= attempt.deadline:
        ask(attempt, _too_late(attempt))
    elif silent >= INTERRUPT_AT * attempt.holding.lease:
        _tell(overseeing.telemetry, LEASE_FENCED, attempt, stage="running", silent_seconds=round(silent, 1))
        ask(attempt, _fence(attempt, overseeing.lease, silent))


def _fence(attempt: Attempt, lease: Lease, silent: float) -> StopReason:
    """The database's trouble is handed back like a drain; our own stall may be the job's doing, and counts as lost."""
    said = f"no heartbeat got through for {silent:.0f} s"
    if lease.unanswered:
        return JobInterrupted(f"{said}: the database was away")
    attempt.fenced = True
    return LeaseLost(said)


def _look_at_wait(attempt: Attempt, place: Place, at: float) -> None:
    """The deadline of a plain handler counts from when it has a thread."""
    waits = place.waits(attempt.label)
    if attempt.waited and not waits:
        attempt.deadline = at + attempt.grace
        attempt.control.restart(attempt.grace)
    attempt.waited = waits


def _too_late(attempt: Attempt) -> StopReason:
    if attempt.waited:
        return NoFreeThread(f"waited {attempt.grace:g} s for a free thread")
    return JobDeadlineExceeded(f"ran for more than {attempt.grace:g} s")


def _press(attempt: Attempt, overseeing: Overseeing, *, at: float) -> None:
    assert attempt.asked is not None
    over = at - attempt.asked
    if over >= STUCK_SECONDS and not attempt.stuck:
        attempt.stuck = True
        kind = "async" if attempt.on_loop else "thread"
        _tell(overseeing.telemetry, JOB_STUCK, attempt, over_seconds=round(over, 1), kind=kind)
    if attempt.stuck and not attempt.replaced:
        attempt.replaced = overseeing.replace(attempt)
    if at - attempt.delivered >= AGAIN_SECONDS:
        deliver(attempt)
    if over >= attempt.grace and not attempt.given_up:
        attempt.given_up = True
        _tell(overseeing.telemetry, JOB_OVERLAPPED, attempt, over_seconds=round(over, 1))
        overseeing.give_up(attempt)


def request_cancel(
    attempts: Attempts, telemetry: Telemetry, holding: Holding, *, reason: str | None = None
) -> None:
    """An operator or producer asked that this job end."""
    why = "cancelled on request" if reason is None else f"cancelled on request: {reason}"
    attempt = attempts.cancel(holding, JobCancelled(why))
    if attempt is not None:
        _tell(telemetry, JOB_CANCEL_REQUESTED, attempt, reason=reason)


def _tell(telemetry: Telemetry, event: Event, attempt: Attempt, **fields: object) -> None:
    telemetry.emit(event, **identity_of(attempt.holding), **fields)
