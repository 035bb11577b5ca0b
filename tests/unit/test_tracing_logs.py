"""What `opentelemetry-instrument` has put into logging before the daemon comes goes on hearing of its lines."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler, LogRecordProcessor
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from wakeful.core.settings import LogSettings
from wakeful.telemetry.events import CONFIG_LOADED
from wakeful.telemetry.logging import configure_logging, log_subscriber
from wakeful.telemetry.redaction import Redactor

SECRET = "correct-horse-battery"


class Exported:
    """Our lines, and what was exported beside them."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]

    @property
    def bodies(self) -> list[str]:
        return [str(one.log_record.body) for one in self.exporter.get_finished_logs()]

    @property
    def attributes(self) -> Mapping[str, Any]:
        (one,) = self.exporter.get_finished_logs()
        return one.log_record.attributes or {}


class BrokenProcessor(LogRecordProcessor):
    def on_emit(self, log_record: object) -> NoReturn:
        raise RuntimeError("a processor of logs that is broken")

    def shutdown(self) -> None: ...

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return True


@contextmanager
def exported(*before: LogRecordProcessor) -> Iterator[Exported]:
    """Have logging configured for the block, where OpenTelemetry's handler was there before."""
    made, provider, root = Exported(), LoggerProvider(), logging.getLogger()
    for processor in (*before, SimpleLogRecordProcessor(made.exporter)):
        provider.add_log_record_processor(processor)
    # It moves to another package, and stays the same.
    with pytest.warns(DeprecationWarning, match="LoggingHandler"):
        theirs = LoggingHandler(logger_provider=provider)
    root.addHandler(theirs)
    undo = configure_logging(LogSettings(format="json"), Redactor([SECRET]), stream=made.stream)
    try:
        yield made
    finally:
        undo()
        assert theirs in root.handlers
        root.removeHandler(theirs)
        provider.shutdown()


def test_the_exporter_of_logs_hears_of_the_daemons_lines_beside_our_own() -> None:
    with exported() as log:
        log_subscriber(CONFIG_LOADED, {"path": "config.toml"})

    assert log.bodies == ["config.loaded"]
    assert log.attributes["path"] == "config.toml"
    assert log.stream.getvalue().count("config.loaded") == 1


def test_no_secret_is_exported_wherever_it_stands() -> None:
    with exported() as log:
        try:
            raise ValueError(f"it is {SECRET}")
        except ValueError:
            extra = {"fields": {"name": SECRET}, "told": [SECRET], f"key {SECRET}": 1}
            logging.getLogger("shop").exception("said %s", SECRET, extra=extra)

    shown = f"{log.bodies} {dict(log.attributes)}"
    assert SECRET not in shown
    assert log.bodies == ["said ***"]
    assert log.attributes["exception.message"] == "it is ***"
    assert "test_tracing_logs" in log.attributes["exception.stacktrace"]
    assert (log.attributes["name_"], log.attributes["told"]) == ("***", ("***",))


def test_a_processor_of_logs_that_raises_breaks_nothing_of_whoever_logs() -> None:
    with exported(BrokenProcessor()) as log:
        logging.getLogger("shop").warning("said")

    assert log.stream.getvalue().count("said") == 1
