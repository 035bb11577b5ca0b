"""What a handler is given: its job, and what it may do while it runs.

Invariant: nothing here writes to the database but progress, which is fenced by the claim; the rest is kept for the
job's finish. Every method may be called from the handler's thread or from the loop. The runtime makes one context an
attempt, and closes it with the attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, Final, NamedTuple
from uuid import UUID

from wakeful.core import jsontext
from wakeful.core.job import Job
from wakeful.errors import InvalidPayload
from wakeful.handlers.buffer import NOTHING, Buffer, Buffered, alert_request, follow_up
from wakeful.handlers.client import encode_payload
from wakeful.handlers.handler import JobType
from wakeful.handlers.options import EnqueueOptions, with_trace
from wakeful.handlers.steps import ProgressPort, Step
from wakeful.telemetry.tracing.joining import created


class JobContext:
    """One attempt of one job, as its handler sees it.

    `attempt` counts from 1; `run_no` counts claims and only grows: fence outside systems with it. `resources` is what
    the registry's lifespan yielded; `log` is a structlog logger bound to the job.
    """

    __slots__ = ("_buffer", "_job", "_payload", "_port", "log", "resources")

    def __init__(
        self,
        job: Job,
        payload: Mapping[str, object] | None,
        port: ProgressPort,
        *,
        resources: object = None,
        log: object = None,
        buffer: Buffer | None = None,
    ) -> None:
        self._job = job
        self._port = port
        self._buffer = buffer
        self._payload = payload
        self.resources: Any = resources
        self.log: Any = log

    @property
    def payload(self) -> Mapping[str, object]:
        """The raw object, numbers exact; decoded when it is first looked at. Raises InvalidPayload."""
        if self._payload is None:
            self._payload = decoded_payload(self._job)
        return self._payload

    @property
    def job_id(self) -> UUID:
        """The job's id."""
        return self._job.job_id

    @property
    def job_type(self) -> str:
        """The job's type."""
        return self._job.job_type

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; a job handed back or snoozed gets its attempt back."""
        return self._job.attempts

    @property
    def max_attempts(self) -> int:
        """After how many failed attempts the job is DEAD."""
        return self._job.max_attempts

    @property
    def run_no(self) -> int:
        """The number of this claim: it only grows, so that an outside system can refuse a former one."""
        return self._job.run_no

    @property
    def subject(self) -> str | None:
        """What the job is about."""
        return self._job.subject

    @property
    def queue(self) -> str:
        """The job's queue."""
        return self._job.queue

    @property
    def priority(self) -> str:
        """interactive, normal or batch."""
        return self._job.priority

    @property
    def tags(self) -> tuple[str, ...]:
        """The labels that the job was enqueued with."""
        return self._job.tags

    @property
    def meta(self) -> dict[str, object]:
        """What the producer sent along (a traceparent and the like); decoded anew at each call."""
        meta = jsontext.loads(self._job.meta_text)
        return meta if isinstance(meta, dict) else {}

    @property
    def label(self) -> str:
        """A name for this attempt in logs and lists of threads: "COLLECT 0198… run 3"."""
        return f"{self._job.job_type} {self._job.job_id} run {self._job.run_no}"

    @property
    def cancelled(self) -> bool:
        """Whether the attempt should stop: deadline, cancel, shutdown, lost lease. A plain handler looks at this."""
        return self._port.control.cancelled

    def time_left(self) -> float:
        """Give the seconds until the attempt's deadline, 0.0 when it has passed."""
        return self._port.control.time_left()

    def step(self, name: str) -> Step:
        """Give a step to run a block in: ``async with`` in an async handler, ``with`` in a plain one.

        Entering and leaving raise LeaseLost where the job is another's by now.
        """
        return Step(self._port, name)

    def progress(self, percent: float | None = None, message: str | None = None) -> Awaitable[None]:
        """Tell how far the step entered last is; without a step, one named "run" is shown. See `Step.progress`."""
        return self._port.mark(None, percent, message)

    def degrade(self, reason: str) -> None:
        """Say that the job makes do with less: it is DONE, with this reason for all to see."""
        self._asked().add_degraded(reason)

    def enqueue(
        self,
        job_type: str | JobType[Any, Any],
        payload: object = None,
        *,
        queue: str | None = None,
        priority: str | None = None,
        subject: str | None = None,
        dedupe_key: str | None = None,
        run_after: datetime | None = None,
        max_attempts: int | None = None,
        deadline: float | str | timedelta | None = None,
        tags: tuple[str, ...] | list[str] | None = None,
        meta: Mapping[str, object] | None = None,
        group: str | None = None,
        limit_key: str | None = None,
    ) -> None:
        """Enqueue a job in the transaction that finishes this one: both happen, or neither. Only if this one is DONE.

        `job_type` is a name, or what `@registry.job` gave, whose payload is then checked. Options as in
        `wakeful.enqueue`. Raises ValueError or InvalidPayload for a mistake, LeaseLost after the attempt's end.
        """
        options = EnqueueOptions(
            queue=queue,
            priority=priority,
            subject=subject,
            dedupe_key=dedupe_key,
            run_after=run_after,
            max_attempts=max_attempts,
            deadline=deadline,
            tags=tags,
            meta=meta,
            group=group,
            limit_key=limit_key,
        )
        if isinstance(job_type, JobType):
            given = {} if payload is None else payload
            name, text = job_type.job_type, job_type.encode_payload(given)
            declared: str | None = job_type.handler.declaration.queue
        else:
            name, text, declared = job_type, encode_payload(payload), None
        traced = with_trace(options, created(name, options.queue or declared))
        self._asked().add_follow_up(follow_up(name, text, traced))

    def alert(
        self,
        kind: str,
        *,
        title: str,
        severity: str = "warning",
        dedupe_key: str | None = None,
        subject: str | None = None,
        body: Mapping[str, object] | None = None,
    ) -> None:
        """Tell people, in the transaction that settles this job. Alerts with one `dedupe_key` are folded into one.

        The default key is kind and subject, the default subject the job's. Raises ValueError for a mistake, LeaseLost
        after the attempt's end.
        """
        about = self.subject if subject is None else subject
        self._asked().add_alert(
            alert_request(
                kind, title=title, severity=severity, dedupe_key=dedupe_key, subject=about, body=body
            )
        )

    def close(self) -> Buffered:
        """For the runtime: give what the handler asked for, and refuse whatever it asks for from now on."""
        with _MAKING:
            buffer, self._buffer = self._buffer, self._buffer or _CLOSED
        return NOTHING if buffer is None else buffer.close()

    def _asked(self) -> Buffer:
        """What the handler asks for, made when it first does: most attempts ask for nothing."""
        buffer = self._buffer
        if buffer is None:
            with _MAKING:  # two threads of one handler may ask at once
                buffer = self._buffer = self._buffer or Buffer()
        return buffer


class Inside(NamedTuple):
    """For the runtime: what a context is made of."""

    job: Job
    port: ProgressPort
    buffer: Buffer


def inside(context: JobContext) -> Inside:
    """For the runtime: give what a context is made of."""
    return Inside(context._job, context._port, context._asked())


def decoded_payload(job: Job) -> Mapping[str, object]:
    """Give a job's payload as Python values, numbers exact; raises InvalidPayload where it can't be carried."""
    try:
        payload = job.payload
    except ValueError as error:
        raise InvalidPayload((str(error),)) from None
    return payload if isinstance(payload, dict) else {}


def _closed_buffer() -> Buffer:
    buffer = Buffer()
    buffer.close()
    return buffer


_MAKING: Final = Lock()
_CLOSED: Final = _closed_buffer()
