"""Log lines: one shape for all that is logged, safe against what was logged, and without secrets."""

from __future__ import annotations

import io
import json
import logging
import math
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
import structlog
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wakeful.core.settings import LogFormat, LogSettings
from wakeful.telemetry.bus import Telemetry
from wakeful.telemetry.events import DAEMON_CRASHED, DATABASE_LOST, EVENTS, JOB_FINISHED, LANES_CLAIMED
from wakeful.telemetry.lines import HEAD, plain, simple_json, to_json, to_text
from wakeful.telemetry.logging import configure_logging, log_subscriber, log_wants
from wakeful.telemetry.redaction import Redactor

ID = UUID(int=1)
HOSTILE = "first\nsecond\r{}\x1b[2J\x1b]0;title\x07\x9b31m\u2028\u202egnp\x00\ud800"


class Log:
    """A configured log, in memory."""

    def __init__(self) -> None:
        self.stream = io.StringIO()

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text.splitlines()]


Configured = Callable[..., Log]


@pytest.fixture
def configured() -> Iterator[Configured]:
    """Configure logging as JSON, or as told, for the test."""
    undone: list[Callable[[], None]] = []

    def configure(form: LogFormat = "json", *secrets: str) -> Log:
        log = Log()
        undone.append(configure_logging(LogSettings(format=form), Redactor(secrets), stream=log.stream))
        return log

    yield configure
    for undo in reversed(undone):
        undo()


def test_an_event_is_a_line_with_its_fields_and_without_the_context(configured: Configured) -> None:
    log, telemetry = configured(), _telemetry()

    with structlog.contextvars.bound_contextvars(job_id="of another"):
        telemetry.emit(JOB_FINISHED, job_id=ID, job_type="COLLECT", wait_ms=3, degraded=("copy",))

    (line,) = log.lines
    stamp = datetime.fromisoformat(str(line.pop("timestamp")))
    assert stamp.utcoffset() == timedelta(0)
    assert line == {
        "level": "info",
        "event": "job.finished",
        "logger": "wakeful",
        "job_id": str(ID),
        "job_type": "COLLECT",
        "wait_ms": 3,
        "degraded": ["copy"],
    }


def test_an_event_below_the_level_is_not_written(configured: Configured) -> None:
    log = configured()

    _telemetry().emit(LANES_CLAIMED, jobs=1)

    assert log.text == ""


def test_a_log_wants_what_the_level_of_the_moment_lets_through(configured: Configured) -> None:
    configured()
    telemetry = Telemetry(strict=True)
    telemetry.subscribe(log_subscriber, log_wants)
    assert telemetry.hears(JOB_FINISHED) and not telemetry.hears(LANES_CLAIMED)

    logging.getLogger("wakeful").setLevel(logging.DEBUG)
    assert log_wants(LANES_CLAIMED)
    logging.getLogger("wakeful").setLevel(logging.WARNING)
    assert not log_wants(JOB_FINISHED)
    logging.getLogger("wakeful").setLevel(logging.NOTSET)


def test_an_exception_in_an_event_is_its_text_and_from_error_on_all_of_it(configured: Configured) -> None:
    log, telemetry = configured(), _telemetry()
    try:
        _raise()
    except ValueError as error:
        telemetry.emit(DATABASE_LOST, error=error)
        telemetry.emit(DAEMON_CRASHED, error=error)

    lost, crashed = log.lines
    assert lost["error"] == crashed["error"] == "ValueError: no such place"
    assert "exception" not in lost
    (raised,) = _list(crashed["exception"])
    assert raised["exc_type"] == "ValueError"
    assert [frame["name"] for frame in _list(raised["frames"])][-1] == "_raise"
    assert "locals" not in json.dumps(crashed)


