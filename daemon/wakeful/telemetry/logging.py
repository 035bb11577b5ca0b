"""Configures logging in the processes of Wakeful's commands: one pipeline for all that they log.

Invariant: events of the catalogue, lines of handlers (structlog or the standard library's) and of foreign
libraries all become lines of the same shape, one write each, without secrets. Nothing is configured by
importing this: a program that embeds Wakeful keeps its own logging, and sees ours under the logger "wakeful".
The shape itself is in `lines`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import structlog
from structlog.contextvars import get_contextvars
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import EventDict, WrappedLogger

from wakeful.core.settings import LogSettings
from wakeful.core.text import describe_exception
from wakeful.telemetry.events import EVENTS, LOG_DROPPED, Event
from wakeful.telemetry.job_log import JOB_LOGGER, keep_line_of_current_attempt, names_of_current_attempt
from wakeful.telemetry.lines import HEAD, plain, simple_json, to_json, to_text
from wakeful.telemetry.redaction import Redactor
from wakeful.telemetry.writing import LineWriter

EVENT_LOGGER: Final = "wakeful"

_EVENTS: Final = logging.getLogger(EVENT_LOGGER)
_NUMBERS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_OF_EVERY_RECORD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {
    "message",
    "asctime",
    "taskName",
    "fields",
}
_FRAMES: Final = 30
_LEVELS: Final = {number: name for name, number in _NUMBERS.items()}
_NAMES: Final = frozenset(event.name for event in EVENTS)
_SIZE_OF_EVENT: Final = len(logging.makeLogRecord({}).__dict__) + len(["fields"])


def configure_logging(
    settings: LogSettings, redactor: Redactor, *, stream: TextIO | None = None
) -> Callable[[], None]:
    """Send all that this process logs to `stream`, or to standard output; gives the call that undoes it."""
    target = sys.stdout if stream is None else stream
    as_text = settings.format == "text" or (settings.format == "auto" and _is_terminal(target))
    handler = LineHandler(target, redactor, as_text=as_text)
    root, level = logging.getLogger(), _NUMBERS[settings.level]
    before = (root.level, root.handlers[:], threading.excepthook)
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_end_of_thread
    structlog.configure(
        processors=[structlog.stdlib.PositionalArgumentsFormatter(), _hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )

    def undo() -> None:
        structlog.reset_defaults()
        logging.captureWarnings(capture=False)
        root.setLevel(before[0])
        root.handlers[:] = before[1]
        threading.excepthook = before[2]

    return undo


def log_wants(event: Event) -> bool:
    """Whether the level that is set now lets an event through."""
    return _EVENTS.isEnabledFor(_NUMBERS[event.level])


def log_subscriber(event: Event, fields: Mapping[str, object]) -> None:
    """Subscriber of the bus: one line an event.

    Of an exception among the fields its text; from "error" on all of it.
    """
    level = _NUMBERS[event.level]
    if not _EVENTS.isEnabledFor(level):
        return
    raised = [value for value in fields.values() if isinstance(value, BaseException)]
    whole = None
    if raised:
        fields = {
            key: describe_exception(value).summary if isinstance(value, BaseException) else value
            for key, value in fields.items()
        }
        whole = raised[0] if level >= logging.ERROR else None
    exc_info = None if whole is None else (type(whole), whole, whole.__traceback__)
    # Not `logger.log`: it would look through the stack for a caller, for 4 µs, and find the bus.
    record = _EVENTS.makeRecord(EVENT_LOGGER, level, EVENT_LOGGER, 0, event.name, (), exc_info)
    record.__dict__["fields"] = fields
    _EVENTS.handle(record)


class LineHandler(logging.Handler):
    """The end of the pipeline. A subclass, since the standard library asks for one."""

    def __init__(self, stream: TextIO, redactor: Redactor, *, as_text: bool) -> None:
        super().__init__()
        self.addFilter(_is_worth_a_line)
        self._writer = LineWriter(stream)
        self._redactor = redactor
        self._as_text = as_text
        self._coloured = as_text and _is_terminal(stream) and "NO_COLOR" not in os.environ
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; one that can't be written is dropped, since there is nowhere to say so."""
        try:
            written = self._writer.write(self._rendered(record))
            if written and self._writer.dropped:
                self._tell_dropped()
        except Exception:  # noqa: BLE001 - a closed pipe, a full disk, a record that breaks its reader
            return

    def _tell_dropped(self) -> None:
        fields = {"fields": {"lines": self._writer.dropped}, "name": EVENT_LOGGER}
        level = _NUMBERS[LOG_DROPPED.level]
        told = logging.makeLogRecord({"msg": LOG_DROPPED.name, "levelno": level, **fields})
        if self._writer.write(self._rendered(told)):
            self._writer.dropped = 0

    def _rendered(self, record: logging.LogRecord) -> str:
        simple = None if self._as_text else self._simple(record)
        if simple is not None:
            return simple
        line = self._line(record)
        if not self._as_text:
            return to_json(line, ascii_only=self._encoding.lower() not in ("utf-8", "utf8"))
        text = to_text(line, coloured=self._coloured)
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _simple(self, record: logging.LogRecord) -> str | None:
        """Give the line of an event of the catalogue that nobody has added to, if it needs no care."""
        level, given, name = _LEVELS.get(record.levelno), record.__dict__, record.msg
        is_event = record.name == EVENT_LOGGER and "fields" in given and len(given) == _SIZE_OF_EVENT
        if level is None or not is_event or name not in _NAMES or record.exc_info or record.stack_info:
            return None
        head = f'{{"timestamp": "{_timestamp(record)}", "level": "{level}", "event": "{name}", '
        return simple_json(f'{head}"logger": "{EVENT_LOGGER}"', given["fields"], self._redactor)

    def _line(self, record: logging.LogRecord) -> dict[str, object]:
        level, event = _level_of(record), _message_of(record)
        fields = _fields_of(record)
        if record.name not in (EVENT_LOGGER, JOB_LOGGER):
            keep_line_of_current_attempt(level, event, fields)
        if record.name != EVENT_LOGGER:  # the catalogue says exactly what an event carries
            bound = {**names_of_current_attempt(), **get_contextvars()}
            fields = {**dict(sorted(bound.items())), **fields}
        line: dict[str, object] = {"timestamp": _timestamp(record), "level": level}
        line |= {"event": plain(event, self._redactor), "logger": plain(record.name, self._redactor)}
        for key, value in fields.items():
            name = str(plain(key, self._redactor))
            line[f"{name}_" if name in HEAD else name] = plain(value, self._redactor)
        return line | self._blocks(record)

    def _blocks(self, record: logging.LogRecord) -> dict[str, object]:
        blocks: dict[str, object] = {}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self._as_text:
            blocks["exception"] = plain(describe_exception(error).traceback, self._redactor)
        elif error is not None:
            blocks["exception"] = plain(_structure_of(error), self._redactor)
        if record.stack_info:
            blocks["stack"] = plain(record.stack_info, self._redactor)
        return blocks


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Leave out what aiohttp's server calls an error when a client (a port scanner, say) does not speak HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return not (record.name == "aiohttp.server" and "HttpProcessingError" in kinds)


