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
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from json.encoder import encode_basestring
from types import FunctionType
from typing import Final, TextIO

import structlog
from structlog.contextvars import get_contextvars
from structlog.tracebacks import ExceptionDictTransformer
from structlog.types import EventDict, WrappedLogger

from wakeful.core.settings import LogSettings
from wakeful.core.text import describe_exception
from wakeful.telemetry import job_log
from wakeful.telemetry.events import LOG_DROPPED, Event
from wakeful.telemetry.exported import ExportHandler
from wakeful.telemetry.lines import HEAD, plain, simple_json, to_json, to_text
from wakeful.telemetry.records import fields_of, text_of
from wakeful.telemetry.redaction import Redactor
from wakeful.telemetry.writing import LineWriter

EVENT_LOGGER: Final = "wakeful"

_EVENTS: Final = logging.getLogger(EVENT_LOGGER)
_NUMBERS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_FRAMES: Final = 30


def configure_logging(
    settings: LogSettings, redactor: Redactor, *, stream: TextIO | None = None
) -> Callable[[], None]:
    """Send all that this process logs to `stream`, or to standard output; gives the call that undoes it."""
    target = sys.stdout if stream is None else stream
    as_text = settings.format == "text" or (settings.format == "auto" and _is_terminal(target))
    handler = LineHandler(target, redactor, as_text=as_text)
    root, level = logging.getLogger(), _NUMBERS[settings.level]
    before = (root.level, root.handlers[:], threading.excepthook)
    exporters = [one for one in before[1] if _exports(one)]
    root.handlers[:] = [handler, ExportHandler(exporters, redactor)] if exporters else [handler]
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


def _exports(handler: logging.Handler) -> bool:
    """Whether a handler is OpenTelemetry's, which `opentelemetry-instrument` puts there before we come."""
    return type(handler).__module__.startswith("opentelemetry.")


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
    only = _only_listener()
    if only is not None and only.write_simply(event, fields):
        return
    raised = [value for value in fields.values() if isinstance(value, BaseException)]
    shown = {
        key: describe_exception(value).summary if isinstance(value, BaseException) else value
        for key, value in fields.items()
    }
    whole = raised[0] if raised and level >= logging.ERROR else None
    _EVENTS.log(level, event.name, extra={"fields": shown}, exc_info=whole)


def _only_listener() -> LineHandler | None:
    """Give the one handler that hears of events, if that is Wakeful's own, and nobody looks at records on their way.

    Nobody would miss the record then, and making and passing it takes half of a line's time (ADR 0031). Tools that
    watch logs put in handlers and filters, or functions of their own in the place of these.
    """
    handlers, kind = logging.root.handlers, type(_EVENTS)
    only = handlers[0] if len(handlers) == 1 else None
    if not isinstance(only, LineHandler) or only.level or len(only.filters) != 1:
        return None
    if _EVENTS.handlers or _EVENTS.filters or not _EVENTS.propagate or _EVENTS.parent is not logging.root:
        return None
    is_watched = (
        logging.getLogRecordFactory() is not logging.LogRecord
        or kind.handle is not _HANDLE
        or kind.callHandlers is not _CALL_HANDLERS
        or kind.makeRecord is not _MAKE_RECORD
    )
    return None if is_watched else only


def _original(name: str) -> object:
    """Give a function of the standard library's logger; None where another stands in its place already."""
    found = getattr(logging.Logger, name)
    return found if type(found) is FunctionType and found.__globals__ is vars(logging) else None


_HANDLE: Final = _original("handle")
_CALL_HANDLERS: Final = _original("callHandlers")
_MAKE_RECORD: Final = _original("makeRecord")


