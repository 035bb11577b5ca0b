"""Records of the log on their way to OpenTelemetry's handlers, which export them beside the lines that we write.

Invariant: what is exported holds no secret that a line would not hold (R12); an exporter that raises breaks nothing of
whoever logs. Which handlers are there is for `logging` to say.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from wakeful.core.text import describe_exception
from wakeful.telemetry import job_log
from wakeful.telemetry.lines import plain
from wakeful.telemetry.records import fields_of, text_of
from wakeful.telemetry.redaction import Redactor

_OWN: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}


class ExportHandler(logging.Handler):
    """Hands copies of records on, their secrets hidden. A subclass, since the standard library asks for one."""

    def __init__(self, exporters: Iterable[logging.Handler], redactor: Redactor) -> None:
        super().__init__()
        self._exporters = tuple(exporters)
        self._of_process = redactor

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one record on; one that can't be is dropped, since there is nowhere to say so."""
        try:
            shown = _shown(record, job_log.redactor_of_current_attempt() or self._of_process)
        except Exception:  # noqa: BLE001 - a record that breaks its reader
            return
        for exporter in self._exporters:
            if shown.levelno >= exporter.level:
                _hand_on(exporter, shown)


def _hand_on(exporter: logging.Handler, record: logging.LogRecord) -> None:
    try:
        exporter.handle(record)
    except Exception:  # noqa: BLE001 - a processor of logs of somebody else's
        return


def _shown(record: logging.LogRecord, redactor: Redactor) -> logging.LogRecord:
    """Give a copy that holds texts for what it was given: its message, its fields by name, its exception."""
    shown = copy.copy(record)
    for name in [name for name in vars(shown) if name not in _OWN]:
        del shown.__dict__[name]
    shown.msg, shown.args = plain(text_of(record), redactor), ()
    shown.exc_info = shown.exc_text = shown.stack_info = None
    given = {**fields_of(record), **_of_exception(record)}
    for name, value in given.items():
        text = str(plain(name, redactor))
        shown.__dict__[f"{text}_" if text in _OWN else text] = plain(value, redactor)
    return shown


def _of_exception(record: logging.LogRecord) -> Mapping[str, object]:
    """Give what OpenTelemetry's handler would say of a record's exception."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return {}
    told = describe_exception(error)
    return {
        "exception.type": told.type,
        "exception.message": told.message,
        "exception.stacktrace": told.traceback,
    }
