"""One attempt, in stages: may it start, what runs it, call it, judge the answer, hand the conclusion over.

Invariant: every job that a worker takes up ends in exactly one conclusion, handed over by the executor or, for a
handler that would not end, by the overseer; nothing that a handler does leaves this module. Who waits is the crew's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from wakeful.core.outcome import HandedBack, Outcome
from wakeful.errors import LeaseLost, WakefulError
from wakeful.handlers.buffer import Buffered
from wakeful.handlers.invoke import Answer, Raised, invoke
from wakeful.runtime.attempts import Attempt
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.holdings import Holding, identity_of
from wakeful.runtime.preparing import (
    Executing,
    Prepared,
    backoff_of,
    deadline_of,
    prepare,
)
from wakeful.runtime.verdict import Circumstances, plain_success, verdict, without_secrets
from wakeful.telemetry.events import JOB_STARTED, JOB_UNSTUCK, LEASE_FENCED
from wakeful.telemetry.job_log import LineBuffer


async def execute(
    executing: Executing,
    holding: Holding,
    task: asyncio.Task[object] | None = None,
    *,
    landed: Callable[[Landing], None] | None = None,
) -> bool:
    """Run one attempt to its end in `task`, the caller's; True: another worker was given the caller's place meanwhile.

    The task is to end with the attempt where the handler has left anything in it.
    """
    refused = _may_not_start(executing, holding)
    if refused is not None:
        executing.submit(Conclusion(holding, refused, landed=landed))
        return False
    prepared = prepare(executing, holding)
    if not isinstance(prepared, Prepared):
        executing.submit(Conclusion(holding, prepared, landed=landed))
        return False
    attempt = _begin(executing, holding, prepared, task=task, landed=landed)
    # The steps that it declares are stored before it starts.
    answer: Answer | None = await _begin_progress(prepared) if prepared.handler.declaration.steps else None
    if answer is None:
        with executing.within(holding, prepared.lines):
            answer = await invoke(
                prepared.handler,
                prepared.context,
                prepared.payload,
                executing.threads,
                elsewhere=executing.processes,
            )
    executing.attempts.end(holding)
    _end(executing, attempt, prepared, answer)
    return attempt.replaced


def _may_not_start(executing: Executing, holding: Holding) -> Outcome | None:
    if holding.lost or executing.attempts.interrupting:
        return HandedBack(counted=False)
    if executing.lease.may_start(holding.lease):
        return None
    executing.telemetry.emit(
        LEASE_FENCED,
        **identity_of(holding),
        stage="start",
        silent_seconds=round(executing.lease.silent(), 1),
    )
    return HandedBack(counted=False)


def _begin(
    executing: Executing,
    holding: Holding,
    prepared: Prepared,
    *,
    task: asyncio.Task[object] | None,
    landed: Callable[[Landing], None] | None,
) -> Attempt:
    running = task or asyncio.current_task()
    assert running is not None
    handler = prepared.handler
    holding.stage, holding.started = "running", time.monotonic()
    attempt = Attempt(
        holding,
        prepared.control,
        task=running,
        seconds=deadline_of(executing, holding),
        place=None if handler.runs_on_loop and not handler.is_isolated else executing.place_of(handler),
        landed=landed,
    )
    executing.attempts.begin(attempt)
    if executing.telemetry.hears(JOB_STARTED):
        executing.telemetry.emit(JOB_STARTED, **identity_of(holding))
    return attempt


async def _begin_progress(prepared: Prepared) -> Raised | None:
    """Store the declared steps; gives the answer of an attempt that lost its job meanwhile, or is to stop."""
    try:
        await prepared.port.progress.begin()
    except LeaseLost as lost:
        prepared.control.cancel(LeaseLost(str(lost)))
        return Raised(lost)
    except (WakefulError, asyncio.CancelledError) as stopped:
        return Raised(stopped)
    reason = prepared.control.reason
    return None if reason is None else Raised(reason)


def _end(executing: Executing, attempt: Attempt, prepared: Prepared, answer: Answer) -> None:
    holding = attempt.holding
    run = time.monotonic() - (holding.started or 0.0)
    executing.pace.ran(holding.job.job_type, run)
    _keep_lines(executing, holding, prepared.lines)
    buffered = prepared.context.close()
    if attempt.given_up:
        executing.telemetry.emit(JOB_UNSTUCK, **identity_of(holding), over_seconds=round(run, 1))
        return
    outcome: Outcome | None = None
    if not prepared.control.cancelled:
        history = prepared.handler.declaration.history
        outcome = plain_success(answer, buffered, history=history)
    if outcome is None:
        outcome = _judge(executing, attempt, prepared, answer=answer, buffered=buffered)
    executing.submit(Conclusion(holding, outcome, run=run, landed=attempt.landed))


def _judge(
    executing: Executing, attempt: Attempt, prepared: Prepared, *, answer: Answer, buffered: Buffered
) -> Outcome:
    circumstances = Circumstances(
        reason=prepared.control.reason,
        fenced=attempt.fenced,
        snoozed=attempt.holding.snoozed,
        snooze_limit=executing.settings.snooze_limit,
        history=prepared.handler.declaration.history,
        delay=partial(backoff_of, executing, prepared.handler, attempt.holding.job.attempts),
    )
    return without_secrets(verdict(answer, buffered, circumstances), prepared.lines.redactor)


def _keep_lines(executing: Executing, holding: Holding, lines: LineBuffer) -> None:
    kept = lines.lines()
    if kept:
        job = holding.job
        executing.reporter.log(
            [
                (job.job_id, job.run_no, number, line.logged_at, line.level, line.message)
                for number, line in enumerate(kept, 1)
            ]
        )
