"""The workers: each takes a job, sees it through in its task, and leaves its place to a fresh one.

Invariant: there are `concurrency` places, and in each a worker; one whose handler is stuck loses its place to
another, up to a bound. What a handler leaves behind in its task, be it variables or cancellations, is met by no other
job (ADR 14): a worker goes on with a next one only where its task is as it was before the handler (ADR 37). All of them
start in the same context.
"""

from __future__ import annotations

import asyncio
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Final

import anyio

from wakeful.core.outcome import Discarded, ErrorEntry, Failed, HandedBack, Outcome
from wakeful.errors import JobCancelled, JobInterrupted, LeaseLost
from wakeful.runtime.apart import apart, are_variables, traces_in
from wakeful.runtime.attempts import Attempt
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.crew import Crew
from wakeful.runtime.executor import execute
from wakeful.runtime.finisher import Finisher
from wakeful.runtime.holdings import Holding
from wakeful.runtime.preparing import Executing, delay_after

ROOM_SECONDS: Final = 0.5
# Jobs that never wait are run in a row, as many as all workers together may before the loop turns to something else.
JOBS_A_TURN: Final = 80
OVERLAP_NOTE: Final = "its code would not end and may still run"


@dataclass(slots=True, kw_only=True)
class Workers:
    """The workers of one crew. Made and used on the event loop only."""

    executing: Executing
    crew: Crew
    finisher: Finisher
    _context: Context = field(default_factory=copy_context)
    _over: anyio.Event = field(default_factory=anyio.Event)
    _failure: Exception | None = None

    async def run(self) -> None:
        """Keep all places filled until the crew is closed; raises what a worker should never have raised."""
        for _ in range(self.crew.concurrency):
            self.hire()
        await self._over.wait()
        if self._failure is not None:
            raise self._failure

    def hire(self) -> None:
        """Put a fresh worker into a free place."""
        begun: list[bool] = []
        worker = apart(self._work(begun), self._context.copy())
        worker.add_done_callback(lambda _worker: None if begun else self._leave())

    async def _work(self, begun: list[bool]) -> None:
        # One that is cancelled before this runs nothing of its own, so its place is filled from outside.
        begun.append(True)
        try:
            if await self._run_jobs():
                self._leave()
        except asyncio.CancelledError:  # a handler that cancels whatever it finds found an idle worker
            self._leave()
        except Exception as error:  # noqa: BLE001 -- a bug of ours: told in one place, and the end of the process
            self._failure = error
            self._over.set()

    async def _run_jobs(self) -> bool:
        """Run jobs while the task is as it was, in rows between which the loop turns; True: its place is free."""
        task = asyncio.current_task()
        assert task is not None
        variables, traces = copy_context(), traces_in(task)
        crew, row = self.crew, range(max(1, JOBS_A_TURN // self.crew.concurrency))
        while True:
            for _ in row:
                holding = None if self.finisher.crowded else crew.take()
                if holding is None and (holding := await self._next()) is None:
                    self._over.set()
                    return False
                if await execute(self.executing, holding, task):
                    return False
                crew.done()
                if traces_in(task) != traces or not are_variables(variables):
                    return True
            await asyncio.sleep(0)

    async def _next(self) -> Holding | None:
        # In an outage there comes no room, and a stop waits for none.
        while self.finisher.crowded and not self.crew.closed:
            with anyio.move_on_after(ROOM_SECONDS):
                await self.finisher.room()
        return await self.crew.next()

    def _leave(self) -> None:
        if self.crew.closed:
            self._over.set()
        else:
            self.hire()


@dataclass(slots=True, kw_only=True)
class Replacing:
    """What the overseer does about handlers that do not end."""

    executing: Executing
    crew: Crew
    workers: Workers
    stuck_limit: int

    def replace(self, attempt: Attempt) -> bool:
        """Start a new worker in the place of a stuck one; False where too many are stuck already."""
        replaced = sum(one.replaced for one in self.executing.attempts.running.values())
        if replaced >= self.stuck_limit or self.executing.attempts.interrupting:
            return False
        if not attempt.on_loop and not self.executing.threads.give_up(attempt.label):
            return False
        self.crew.done()
        self.workers.hire()
        return True

    def give_up(self, attempt: Attempt) -> None:
        """The grace is over: the attempt has ended for the database, although its code may still run."""
        outcome = outcome_of_given_up(self.executing, attempt)
        self.executing.submit(Conclusion(holding=attempt.holding, outcome=outcome, landed=attempt.landed))


def outcome_of_given_up(executing: Executing, attempt: Attempt) -> Outcome:
    """What becomes of an attempt whose handler did not end in its grace, by the reason why it was stopped."""
    reason = attempt.control.reason
    match reason:
        case JobCancelled():
            return Discarded(reason=f"{reason}; {OVERLAP_NOTE}")
        case JobInterrupted() | LeaseLost():
            return HandedBack()
        case _:
            error = ErrorEntry(type="JobDeadlineExceeded", message=f"{reason}; {OVERLAP_NOTE}")
            return Failed(error=error, delay=delay_after(executing, attempt.holding))
