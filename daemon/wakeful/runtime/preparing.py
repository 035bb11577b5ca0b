"""What stands ready before a handler is called: its handler, its checked payload, and what it is given.

Invariant: what is wrong with the type or the payload is an outcome at once, and no handler is called for it. Calling,
and what follows, is the executor's.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from wakeful.core import backoff
from wakeful.core.job import Job
from wakeful.core.outcome import ErrorEntry, Failed, Outcome
from wakeful.core.pace import Pace
from wakeful.core.secrets import values_at
from wakeful.core.settings import JobSettings
from wakeful.core.text import clean, describe_exception
from wakeful.errors import InvalidPayload, UnknownJobType
from wakeful.handlers.context import JobContext, decoded_payload
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.handler import Handler
from wakeful.handlers.isolation.pool import ProcessPool
from wakeful.handlers.progress import Progress
from wakeful.handlers.resources import Resources
from wakeful.handlers.steps import ProgressPort
from wakeful.handlers.threads import ThreadPool
from wakeful.handlers.trailing import TrailingWrites
from wakeful.runtime.attempts import Attempts
from wakeful.runtime.conclusion import Conclusion
from wakeful.runtime.holdings import Holding
from wakeful.runtime.lease import Lease
from wakeful.runtime.reporter import Reporter
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.job_log import AttemptContext, LineBuffer, job_logger
from wakeful.telemetry.redaction import Redactor

if TYPE_CHECKING:
    from wakeful.runtime.tracing import Tracing

MESSAGE_BYTES: Final = 4000


def untraced(holding: Holding, lines: LineBuffer) -> AttemptContext:
    """The block in which a handler is called: the attempt's names are on every line."""
    return AttemptContext(holding.job, lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executing:
    """What executing an attempt needs. `submit` hands its conclusion over; `within` is the block round the handler.

    `tracing` is what both lead to where attempts are traced.
    """

    find: Callable[[str], Handler]
    resources: Resources
    threads: ThreadPool
    processes: ProcessPool
    attempts: Attempts
    reporter: Reporter
    trailing: TrailingWrites
    lease: Lease
    pace: Pace
    settings: JobSettings
    telemetry: Telemetry
    submit: Callable[[Conclusion], None]
    within: Callable[[Holding, LineBuffer], AbstractContextManager[None]] = untraced
    tracing: Tracing | None = None
    deadline: float | None = None
    backoff: Callable[[int], float] | None = None

    def place_of(self, handler: Handler) -> ThreadPool | ProcessPool:
        """Where a handler runs that is not on the loop."""
        return self.processes if handler.is_isolated else self.threads


class Prepared(NamedTuple):
    """A job that can be called: its handler, its typed payload, and what the handler is given."""

    handler: Handler
    payload: object
    context: JobContext
    port: ProgressPort
    control: AttemptControl
    lines: LineBuffer


def prepare(executing: Executing, holding: Holding) -> Prepared | Outcome:
    """Find the handler and check the payload; what is wrong with either is an outcome at once."""
    job = holding.job
    try:
        handler = executing.find(job.job_type)
        # A handler that takes no payload may look at `job.payload`, which is decoded then.
        raw = decoded_payload(job) if handler.takes_payload else None
        payload = handler.bind(raw) if handler.takes_payload else None
        redactor = executing.telemetry.redactor
        if handler.declaration.secret_paths:
            redactor = _redactor_for(handler, job, raw, redactor)
    except UnknownJobType as error:
        entry = ErrorEntry(type="UnknownJobType", message=clean(error, MESSAGE_BYTES))
        return Failed(error=entry, delay=backoff_of(executing, None, job.attempts))
    except InvalidPayload as error:
        entry = ErrorEntry(type="InvalidPayload", message=clean(error, MESSAGE_BYTES))
        return Failed(error=entry, delay=0.0, retry=False)
    except BaseException as error:  # noqa: BLE001 -- a payload type's own validation may raise anything, even exit
        return Failed(error=describe_exception(error), delay=0.0, retry=False)
    control = AttemptControl(deadline_of(executing, holding))
    lines, steps = LineBuffer(redactor), handler.declaration.steps
    make = _Making((executing, holding, control, steps, redactor))
    port = ProgressPort(make, executing.threads.bridge, control)
    resources = executing.resources.of(handler)
    context = JobContext(job, raw, port, resources=resources, log=job_logger(job, lines))
    return tuple.__new__(Prepared, (handler, payload, context, port, control, lines))


def _redactor_for(
    handler: Handler, job: Job, raw: Mapping[str, object] | None, redactor: Redactor
) -> Redactor:
    """What hides the secrets of the process and those of this payload, of which its type names some (R12)."""
    payload = decoded_payload(job) if raw is None else raw
    return redactor.also(values_at(payload, handler.declaration.secret_paths))


def progress_of(
    executing: Executing,
    holding: Holding,
    control: AttemptControl,
    steps: Sequence[str],
    *,
    redactor: Redactor | None = None,
) -> Progress:
    """The progress of one claim, written by the reporter."""
    return Progress(
        _Writer(executing.reporter, holding),
        control,
        attempt=holding.job.attempts,
        steps=steps,
        database_now=_DatabaseClock(holding),
        on_mark=executing.trailing.add,
        hide=(redactor or executing.telemetry.redactor).shortened,
    )


def delay_after(executing: Executing, holding: Holding) -> float:
    """The backoff after a failed attempt of this job, in seconds."""
    try:
        handler: Handler | None = executing.find(holding.job.job_type)
    except UnknownJobType:
        handler = None
    return backoff_of(executing, handler, holding.job.attempts)


def backoff_of(executing: Executing, handler: Handler | None, attempts: int) -> float:
    """The backoff after failed attempt number `attempts`, in seconds; jitter taken off."""
    if executing.backoff is not None:
        return executing.backoff(attempts)
    seconds = backoff.delay(attempts) if handler is None else handler.delay(attempts)
    return backoff.jittered(seconds, random.random())


def deadline_of(executing: Executing, holding: Holding) -> float:
    """How long the attempt may run, in seconds."""
    return holding.job.deadline if executing.deadline is None else executing.deadline


class _Making:
    """Makes the progress of a claim when it is first asked for.

    Neither a partial nor a lambda: both take longer to make, and a lambda makes each use of the names in it dearer.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[Executing, Holding, AttemptControl, Sequence[str], Redactor]) -> None:
        self._parts = parts

    def __call__(self) -> Progress:
        executing, holding, control, steps, redactor = self._parts
        return progress_of(executing, holding, control, steps, redactor=redactor)


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
        since = time.monotonic() - self.holding.received
        return datetime.fromtimestamp(self.holding.claimed_epoch + since, UTC)
