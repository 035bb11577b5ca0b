"""The way from a process of handlers to its daemon: frames, sent from any thread, in their order.

Invariant: a frame is sent whole or not at all, and whoever sends waits while the daemon reads slowly: a handler that
floods it slows itself down. A forked copy of the process sends nothing. Without its daemon the process ends.
"""

from __future__ import annotations

import logging
import os
import select
import sys
from threading import Lock
from typing import Final, NoReturn

from structlog.contextvars import get_contextvars

from wakeful.core.settings import LogSettings
from wakeful.core.text import clean, describe_exception
from wakeful.handlers.isolation.frames import Frame, encode
from wakeful.telemetry.job_log import JOB_LOGGER, names_of_current_attempt
from wakeful.telemetry.lines import plain
from wakeful.telemetry.logging import configure_logging
from wakeful.telemetry.records import fields_of, text_of
from wakeful.telemetry.redaction import Redactor

LINE_LIMIT_BYTES: Final = 64 * 1024
EVENT_LIMIT_BYTES: Final = 16 * 1024

_NAMES: Final = ("job_id", "job_type", "queue", "run_no", "attempt")


class Outlet:
    """The sending end. `attempt` is the number that every frame carries: which attempt of this process it is about."""

    __slots__ = ("_connection", "_lock", "_pid", "_writable", "attempt")

    def __init__(self, connection: int) -> None:
        self._connection = connection
        self._lock = Lock()
        self._pid = os.getpid()
        self._writable = select.poll()
        self._writable.register(connection, select.POLLOUT)
        self.attempt = 0

    def send(self, frame: Frame) -> None:
        """Send a frame; raises ValueError where it is too long."""
        content = memoryview(encode({**frame, "attempt": self.attempt}))
        if os.getpid() != self._pid:
            return
        with self._lock:
            while content:
                content = content[self._write(content) :]

    def _write(self, content: memoryview) -> int:
        try:
            return os.write(self._connection, content)
        except BlockingIOError:
            self._writable.poll()
            return 0
        except OSError:
            _end_without_parent()


def _end_without_parent() -> NoReturn:
    os._exit(1)


def forward_logs(outlet: Outlet, level: int) -> None:
    """Send all that this process logs, by whatever logger, to the daemon."""
    configure_logging(LogSettings(), Redactor(), stream=sys.stderr)
    root = logging.getLogger()
    root.setLevel(level)
    root.handlers[:] = [ForwardingHandler(outlet)]
    logging.getLogger(JOB_LOGGER).setLevel(
        min(level, logging.INFO)
    )  # a job's own lines are kept at any level


class ForwardingHandler(logging.Handler):
    """Sends each record as a frame; what the daemon needs no copy of is left out. A subclass, as logging asks for."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__()
        self._outlet = outlet

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record; of one that is too long the fields are left out."""
        try:
            fields = _fields_of(record)
            frame = {
                "do": "log",
                "logger": clean(record.name, 200),
                "level": record.levelno,
                "event": clean(text_of(record), EVENT_LIMIT_BYTES),
            }
            if len(encode({**frame, "fields": fields})) > LINE_LIMIT_BYTES:
                fields = {"fields_omitted": len(fields)}
            self._outlet.send({**frame, "fields": fields})
        except Exception:  # noqa: BLE001 -- a record that breaks its reader is dropped, as everywhere
            return


def _fields_of(record: logging.LogRecord) -> dict[str, object]:
    fields = {**get_contextvars(), **fields_of(record)}
    if record.name == JOB_LOGGER or names_of_current_attempt():
        fields = {key: value for key, value in fields.items() if key not in _NAMES}
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        entry = describe_exception(error)
        fields |= {"error": entry.summary, "exception": entry.traceback}
    shown = plain(fields, Redactor())
    return shown if isinstance(shown, dict) else {}
