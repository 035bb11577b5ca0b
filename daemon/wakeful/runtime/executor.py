"""One attempt, in stages: may it start, what runs it, call it, judge the answer, hand the conclusion over.

Invariant: every job that a worker takes up ends in exactly one conclusion, handed over by the executor or, for a
handler that would not end, by the overseer; nothing that a handler does leaves this module. Who waits is the crew's.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import anyio.lowlevel

from wakeful.core import backoff, jsontext
from wakeful.core.outcome import ErrorEntry, Failed, HandedBack, Outcome
from wakeful.core.pace import Pace
from wakeful.core.settings import JobSettings
from wakeful.core.text import clean, describe_exception
from wakeful.errors import InvalidPayload, JobInterrupted, StoreError, UnknownJobType
from wakeful.handlers.context import JobContext
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.handler import Handler
from wakeful.handlers.invoke import Answer, Raised, invoke
from wakeful.handlers.progress import Progress
from wakeful.handlers.resources import Resources
from wakeful.handlers.steps import ProgressPort
from wakeful.handlers.threads import ThreadPool
from wakeful.handlers.trailing import TrailingWrites
from wakeful.runtime.attempts import Attempt, Attempts, ask
from wakeful.runtime.conclusion import Conclusion, Landing
from wakeful.runtime.holdings import Holding
from wakeful.runtime.lease import Lease
from wakeful.runtime.own_context import InOwnContext, swallow_cancellation
from wakeful.runtime.reporter import Reporter
from wakeful.runtime.verdict import Circumstances, verdict
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import JOB_STARTED, JOB_UNSTUCK, LEASE_FENCED
from wakeful.telemetry.job_log import JobNames, LineBuffer, attempt_context, job_logger

MESSAGE_BYTES: Final = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """What executing an attempt needs. `submit` hands its conclusion over; `landed` is told what became of it."""

    find: Callable[[str], Handler]
    resources: Resources
    threads: ThreadPool
    attempts: Attempts
    reporter: Reporter
    trailing: TrailingWrites
    lease: Lease
    pace: Pace
    settings: JobSettings
    telemetry: Telemetry
    submit: Callable[[Conclusion], None]
    deadline: float | None = None
    backoff: Callable[[int], float] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Prepared:
    """A job that can be called: its handler, its typed payload, and what the handler is given."""

    handler: Handler
    payload: object
    context: JobContext
    progress: Progress
    control: AttemptControl
    lines: LineBuffer
    names: JobNames


async def execute(
    executing: Executing, holding: Holding, *, landed: Callable[[Landing], None] | None = None
) -> Attempt | None:
    """Run one attempt to its end; gives it where a handler was called."""
    refused = _may_not_start(executing, holding)
    if refused is not None:
        executing.submit(Conclusion(holding=holding, outcome=refused, landed=landed))
        return None
    prepared = prepare(executing, holding)
    if not isinstance(prepared, Prepared):
        executing.submit(Conclusion(holding=holding, outcome=prepared, landed=landed))
        return None
    attempt = _begin(executing, holding, prepared, landed)
    answer = await _call(executing, attempt, prepared)
    if isinstance(answer, Raised) and isinstance(answer.exception, asyncio.CancelledError):
        await (
            anyio.lowlevel.checkpoint_if_cancelled()
        )  # the whole instance is being cancelled: nothing to conclude
    _end(executing, attempt, prepared, answer)
    if attempt.worker.cancelling():
        await swallow_cancellation(attempt.worker)
    return attempt


def _may_not_start(executing: Executing, holding: Holding) -> Outcome | None:
    if holding.lost:
        return HandedBack(counted=False)
    if executing.lease.may_start(holding.lease):
        return None
    executing.telemetry.emit(
        LEASE_FENCED,
        **_identity(holding),
        stage="start",
        silent_seconds=round(executing.lease.silent(), 1),
    )
    return HandedBack(counted=False)


def prepare(executing: Executing, holding: Holding) -> Prepared | Outcome:
    """Find the handler and check the payload; what is wrong with either is an outcome at once."""
    job = holding.job
    try:
        handler = executing.find(job.job_type)
        raw = jsontext.loads(job.payload_text)
        payload = handler.bind(raw)
    except UnknownJobType as error:
        entry = ErrorEntry(type="UnknownJobType", message=clean(error, MESSAGE_BYTES))
        return Failed(error=entry, delay=_delay(executing, None, job.attempts))
    except (InvalidPayload, ValueError) as error:
        entry = ErrorEntry(type="InvalidPayload", message=clean(error, MESSAGE_BYTES))
        return Failed(error=entry, delay=0.0, retry=False)
    except Exception as error:  # noqa: BLE001 -- a payload type's own validation may raise anything
        return Failed(error=describe_exception(error), delay=0.0, retry=False)
    return _prepared(executing, holding, handler, raw, payload)


def _prepared(
    executing: Executing, holding: Holding, handler: Handler, raw: object, payload: object
) -> Prepared:
    job = holding.job
    control = AttemptControl(_deadline(executing, holding))
    progress = progress_of(executing, holding, control, handler.declaration.steps)
    names = JobNames(
        job_id=job.job_id, job_type=job.job_type, queue=job.queue, run_no=job.run_no, attempt=job.attempts
    )
    lines = LineBuffer(executing.telemetry.redactor)
    context = JobContext(
        job,
        raw if isinstance(raw, dict) else {},
        ProgressPort(progress, executing.threads.bridge, control),
        resources=executing.resources.of(handler),
        log=job_logger(names, lines),
    )
    return Prepared(
        handler=handler,
        payload=payload,
        context=context,
        progress=progress,
        control=control,
        lines=lines,
        names=names,
    )


def progress_of(
    executing: Executing, holding: Holding, control: AttemptControl, steps: Sequence[str]
) -> Progress:
    """The progress of one claim, written by the reporter."""
    return Progress(
        _Writer(executing.reporter, holding),
        control,
        attempt=holding.job.attempts,
        steps=steps,
        database_now=_DatabaseClock(holding),
        on_mark=executing.trailing.add,
    )


def _begin(
    executing: Executing,
    holding: Holding,
    prepared: Prepared,
    landed: Callable[[Landing], None] | None,
) -> Attempt:
    worker = asyncio.current_task()
    assert worker is not None
    seconds = _deadline(executing, holding)
    holding.stage, holding.started = "running", time.monotonic()
    attempt = Attempt(
        holding=holding,
        control=prepared.control,
        worker=worker,
        on_loop=prepared.handler.runs_on_loop,
        deadline=holding.started + seconds,
        grace=seconds,
        landed=landed,
    )
    executing.attempts.begin(attempt)
    executing.telemetry.emit(JOB_STARTED, **_identity(holding))
    if executing.attempts.interrupting:
        ask(attempt, JobInterrupted("the process is stopping"))
    return attempt


async def _call(executing: Executing, attempt: Attempt, prepared: Prepared) -> Answer:
    """Call the handler in a context of its own; the steps that it declares are stored before it starts."""

    async def called() -> Answer:
        with attempt_context(prepared.names, prepared.lines):
            return await invoke(prepared.handler, prepared.context, prepared.payload, executing.threads)

    if prepared.handler.declaration.steps:
        await _begin_progress(prepared)
    answer = await InOwnContext(called())
    executing.attempts.end(attempt)
    return answer


async def _begin_progress(prepared: Prepared) -> None:
    try:
        await prepared.progress.begin()
    except (StoreError, asyncio.CancelledError):
        # The claim is lost, or the attempt is to stop: the handler's first step says so, in its own block.
        return


def _end(executing: Executing, attempt: Attempt, prepared: Prepared, answer: Answer) -> None:
    holding = attempt.holding
    run = time.monotonic() - (holding.started or 0.0)
    executing.pace.ran(holding.job.job_type, run)
    _keep_lines(executing, holding, prepared.lines)
    buffered = prepared.context.close()
    if attempt.given_up:
        executing.telemetry.emit(JOB_UNSTUCK, **_identity(holding), over_seconds=round(run, 1))
        return
    outcome = verdict(
        answer,
        buffered,
        Circumstances(
            reason=prepared.control.reason,
            fenced=attempt.fenced,
            snoozed=holding.snoozed,
            snooze_limit=executing.settings.snooze_limit,
            history=prepared.handler.declaration.history,
            delay=lambda: _delay(executing, prepared.handler, holding.job.attempts),
        ),
    )
    executing.submit(Conclusion(holding=holding, outcome=outcome, run=run, landed=attempt.landed))


def _keep_lines(executing: Executing, holding: Holding, lines: LineBuffer) -> None:
    job = holding.job
    executing.reporter.log(
        [
            (job.job_id, job.run_no, number, line.logged_at, line.level, line.message)
            for number, line in enumerate(lines.lines(), 1)
        ]
    )


def _delay(executing: Executing, handler: Handler | None, attempts: int) -> float:
    if executing.backoff is not None:
        return executing.backoff(attempts)
    seconds = backoff.delay(attempts) if handler is None else handler.delay(attempts)
    return backoff.jittered(seconds, random.random())


def delay_after(executing: Executing, holding: Holding) -> float:
    """The backoff after a failed attempt of this job, in seconds."""
    try:
        handler: Handler | None = executing.find(holding.job.job_type)
    except UnknownJobType:
        handler = None
    return _delay(executing, handler, holding.job.attempts)


def _deadline(executing: Executing, holding: Holding) -> float:
    return holding.job.deadline if executing.deadline is None else executing.deadline


def _identity(holding: Holding) -> dict[str, object]:
    job = holding.job
    return {
        "job_id": str(job.job_id),
        "job_type": job.job_type,
        "queue": job.queue,
        "subject": job.subject,
        "run_no": job.run_no,
        "attempt": job.attempts,
    }


@dataclass(frozen=True, slots=True)
class _Writer:
    """Progress of one claim, on its way to the reporter."""

    reporter: Reporter
    holding: Holding

    async def write(self, document: str) -> bool:
        return await self.reporter.write(self.holding, document)

    async def available(self) -> None:
        await self.reporter.available()


@dataclass(frozen=True, slots=True)
class _DatabaseClock:
    """The database's time, from what it said at the claim and the seconds since (R1)."""

    holding: Holding

    def __call__(self) -> datetime:
        return self.holding.claimed_at + timedelta(seconds=time.monotonic() - self.holding.received)
