"""The workers: each takes the next job, sees it through, and takes the next, until the crew is closed.

Invariant: a worker whose handler is stuck has been replaced by another, so that `concurrency` jobs can run; when its
handler ends after all it goes home.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup

from wakeful.core.outcome import Discarded, ErrorEntry, Failed, HandedBack, Outcome
from wakeful.errors import JobCancelled, JobInterrupted, LeaseLost
from wakeful.runtime.attempts import Attempt
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.crew import Crew
from wakeful.runtime.executor import execute
from wakeful.runtime.finisher import Finisher
from wakeful.runtime.preparing import Executing, delay_after

ROOM_SECONDS: Final = 0.5
OVERLAP_NOTE: Final = "its code would not end and may still run"


async def run_worker(executing: Executing, crew: Crew, finisher: Finisher) -> None:
    """Work until the crew is closed, or until this worker has been replaced."""
    while True:
        # In an outage there comes no room, and a stop waits for none.
        while finisher.crowded and not crew.closed:
            with anyio.move_on_after(ROOM_SECONDS):
                await finisher.room()
        holding = await crew.next()
        if holding is None:
            return
        attempt = await execute(executing, holding)
        if attempt is not None and attempt.replaced:
            return
        crew.done()


@dataclass(slots=True, kw_only=True)
class Replacing:
    """What the overseer does about handlers that do not end."""

    executing: Executing
    crew: Crew
    finisher: Finisher
    workers: TaskGroup
    stuck_limit: int

    def replace(self, attempt: Attempt) -> bool:
        """Start a new worker in the place of a stuck one; False where too many are stuck already."""
        replaced = sum(one.replaced for one in self.executing.attempts.running.values())
        if replaced >= self.stuck_limit or self.executing.attempts.interrupting:
            return False
        if not attempt.on_loop and not self.executing.threads.give_up(attempt.label):
            return False
        self.crew.done()
        self.workers.start_soon(run_worker, self.executing, self.crew, self.finisher)
        return True

    def give_up(self, attempt: Attempt) -> None:
        """The grace is over: the attempt has ended for the database, although its code may still run."""
        outcome = outcome_of_given_up(self.executing, attempt)
        self.finisher.submit(Conclusion(holding=attempt.holding, outcome=outcome, landed=attempt.landed))


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
