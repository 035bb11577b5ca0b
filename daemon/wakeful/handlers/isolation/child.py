"""The inside of a process of handlers: it imports them itself, and runs the attempts that the daemon sends, one by one.

Invariant: each attempt has a task and context variables of its own; its answer is sent once, after all else that it
had to say. Lifespans are entered once, before the first attempt, and left at the end. Ending a process that does not
answer is the daemon's business, and needs nothing of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from wakeful.core.job import Job
from wakeful.core.outcome import AlertRequest, FollowUp
from wakeful.core.text import describe_exception
from wakeful.errors import ConfigError, UnknownJobType
from wakeful.handlers.buffer import Asked, Buffer
from wakeful.handlers.context import JobContext, decoded_payload
from wakeful.handlers.control import AttemptControl, StopReason
from wakeful.handlers.handler import Handler
from wakeful.handlers.invoke import Answer, Raised, invoke
from wakeful.handlers.isolation import answers
from wakeful.handlers.isolation.documents import job_of, reason_of
from wakeful.handlers.isolation.frames import Frame, FrameReader, text_of
from wakeful.handlers.isolation.remote import RemoteProgress
from wakeful.handlers.isolation.sending import Outlet, forward_logs
from wakeful.handlers.loading import load_registry
from wakeful.handlers.registry import Registry
from wakeful.handlers.resources import Resources
from wakeful.handlers.steps import ProgressPort
from wakeful.handlers.threads import ThreadPool, open_threads
from wakeful.telemetry.job_log import LineBuffer, attempt_context, job_logger
from wakeful.telemetry.redaction import Redactor
from wakeful.telemetry.tracing.carrier import Carrier, carrier_of
from wakeful.telemetry.tracing.joining import instrument, within_remote

EXIT_CONFIG: Final = 78
EXIT_FAILED: Final = 1


def serve_process(connection: int, hello: Mapping[str, Any]) -> int:
    """Be a process of handlers until the daemon says that it is over; gives the exit code."""
    outlet = Outlet(connection)
    if hello.get("instrument"):
        instrument()
    # After that: what this process logs the daemon exports, which knows the secrets.
    forward_logs(outlet, hello["level"])
    try:
        registry = load_registry(hello["modules"])
        _refuse_missing(registry, hello["job_types"])
    except ConfigError as error:
        outlet.send({"do": "refused", "problems": list(error.problems)})
        return EXIT_CONFIG
    return anyio.run(_serve, registry, outlet, connection)


def _refuse_missing(registry: Registry, job_types: list[str]) -> None:
    missing = [one for one in job_types if not _is_isolated(registry, one)]
    if missing:
        raise ConfigError(
            tuple(
                f"handlers: {one} has isolation, but a process that imports the modules anew finds no such "
                "handler: register it at the top of its module, under no condition"
                for one in missing
            )
        )


def _is_isolated(registry: Registry, job_type: str) -> bool:
    try:
        return registry.find(job_type).is_isolated
    except UnknownJobType:
        return False


async def _serve(registry: Registry, outlet: Outlet, connection: int) -> int:
    reader, writer = await asyncio.open_unix_connection(sock=socket.socket(fileno=connection))
    ready = False
    try:
        async with (
            registry.open_isolated_resources() as resources,
            open_threads(limit=1, stuck_limit=0) as threads,
        ):
            outlet.send({"do": "ready"})
            ready = True
            await _work(_Serving(registry, resources, threads, outlet), FrameReader(reader))
    except Exception as error:  # noqa: BLE001 -- a lifespan is its author's code
        entry = describe_exception(error)
        sys.stderr.write(f"{entry.traceback}\n")
        if not ready:
            outlet.send({"do": "failed", "message": entry.summary})
        return EXIT_FAILED
    finally:
        writer.close()
    return 0


async def _work(serving: _Serving, frames: FrameReader) -> None:
    run: _Run | None = None
    async with anyio.create_task_group() as group:
        while (frame := await frames.read()) is not None and frame["do"] != "leave":
            match frame["do"]:
                case "run":
                    run = serving.begin(frame)
                    group.start_soon(run.see_through)
                case "stop" if run is not None:
                    run.stop(reason_of(frame))
                case "reply" if run is not None:
                    run.progress.answered(frame)
                case "lost" if run is not None:
                    run.progress.lose(text_of(frame, "message"))
        group.cancel_scope.cancel()


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # a handler may have put anything in their place
            stream.flush()


@dataclass(frozen=True, slots=True)
class _Serving:
    """What all attempts of this process share."""

    registry: Registry
    resources: Resources
    threads: ThreadPool
    outlet: Outlet

    def begin(self, frame: Frame) -> _Run:
        self.outlet.attempt = frame["attempt"]
        job = job_of(frame["job"])
        return _Run(
            serving=self,
            job=job,
            handler=self.registry.find(job.job_type),
            control=AttemptControl(frame["seconds"]),
            progress=RemoteProgress(self.outlet),
            trace=carrier_of(frame.get("trace")),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """One attempt."""

    serving: _Serving
    job: Job
    handler: Handler
    control: AttemptControl
    progress: RemoteProgress
    trace: Carrier | None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    label: str = ""

    async def see_through(self) -> None:
        """Call the handler, and send its answer."""
        with self.scope:
            self.serving.outlet.send({"do": "begun"})
            answer = await self._answer()
            self.progress.send_marks()
            _flush_output()
            frame = (
                answers.raised(answer.exception)
                if isinstance(answer, Raised)
                else answers.returned(answer.value)
            )
            self.serving.outlet.send(frame)

    def stop(self, reason: StopReason) -> None:
        """Let the handler see that it should stop, and cancel what it waits for."""
        self.control.cancel(reason)
        if not self.serving.threads.carries(self.label):
            self.scope.cancel()

    async def _answer(self) -> Answer:
        job, handler = self.job, self.handler
        lines = LineBuffer(Redactor())
        try:
            raw = decoded_payload(job)
            payload = handler.bind(raw) if handler.takes_payload else None
        except BaseException as error:  # noqa: BLE001 -- a payload type's own validation may raise anything
            return Raised(error)
        context = JobContext(
            job,
            raw,
            ProgressPort(lambda: self.progress, self.serving.threads.bridge, self.control),
            resources=self.serving.resources.of(handler),
            log=job_logger(job, lines),
            buffer=Buffer(self._send_asked),
        )
        self.label = context.label
        with attempt_context(job, lines), within_remote(self.trace):
            answer = await invoke(handler, context, payload, self.serving.threads)
        context.close()
        return answer

    def _send_asked(self, asked: Asked) -> None:
        match asked:
            case FollowUp():
                texts = {"payload": asked.payload_text, "options": asked.options_text}
                self.serving.outlet.send({"do": "enqueue", "job_type": asked.job_type, **texts})
            case AlertRequest():
                about = {"dedupe_key": asked.dedupe_key, "subject": asked.subject, "body": asked.body_text}
                shown = {"kind": asked.kind, "title": asked.title, "severity": asked.severity}
                self.serving.outlet.send({"do": "alert", **shown, **about})
            case _:
                self.serving.outlet.send({"do": "degrade", "reason": asked})