def _structure_of(error: BaseException) -> object:
    try:
        describe = ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES)
        return describe((type(error), error, error.__traceback__))
    except Exception:  # noqa: BLE001 - attributes of an exception are its author's code
        return describe_exception(error).traceback


def _hand_over(
    _logger: WrappedLogger, _method: str, line: EventDict
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Last processor of a user's structlog logger: passes the line on to the standard library's."""
    event, exc_info, stack = line.pop("event", ""), line.pop("exc_info", None), line.pop("stack_info", False)
    return (event,), {"extra": {"fields": line}, "exc_info": exc_info, "stack_info": stack}


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    given = record.__dict__
    found = {key: value for key, value in given.items() if key not in _OF_EVERY_RECORD}
    fields = given.get("fields")
    return {**found, **fields} if isinstance(fields, Mapping) else found


def _timestamp(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return at.replace("+00:00", "Z")


def _message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit the message, or one of them raises
        return f"{record.msg!r} (its arguments can't be shown)"


def _level_of(record: logging.LogRecord) -> str:
    names = [name for name, number in _NUMBERS.items() if number <= record.levelno]
    return names[-1] if names else "debug"


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def _log_end_of_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
        name = args.thread.name if args.thread is not None else "unknown"
        logging.getLogger("threading").error("thread %s ended by an exception", name, exc_info=args.exc_value)
