"""An attempt without a database: a job, its context, and a writer of progress that remembers what it was given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import anyio

from wakeful.core.job import Job
from wakeful.errors import StoreUnavailable
from wakeful.handlers.context import JobContext
from wakeful.handlers.control import AttemptControl
from wakeful.handlers.progress import Progress
from wakeful.handlers.registry import Registry
from wakeful.handlers.steps import ProgressPort
from wakeful.handlers.threads import ThreadPool
from wakeful.telemetry.redaction import Redactor

JOB_ID = UUID("01980000-0000-7000-8000-000000000001")


@dataclass(slots=True)
class Clock:
    """A clock that only moves when told to."""

    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)


@dataclass(slots=True)
class RememberedDocuments:
    """Where documents go: `owned` is what the fence says, `outages` how many writes fail before one succeeds."""

    documents: list[dict[str, Any]] = field(default_factory=list)
    owned: bool = True
    outages: int = 0
    waits: int = 0
    gate: anyio.Event | None = None

    async def write(self, document: str) -> bool:
        if self.gate is not None:
            await self.gate.wait()
        await anyio.lowlevel.checkpoint()
        if self.outages:
            self.outages -= 1
            raise StoreUnavailable("the server is gone")
        if self.owned:
            self.documents.append(json.loads(document))
        return self.owned

    async def available(self) -> None:
        self.waits += 1
        await anyio.lowlevel.checkpoint()

    def steps(self) -> list[tuple[str, ...]]:
        """Each document as its steps' "name:status"."""
        return [
            tuple(f"{step['name']}:{step['status']}" for step in document["steps"])
            for document in self.documents
        ]


SECRET = "s3cr3t-t0ken"


def make_job(**fields: Any) -> Job:
    """Give a claimed job."""
    given: dict[str, Any] = {
        "lane_id": 1,
        "pos": 2,
        "claim": 3,
        "job_id": JOB_ID,
        "job_type": "COLLECT",
        "queue": "default",
        "priority": "normal",
        "subject": "abc",
        "payload_text": "{}",
        "attempts": 1,
        "max_attempts": 5,
        "run_no": 1,
        "lost": 0,
        "deadline": 60.0,
        "tags": ("a",),
        "meta_text": '{"traceparent": "00-1"}',
    }
    return Job(**{**given, **fields})


@dataclass(slots=True)
class Attempt:
    """One attempt and all that it stands on."""

    job: JobContext
    control: AttemptControl
    progress: Progress
    writer: RememberedDocuments
    clock: Clock


def make_attempt(threads: ThreadPool, *, steps: tuple[str, ...] = (), job: Job | None = None) -> Attempt:
    """Give an attempt of a job, on the running loop."""
    clock = Clock()
    control = AttemptControl(60.0, clock)
    writer = RememberedDocuments()
    progress = Progress(
        writer,
        control,
        attempt=1,
        steps=steps,
        database_now=clock.now,
        hide=Redactor([SECRET]).text,
        clock=clock,
    )
    claimed = job or make_job()
    port = ProgressPort(lambda: progress, threads.bridge, control)
    payload = claimed.payload
    assert isinstance(payload, dict)
    return Attempt(JobContext(claimed, payload, port), control, progress, writer, clock)


def handler_of(function: Callable[..., object], **options: Any) -> Any:
    """Register a function in a registry of its own and give its handler."""
    registry = Registry()
    registry.job("COLLECT", **options)(function)
    return registry.find("COLLECT")
