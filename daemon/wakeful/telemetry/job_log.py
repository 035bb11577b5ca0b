"""What one attempt logs: its name on every line, and its last lines for the job's page (table `job_log`).

Invariant: the context of a job is bound for a block and gone after it, so that no line carries another job's
id (F93); what is kept is bounded, clean and without secrets. Threads and child tasks that are started in the
block have it, too. Most attempts log nothing: whatever only a line needs is made with the first line (ADR 0031).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import Context, ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol, cast

import structlog
from structlog.typing import FilteringBoundLogger, WrappedLogger

from wakeful.core.text import clean, describe_exception
from wakeful.telemetry.lines import message_of, plain
from wakeful.telemetry.redaction import Redactor

JOB_LOGGER: Final = "wakeful.job"
KEPT_LINES: Final = 100
MESSAGE_LIMIT_BYTES: Final = 4096
_JOBS: Final = logging.getLogger(JOB_LOGGER)
_POSITIONAL: Final = structlog.stdlib.PositionalArgumentsFormatter()
_BoundLogger: Final[Any] = structlog.make_filtering_bound_logger(logging.DEBUG)
_LEVELS: Final = {"exception": "error", "warn": "warning", "fatal": "critical"}

_current: ContextVar[tuple[Named, LineBuffer] | None] = ContextVar("wakeful_job", default=None)


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

    __slots__ = ("_limit", "_lines", "redactor")

    def __init__(self, redactor: Redactor, limit: int = KEPT_LINES) -> None:
        self._lines: list[LogLine] = []
        self.redactor = redactor
        self._limit = limit

    def add(self, level: str, event: object, fields: Mapping[str, object]) -> None:
        """Keep one line; the oldest makes room. Never raises."""
        shown = {key: plain(value, self.redactor) for key, value in fields.items()}
        message = message_of(str(plain(event, self.redactor)), shown)
        line = LogLine(logged_at=datetime.now(UTC), level=level, message=clean(message, MESSAGE_LIMIT_BYTES))
        self._lines.append(line)
        del self._lines[: -self._limit]  # one step, as a thread sees it

    def lines(self) -> tuple[LogLine, ...]:
        """Give the lines that are kept, oldest first."""
        return tuple(self._lines)


class Named(Protocol):
    """What knows an attempt's names: its job, since most attempts never ask for them."""

    def fields(self) -> dict[str, object]:
        """Give the names as fields of a line."""
        ...


class AttemptContext:
    """The block in which an attempt's names are on every line. A class: a generator takes twice as long to enter."""

    __slots__ = ("_attempt", "_token")

    def __init__(self, names: Named, lines: LineBuffer) -> None:
        self._attempt = (names, lines)

    def __enter__(self) -> None:
        self._token = _current.set(self._attempt)

    def __exit__(self, *_raised: object) -> None:
        _current.reset(self._token)


def attempt_context(names: Named, lines: LineBuffer) -> AttemptContext:
    """Put the attempt's names on every line logged in the block, by whatever logger, and keep these lines.

    The caller runs each attempt in a task of its own: what the handler binds by itself ends with that task.
    """
    return AttemptContext(names, lines)


def attempt_in(context: Context | None = None) -> tuple[Named, LineBuffer] | None:
    """Give what tells the attempts apart that a context, or the current one, belongs to; None where it is nobody's."""
    return _current.get() if context is None else context.get(_current)


class JobLog:
    """The logger of a job's context: a structlog logger, made when it is first used."""

    __slots__ = ("_lines", "_logger", "_names")

    def __init__(self, names: Named, lines: LineBuffer) -> None:
        self._names, self._lines = names, lines
        self._logger: FilteringBoundLogger | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # asked for by `copy` and the like, before there is anything to ask
            raise AttributeError(name)
        if self._logger is None:
            self._logger = _bound(self._names, self._lines)
        return getattr(self._logger, name)


def job_logger(names: Named, lines: LineBuffer) -> FilteringBoundLogger:
    """Give the logger of a job's context: its lines are kept in `lines`, and logged with the job's names.

    They go through the standard library's logger "wakeful.job", so that they also appear where Wakeful does
    not configure logging; from a thread without the attempt's context they carry its names all the same.
    """
    return cast(FilteringBoundLogger, JobLog(names, lines))


def _bound(names: Named, lines: LineBuffer) -> FilteringBoundLogger:
    # As `structlog.wrap_logger` would after its first use, which takes 10 µs to get there.
    processors = (_POSITIONAL, _Handover(lines, names.fields()))
    return cast(FilteringBoundLogger, _BoundLogger(_JOBS, processors, {}))


def in_attempt() -> bool:
    """Whether the code that asks runs in an attempt's context: in a handler, or in what it started."""
    return _current.get() is not None


def names_of_current_attempt() -> Mapping[str, object]:
    """Give what a line of this context carries; nothing outside of an attempt."""
    attempt = _current.get()
    return {} if attempt is None else attempt[0].fields()


def redactor_of_current_attempt() -> Redactor | None:
    """Give what hides the secrets of the attempt that asks, those of its payload among them; None outside of one."""
    attempt = _current.get()
    return None if attempt is None else attempt[1].redactor


def keep_line_of_current_attempt(level: str, event: object, fields: Mapping[str, object]) -> None:
    """Keep a line that was logged in an attempt's context by a logger other than the job's own."""
    attempt = _current.get()
    if attempt is not None:
        attempt[1].add(level, event, fields)


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