def test_lines_of_the_standard_library_and_of_structlog_have_the_same_shape(configured: Configured) -> None:
    log = configured()

    logging.getLogger("httpx").warning("got %d from %s", 429, "host", extra={"pages": 4, "level": "mine"})
    structlog.get_logger("mine").info("got %d", 200, pages=4, level="mine")
    with pytest.warns(UserWarning, match="old"):
        warnings.warn("old", stacklevel=1)

    foreign, own = log.lines
    assert (foreign["event"], foreign["level"], foreign["logger"]) == (
        "got 429 from host",
        "warning",
        "httpx",
    )
    assert (own["event"], own["level"], own["logger"]) == ("got 200", "info", "mine")
    assert (foreign["pages"], own["pages"]) == (4, 4)
    assert (foreign["level_"], own["level_"]) == ("mine", "mine")


def test_exceptions_and_stacks_of_both_are_structured(configured: Configured) -> None:
    log = configured()
    try:
        _raise()
    except ValueError:
        logging.getLogger("a").exception("bad")
        structlog.get_logger("b").exception("bad")
    structlog.get_logger("c").info("here", stack_info=True)

    first, second, third = log.lines
    for line in (first, second):
        assert _list(line["exception"])[0]["exc_value"] == "no such place"
    assert "test_exceptions_and_stacks" in str(third["stack"])


def test_a_thread_that_dies_is_logged(configured: Configured) -> None:
    log = configured("json", "geheim")

    thread = threading.Thread(target=_raise_secret, name="beat")
    thread.start()
    thread.join()

    (line,) = log.lines
    assert line["event"] == "thread beat ended by an exception"
    assert "geheim" not in log.text and "***" in log.text


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_is_written_wherever_it_stands(form: LogFormat, configured: Configured) -> None:
    log, telemetry = configured(form, "geheim"), _telemetry()

    telemetry.emit(DATABASE_LOST, error="postgresql://u:geheim@h/x", host={"geheim": ["geheim"]})
    logging.getLogger("geheim").warning("a %s", "geheim", extra={"geheim": b"geheim"})
    structlog.get_logger("x").info("geheim", error=ValueError("geheim"))
    try:
        _raise_secret()
    except ValueError as error:
        error.add_note("geheim")
        telemetry.emit(DAEMON_CRASHED, error=error)
        logging.getLogger("x").exception("bad", stack_info=True)

    assert log.text.count("***") >= 10
    assert "geheim" not in log.text.replace("_raise_secret", "")


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.case("F93")
def test_no_text_forges_a_line_or_moves_the_cursor(form: LogFormat, configured: Configured) -> None:
    log, telemetry = configured(form), _telemetry()

    telemetry.emit(JOB_FINISHED, job_type=HOSTILE, error={HOSTILE: HOSTILE})
    logging.getLogger(HOSTILE).warning("%s", HOSTILE, extra={HOSTILE: HOSTILE})
    structlog.get_logger("x").info(HOSTILE, **{HOSTILE: HOSTILE})

    assert log.text.count("\n") == 3
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\ud800-\udfff]", log.text)
    if form == "json":
        kept = str(log.lines[0]["job_type"])
        assert kept == HOSTILE.replace("\x00", "\u2400").replace("\ud800", "\ufffd")


def test_the_text_form_shows_a_traceback_below_its_line(configured: Configured) -> None:
    log = configured("text")
    try:
        _raise("\x1b[31m\nforged.event level=error")
    except ValueError:
        structlog.get_logger("x").exception("bad", pages=4, place="Café 1")

    first, *below = log.text.splitlines()
    assert re.fullmatch(r'\d\d:\d\d:\d\d\.\d{3} error    bad pages=4 place="Café 1"', first)
    assert below[0] == "    | Traceback (most recent call last):"
    assert all(line.startswith("    | ") for line in below)
    assert "forged.event level=error" in below[-1] and "\x1b" not in log.text