class LineHandler(logging.Handler):
    """The end of the pipeline. A subclass, since the standard library asks for one."""

    def __init__(self, stream: TextIO, redactor: Redactor, *, as_text: bool) -> None:
        super().__init__()
        self.addFilter(_is_worth_a_line)
        self._writer = LineWriter(stream)
        self._of_process = redactor
        self._as_text = as_text
        self._coloured = as_text and _is_terminal(stream) and "NO_COLOR" not in os.environ
        self._second = (-1, "")
        self._encoding = getattr(stream, "encoding", None) or "utf-8"

    @property
    def _redactor(self) -> Redactor:
        return job_log.redactor_of_current_attempt() or self._of_process

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record; one that can't be written is dropped, since there is nowhere to say so."""
        try:
            self._write(self._rendered(record))
        except Exception:  # noqa: BLE001 - a closed pipe, a full disk, a record that breaks its reader
            return

    def write_simply(self, event: Event, fields: Mapping[str, object]) -> bool:
        """Write the line of an event that needs no care; False where it needs some, or is text for people."""
        if self._as_text:
            return False
        self.acquire()
        try:
            head = self._head(time.time(), event.level, event.name, EVENT_LOGGER)
            line = simple_json(head, fields, self._of_process)
            if line is not None:
                self._write(line)
        except Exception:  # noqa: BLE001 - as in `emit`
            return True
        finally:
            self.release()
        return line is not None

    def _write(self, line: str) -> None:
        if self._writer.write(line) and self._writer.dropped:
            self._tell_dropped()

    def _tell_dropped(self) -> None:
        shown = {"levelno": _NUMBERS[LOG_DROPPED.level], "fields": {"lines": self._writer.dropped}}
        told = logging.makeLogRecord({"msg": LOG_DROPPED.name, "name": EVENT_LOGGER, **shown})
        if self._writer.write(self._rendered(told)):
            self._writer.dropped = 0

    def _rendered(self, record: logging.LogRecord) -> str:
        level, event = _level_of(record), text_of(record)
        fields = _gathered(record, level, event)
        if not self._as_text:
            return self._json(record, level, event, fields)
        text = to_text(self._line(record, level, event, fields), coloured=self._coloured)
        return text.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def _json(self, record: logging.LogRecord, level: str, event: str, fields: Mapping[str, object]) -> str:
        is_plain = not record.exc_info and not record.stack_info and type(record.name) is str
        head = self._head(record.created, level, event, record.name) if is_plain else ""
        simple = simple_json(head, fields, self._redactor) if is_plain else None
        if simple is not None:
            return simple
        ascii_only = self._encoding.lower() not in ("utf-8", "utf8")
        return to_json(self._line(record, level, event, fields), ascii_only=ascii_only)

    def _head(self, created: float, level: str, event: str, logger: str) -> str:
        shown = f'"event": {encode_basestring(event)}, "logger": {encode_basestring(logger)}'
        return f'{{"timestamp": "{self._timestamp(created)}", "level": "{level}", {shown}'

    def _timestamp(self, created: float) -> str:
        seconds, microseconds = divmod(round(created * 1_000_000), 1_000_000)
        if seconds != self._second[0]:  # formatted once for all lines of a second: it takes a tenth of a line
            text = datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00")
            self._second = (seconds, text)
        return f"{self._second[1]}.{microseconds // 1000:03d}Z"

    def _line(
        self, record: logging.LogRecord, level: str, event: str, fields: Mapping[str, object]
    ) -> dict[str, object]:
        redactor = self._redactor
        line: dict[str, object] = {"timestamp": self._timestamp(record.created), "level": level}
        line |= {"event": plain(event, redactor), "logger": plain(record.name, redactor)}
        for key, value in fields.items():
            name = str(plain(key, redactor))
            line[f"{name}_" if name in HEAD else name] = plain(value, redactor)
        return line | self._blocks(record)

    def _blocks(self, record: logging.LogRecord) -> dict[str, object]:
        blocks: dict[str, object] = {}
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            shown = describe_exception(error).traceback if self._as_text else _structure_of(error)
            blocks["exception"] = plain(shown, self._redactor)
        if record.stack_info:
            blocks["stack"] = plain(record.stack_info, self._redactor)
        return blocks


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Leave out what aiohttp's server calls an error when a client (a port scanner, say) does not speak HTTP."""
    if record.name != "aiohttp.server":
        return True
    error = record.exc_info[1] if record.exc_info else None
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return "HttpProcessingError" not in kinds


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


def _gathered(record: logging.LogRecord, level: str, event: str) -> Mapping[str, object]:
    """Give what a record says and where it was said; a line of somebody else's is kept with the attempt."""
    fields = fields_of(record)
    if record.name == EVENT_LOGGER:  # the catalogue says exactly what an event carries
        return fields
    if record.name != job_log.JOB_LOGGER:
        job_log.keep_line_of_current_attempt(level, event, fields)
    bound = {**job_log.names_of_current_attempt(), **get_contextvars()}
    return {**dict(sorted(bound.items())), **fields}


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
