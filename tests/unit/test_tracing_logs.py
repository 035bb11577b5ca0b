"""What `opentelemetry-instrument` has put into logging before the daemon comes goes on hearing of its lines."""

from __future__ import annotations

import io
import logging

import pytest
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

from wakeful.core.settings import LogSettings
from wakeful.telemetry.events import CONFIG_LOADED
from wakeful.telemetry.logging import configure_logging, log_subscriber
from wakeful.telemetry.redaction import Redactor


def test_the_exporter_of_logs_hears_of_the_daemons_lines_beside_our_own() -> None:
    provider, stream = LoggerProvider(), io.StringIO()
    exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    # It moves to another package, and stays the same.
    with pytest.warns(DeprecationWarning, match="LoggingHandler"):
        theirs = LoggingHandler(logger_provider=provider)
    logging.getLogger().addHandler(theirs)
    try:
        undo = configure_logging(LogSettings(format="json"), Redactor(), stream=stream)
        log_subscriber(CONFIG_LOADED, {"path": "config.toml"})
        undo()
    finally:
        logging.getLogger().removeHandler(theirs)
        provider.shutdown()

    assert [str(one.log_record.body) for one in exporter.get_finished_logs()] == ["config.loaded"]
    assert stream.getvalue().count("config.loaded") == 1