@pytest.mark.parametrize(("colour", "wanted"), [(None, True), ("1", False)])
def test_a_terminal_gets_coloured_text_unless_it_asks_for_none(
    colour: str | None, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if colour is not None:
        monkeypatch.setenv("NO_COLOR", colour)
    reader, writer = os.openpty()
    with open(writer, "w", encoding="utf-8") as terminal:  # noqa: PTH123 - a descriptor
        undo = configure_logging(LogSettings(), Redactor(), stream=terminal)
        structlog.get_logger("x").warning("hello", pages=4)
        undo()
        written = os.read(reader, 1000).decode()
    os.close(reader)

    assert ("\x1b[33m" in written) is wanted
    assert re.sub(r"\x1b\[[\d;]*m", "", written).rstrip().endswith("warning  hello pages=4")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_stream_of_another_encoding_loses_nothing(form: LogFormat) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    undo = configure_logging(LogSettings(format=form), Redactor(), stream=stream)
    structlog.get_logger("x").warning("Café")
    undo()

    written = raw.getvalue().decode("ascii")
    assert "Caf\\xe9" in written if form == "text" else json.loads(written)["event"] == "Café"


def test_what_cannot_be_shown_or_written_hurts_nobody(configured: Configured) -> None:
    log = configured()

    logging.getLogger("x").warning("%d places", "many")
    logging.getLogger("x").warning(
        "odd", extra={"a": _Odd(), "b": float("nan"), "c": 10**5000, "d": [_loop()]}
    )
    first, second = log.lines
    assert first["event"] == "'%d places' (its arguments can't be shown)"
    assert (second["a"], second["b"]) == ("<_Odd without a readable text>", "nan")
    log.stream.close()
    logging.getLogger("x").warning("to nobody")


def test_everything_is_as_before_once_it_is_undone() -> None:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, threading.excepthook, structlog.get_config())

    configure_logging(LogSettings(), Redactor(), stream=io.StringIO())()

    assert (root.handlers, root.level, threading.excepthook, structlog.get_config()) == before


_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


_KEYS = [*sorted({name for event in EVENTS for name in event.fields}), "level", "unknown", 'a"b', "ключ"]
_SECRET = st.sampled_from(["geheim", 'ge"heim', "ge\\heim", "ge\nheim", "1234", "job_", "ключ", "password='"])
_words = st.sampled_from(
    [HOSTILE, "COLLECT", "a=b", "postgresql://u:pw@h", "password='", "\x7f", "x" * 5000, ""]
)
_telling = _anything | _words | _SECRET | st.uuids() | st.integers(-(2**70), 2**70) | st.just(10**5000)


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(_KEYS), _telling, max_size=8),
    st.lists(_SECRET, max_size=3),
)
@example({"subject": 'ge"heim'}, ['ge"heim'])
@example({"subject": "ge\nheim"}, ["ge\nheim"])
@example({"subject": "a\u2028b"}, [])
@example({"subject": "\x7f"}, [])
@example({"subject": "\x00"}, [])
@example({"subject": "x" * 20_000}, [])
@example({"wait_ms": 2**1025}, [])
@example({"wait_ms": math.nan, "run_ms": True}, [])
@example({"subject": "password='", "error": "password='x'"}, [])
@example({"queue": "x"}, ["queue"])
def test_a_line_that_is_written_the_short_way_is_the_same_to_the_last_byte(
    fields: dict[str, object], secrets: list[str]
) -> None:
    redactor = Redactor(secrets)
    long: dict[str, object] = {"event": "said"}
    for key, value in fields.items():
        name = str(plain(key, redactor))
        long[f"{name}_" if name in HEAD else name] = plain(value, redactor)

    short = simple_json('{"event": "said"', fields, redactor)
    assert short in (None, to_json(long), to_json(long, ascii_only=True))

    written = []
    for others in ([], [logging.NullHandler()]):
        stream = io.StringIO()
        undo = configure_logging(LogSettings(format="json"), redactor, stream=stream)
        logging.root.handlers += others
        log_subscriber(JOB_FINISHED, fields)
        undo()
        written.append(re.sub('^{"timestamp": "[-\\dT:.]{23}Z"', "", stream.getvalue()))
    assert written[0] == written[1] != ""


