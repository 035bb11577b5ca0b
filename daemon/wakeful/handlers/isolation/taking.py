"""What a handler's process sends while an attempt runs there, taken in by the daemon: steps, lines, what is asked for.

Invariant: nothing is believed before it is checked; what makes no sense raises `GarbageFrame`, and the process is then
killed. What comes late, from an attempt that is over, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context

from wakeful.core import jsontext
from wakeful.core.names import name_problem
from wakeful.core.outcome import FollowUp
from wakeful.core.text import clean
from wakeful.errors import LeaseLost, WakefulError
from wakeful.handlers.buffer import alert_request
from wakeful.handlers.context import Inside, JobContext
from wakeful.handlers.isolation import answers
from wakeful.handlers.isolation.frames import Frame, GarbageFrame, number_of, optional_text_of, text_of
from wakeful.handlers.isolation.lines import log_line
from wakeful.handlers.isolation.output import LINE_LIMIT_BYTES
from wakeful.handlers.isolation.process import Process
from wakeful.telemetry.job_log import redactor_of_current_attempt


class Taking:
    """Takes in the frames of one attempt."""

    __slots__ = ("_buffer", "_job", "_port", "_process")

    def __init__(self, process: Process, job: JobContext, within: Inside) -> None:
        self._process = process
        self._job = job
        self._port = within.port
        self._buffer = within.buffer

    def say(self, line: str) -> None:
        """Log a line that the process has printed."""
        if self._job.log is not None:
            redactor = redactor_of_current_attempt()
            shown = clean(line if redactor is None else redactor.text(line), LINE_LIMIT_BYTES)
            self._job.log.info(shown, printed_by=self._process.pid)

    async def take(self, frame: Frame) -> answers.Answered | None:
        """Take a frame in; gives the answer, None where it is another. Raises GarbageFrame."""
        if frame.get("attempt") != self._process.attempts:
            self._take_late(frame)
            return None
        match frame["do"]:
            case "enter":
                await self._reply(frame, self._port.progress.enter(text_of(frame, "name")))
            case "leave":
                error = optional_text_of(frame, "error")
                await self._reply(frame, self._port.progress.leave(text_of(frame, "name"), error=error))
            case "mark":
                await self._mark(frame)
            case "log":
                log_line(frame, self._job)
            case "begun":
                pass
            case "enqueue" | "alert" | "degrade":
                self._keep(frame)
            case _:
                return answers.answer_of(frame)
        return None

    def _take_late(self, frame: Frame) -> None:
        if frame["do"] != "log":
            return
        if self._process.output.is_hushed:
            self._process.output.withhold()
        else:
            Context().run(log_line, frame)

    async def _reply(self, frame: Frame, answer: Awaitable[None]) -> None:
        error: BaseException | None = None
        try:
            await answer
        except (WakefulError, asyncio.CancelledError) as raised:
            error = raised
        reply: dict[str, object] = {"do": "reply", "id": number_of(frame, "id")}
        if error is not None:
            shown = self._port.control.reason or error
            reply |= {"error": type(shown).__name__, "message": str(shown)}
        self._process.send(reply)
        if isinstance(error, asyncio.CancelledError):
            raise error

    async def _mark(self, frame: Frame) -> None:
        percent = None if frame.get("percent") is None else number_of(frame, "percent")
        progress = self._port.progress
        try:
            progress.mark(optional_text_of(frame, "name"), percent, optional_text_of(frame, "message"))
            if progress.due:
                await progress.flush_if_due()
        except LeaseLost as lost:
            self._process.send({"do": "lost", "message": str(lost)})
        except ValueError as error:
            raise GarbageFrame(f"a percentage that is none ({error})") from None

    def _keep(self, frame: Frame) -> None:
        """Keep what the handler asks for, checked as if it had been asked here."""
        try:
            match frame["do"]:
                case "enqueue":
                    self._buffer.add_follow_up(_follow_up(frame))
                case "alert":
                    self._buffer.add_alert(
                        alert_request(
                            text_of(frame, "kind"),
                            title=text_of(frame, "title"),
                            severity=text_of(frame, "severity"),
                            dedupe_key=optional_text_of(frame, "dedupe_key"),
                            subject=optional_text_of(frame, "subject"),
                            body=jsontext.loads(text_of(frame, "body")),
                        )
                    )
                case _:
                    self._buffer.add_degraded(text_of(frame, "reason"))
        except (ValueError, RecursionError) as error:
            raise GarbageFrame(f"{frame['do']!r} that is refused: {error}") from None


def _follow_up(frame: Frame) -> FollowUp:
    job_type, payload, options = (text_of(frame, name) for name in ("job_type", "payload", "options"))
    if problem := name_problem(job_type):
        raise ValueError(f"job type {problem}")
    if not all(isinstance(jsontext.loads(text), dict) for text in (payload, options)):
        raise ValueError("its payload or its options are no JSON object")
    return FollowUp(job_type=job_type, payload_text=payload, options_text=options)
