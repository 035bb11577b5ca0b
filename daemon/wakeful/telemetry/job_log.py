"""What one attempt logs: its name on every line, and its last lines for the job's page (table `job_log`).

Invariant: the context of a job is bound for a block and gone after it, so that no line carries another job's
id (F93); what is kept is bounded, clean and without secrets. Threads and child tasks that are started in the
block have it, too.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, cast
from uuid import UUID

import structlog
from structlog.contextvars import bound_contextvars
from structlog.typing import FilteringBoundLogger, WrappedLogger

from wakeful.core.text import clean, describe_exception
from wakeful.telemetry.lines import message_of, plain
from wakeful.telemetry.redaction import Redactor

JOB_LOGGER: Final = "wakeful.job"
KEPT_LINES: Final = 100
MESSAGE_LIMIT_BYTES: Final = 4096
_LEVELS: Final = {"exception": "error", "warn": "warning", "fatal": "critical"}

_current_lines: ContextVar[LineBuffer | None] = ContextVar("wakeful_job_lines", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line as it is stored.

    `logged_at` is this host's wall clock, UTC: for people to read, never compared.
    """

    logged_at: datetime
    level: str
    message: str


class LineBuffer:
    """The last lines of one attempt. Thread-safe."""

    __slots__ = ("_lines", "_redactor")

    def __init__(self, redactor: Redactor, limit: int = KEPT_LINES) -> None:
        self._lines: deque[LogLine] = deque(maxlen=limit)
        self._redactor = redactor

    def add(self, level: str, event: object, fields: Mapping[str, object]) -> None:
        """Keep one line; the oldest makes room. Never raises."""
        shown = {key: plain(value, self._redactor) for key, value in fields.items()}
        message = message_of(str(plain(event, self._redactor)), shown)
        line = LogLine(logged_at=datetime.now(UTC), level=level, message=clean(message, MESSAGE_LIMIT_BYTES))
        self._lines.append(line)

    def lines(self) -> tuple[LogLine, ...]:
        """Give the lines that are kept, oldest first."""
        return tuple(self._lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNames:
    """What every line of an attempt carries."""

    job_id: UUID
    job_type: str
    queue: str
    run_no: int
    attempt: int

    def fields(self) -> dict[str, object]:
        """Give the names as fields of a line."""
        return {
            "job_id": str(self.job_id),
            "job_type": self.job_type,
            "queue": self.queue,
            "run_no": self.run_no,
            "attempt": self.attempt,
        }


@contextmanager
def attempt_context(names: JobNames, lines: LineBuffer) -> Iterator[None]:
    """Put the attempt's names on every line logged in the block, by whatever logger, and keep these lines.

    The caller runs each attempt in a task of its own: what the handler binds by itself ends with that task.
    """
    token = _current_lines.set(lines)
    try:
        with bound_contextvars(**names.fields()):
            yield
    finally:
        _current_lines.reset(token)


def job_logger(names: JobNames, lines: LineBuffer) -> FilteringBoundLogger:
    """Give the logger of a job's context: its lines are kept in `lines`, and logged with the job's names.

    They go through the standard library's logger "wakeful.job", so that they also appear where Wakeful does
    not configure logging; from a thread without the attempt's context they carry its names all the same.
    """
    wrapped = structlog.wrap_logger(
        logging.getLogger(JOB_LOGGER),
        processors=[structlog.stdlib.PositionalArgumentsFormatter(), _Handover(lines, names.fields())],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        cache_logger_on_first_use=False,
    )
    return cast(FilteringBoundLogger, wrapped)


def in_attempt() -> bool:
    """Whether the code that asks runs in an attempt's context: in a handler, or in what it started."""
    return _current_lines.get() is not None


def keep_line_of_current_attempt(level: str, event: object, fields: Mapping[str, object]) -> None:
    """Keep a line that was logged in an attempt's context by a logger other than the job's own."""
    lines = _current_lines.get()
    if lines is not None:
        lines.add(level, event, fields)


@dataclass(frozen=True, slots=True)
class _Handover:
    """The last processor of a job's logger: keeps the line, then passes it on with the job's names."""

    lines: LineBuffer
    identity: Mapping[str, object]

    def __call__(
        self, logger: WrappedLogger, method: str, line: MutableMapping[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        level = _LEVELS.get(method, method)
        event = line.pop("event", "")
        error = _raised(line.pop("exc_info", None))
        if level != "debug" or logger.isEnabledFor(logging.DEBUG):
            shown = dict(line) if error is None else {**line, "error": describe_exception(error).summary}
            self.lines.add(level, event, shown)
        return (event,), {"extra": {"fields": {**self.identity, **line}}, "exc_info": error}


def _raised(exc_info: object) -> BaseException | None:
    """Give the exception that a caller of the logger meant: itself, "the current one", or the triple."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        return exc_info[1] if len(exc_info) > 1 and isinstance(exc_info[1], BaseException) else None
    return sys.exc_info()[1] if exc_info else None