def test_whoever_watches_the_standard_librarys_log_sees_the_events(
    configured: Configured, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    configured()
    passing = logging.Logger.callHandlers
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda own, record: seen.append(record.msg))
    seen: list[object] = []
    log_subscriber(JOB_FINISHED, {"run_no": 1})
    monkeypatch.setattr(logging.Logger, "callHandlers", passing)
    assert seen == ["job.finished"]

    logger = logging.getLogger("wakeful")
    ways: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: logger.addHandler(caplog.handler), lambda: logger.removeHandler(caplog.handler)),
        (lambda: logging.root.addHandler(caplog.handler), lambda: logging.root.removeHandler(caplog.handler)),
        (lambda: logger.addFilter(_keeping(seen)), logger.filters.clear),
        (lambda: logging.setLogRecordFactory(_keeping_factory(seen)), _plain_factory),
    ]
    for add, remove in ways:
        caplog.clear()
        seen.clear()
        add()
        log_subscriber(JOB_FINISHED, {"run_no": 1})
        remove()
        assert (seen or [record.message for record in caplog.records]) == ["job.finished"]


@pytest.mark.parametrize(
    "attempt", [{"job_id": ID, "run_ms": 3, "subject": None, "degraded": True, "seconds": 0.5}]
)
def test_the_canonical_line_of_a_plain_attempt_goes_the_short_way(attempt: dict[str, object]) -> None:
    text = simple_json('{"a": 1', attempt, Redactor(["geheim"]))

    assert text is not None
    assert json.loads(text) == {"a": 1, **attempt, "job_id": str(ID)}


@given(st.dictionaries(st.text(max_size=8), _anything, max_size=5))
def test_whatever_is_logged_is_one_line_of_json_and_one_of_text(fields: dict[str, object]) -> None:
    shown = plain(fields, Redactor())
    assert isinstance(shown, dict)

    assert json.loads(to_json(shown)) == shown
    assert to_json(shown, ascii_only=True).isascii()
    assert "\n" not in to_json(shown)
    blocks = {"exception", "stack"} & set(shown)
    assert blocks or "\n" not in to_text(shown, coloured=False)


def test_a_control_character_that_json_would_leave_is_escaped() -> None:
    assert to_json({"a": "\x7f"}) == '{"a": "\\u007f"}'
    assert to_json({"a": "\u2028"}) == '{"a": "\\u2028"}'


def test_a_huge_value_is_cut() -> None:
    shown = plain({"text": "x" * 10**6, "many": list(range(10**4)), "deep": _nested(50)}, Redactor())
    assert isinstance(shown, dict)

    assert len(str(shown["text"])) < 17_000
    assert len(_list(shown["many"])) == 100
    assert len(to_json(shown)) < 60_000


class _Odd:
    def __repr__(self) -> str:
        raise RuntimeError


def _keeping(seen: list[object]) -> Callable[[logging.LogRecord], bool]:
    def keep(record: logging.LogRecord) -> bool:
        seen.append(record.msg)
        return True

    return keep


def _keeping_factory(seen: list[object]) -> Callable[..., logging.LogRecord]:
    def make(*args: object, **more: object) -> logging.LogRecord:
        record = logging.LogRecord(*args, **more)  # type: ignore[arg-type]
        seen.append(record.msg)
        return record

    return make


def _plain_factory() -> None:
    logging.setLogRecordFactory(logging.LogRecord)


def _telemetry() -> Telemetry:
    telemetry = Telemetry(strict=True)
    telemetry.subscribe(log_subscriber)
    return telemetry


def _raise(text: str = "no such place") -> None:
    raise ValueError(text)


def _raise_secret() -> None:
    secret = "geheim"  # noqa: F841 - a local that no traceback may show
    raise ValueError("geheim")


def _loop() -> list[object]:
    loop: list[object] = []
    loop.append(loop)
    return loop


def _nested(depth: int) -> object:
    return [_nested(depth - 1)] if depth else "x"


def _list(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value
