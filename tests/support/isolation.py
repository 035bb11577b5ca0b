"""A pool of real processes of handlers, and the attempts that run in them, without a database."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from support import isolated_jobs
from support.attempts import Attempt, make_attempt, make_job
from support.eventually import eventually, looked
from wakeful.core import jsontext
from wakeful.core.job import Job
from wakeful.core.secrets import values_at
from wakeful.core.settings import WorkerSettings
from wakeful.handlers.context import inside
from wakeful.handlers.control import StopReason
from wakeful.handlers.invoke import Answer, invoke
from wakeful.handlers.isolation.pool import ProcessPool, open_processes
from wakeful.handlers.threads import ThreadPool, open_threads
from wakeful.telemetry.job_log import LineBuffer, attempt_context, job_logger
from wakeful.telemetry.redaction import Redactor


@dataclass(slots=True)
class Ran:
    """One attempt that runs or ran in a process; `answer` is there when it has ended."""

    attempt: Attempt
    lines: LineBuffer
    answer: Answer | None = None

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Level and text of what it logged."""
        return [(line.level, line.message) for line in self.lines.lines()]


@dataclass(slots=True)
class Processes:
    """The pool, and what runs jobs in it."""

    pool: ProcessPool
    threads: ThreadPool
    group: anyio.abc.TaskGroup

    async def run(self, job_type: str, **payload: Any) -> Ran:
        """Run a job to its end."""
        ran = self._made(job_type, payload)
        await self._see_through(ran)
        return ran

    def start(self, job_type: str, **payload: Any) -> tuple[Ran, anyio.CancelScope]:
        """Run a job beside the test; what is cancelled is the way in which the overseer delivers a stop."""
        ran, scope = self._made(job_type, payload), anyio.CancelScope()

        async def run() -> None:
            with scope:
                await self._see_through(ran)

        self.group.start_soon(run)
        return ran, scope

    async def stop(self, started: tuple[Ran, anyio.CancelScope], reason: StopReason) -> Answer:
        """Stop a job for a reason, and wait for its answer."""
        ran, scope = started
        ran.attempt.control.cancel(reason)
        scope.cancel()
        return await self.answer(ran)

    async def answer(self, ran: Ran) -> Answer:
        """Wait for an answer."""
        await eventually(looked(lambda: ran.answer))
        assert ran.answer is not None
        return ran.answer

    def _made(self, job_type: str, payload: dict[str, Any]) -> Ran:
        job = make_job(job_type=job_type, payload_text=jsontext.dumps(payload))
        secrets = values_at(payload, isolated_jobs.registry.find(job_type).declaration.secret_paths)
        attempt, lines = make_attempt(self.threads, job=job), LineBuffer(Redactor(secrets))
        attempt.job.log = job_logger(names_of(attempt), lines)
        return Ran(attempt, lines)

    async def _see_through(self, ran: Ran) -> None:
        job = ran.attempt.job
        handler = isolated_jobs.registry.find(job.job_type)
        with attempt_context(names_of(ran.attempt), ran.lines):
            ran.answer = await invoke(handler, job, None, self.threads, elsewhere=self.pool)


def names_of(attempt: Attempt) -> Job:
    return inside(attempt.job).job


@asynccontextmanager
async def processes(**settings: int) -> AsyncIterator[Processes]:
    """Open a pool of the handlers in `isolated_jobs`."""
    worker = WorkerSettings(**{"processes": 1, "process_memory": 512, **settings})  # type: ignore[arg-type]
    async with (
        open_threads(limit=1, stuck_limit=1) as threads,
        open_processes(isolated_jobs.registry, worker) as pool,
        anyio.create_task_group() as group,
    ):
        yield Processes(pool, threads, group)
        group.cancel_scope.cancel()


@dataclass(frozen=True, slots=True)
class Ledger:
    """What handlers have noted in a file."""

    path: Path

    async def noted(self, word: str, count: int = 1) -> list[list[str]]:
        """Wait until a word has been noted so often; give what stood behind it each time."""

        def found() -> list[list[str]]:
            text = self.path.read_text() if self.path.exists() else ""
            return [line.split()[1:] for line in text.splitlines() if line.startswith(word)]

        return await eventually(looked(found), until=lambda lines: len(lines) >= count)

    async def pids(self, word: str, count: int = 1) -> list[int]:
        """The same where what stands behind it are numbers of processes."""
        return [int(pid) for line in await self.noted(word, count) for pid in line]


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    path = tmp_path / "ledger"
    monkeypatch.setenv(isolated_jobs.LEDGER, str(path))
    return Ledger(path)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that has ended and is not yet buried does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


async def gone(*pids: int) -> None:
    """Wait until processes have ended."""
    assert os.getpid() not in pids
    await eventually(looked(lambda: not any(is_there(pid) for pid in pids)))
