"""The trace context that a job carries is text of anybody's: only what is one counts, and the caller's own stands."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful import EnqueueOptions
from wakeful.handlers.options import META_LIMIT_BYTES, with_trace
from wakeful.telemetry.tracing.carrier import Carrier, carried_in, carrier_of

GOOD = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HOSTILE: list[object] = [
    "",
    "00",
    GOOD[:-1],
    GOOD + "0",
    GOOD + "\n",
    GOOD.upper(),
    GOOD.replace("0", "\uff10"),
    "ff" + GOOD[2:],
    f"00-{'0' * 32}-00f067aa0ba902b7-01",
    f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
    GOOD * 200,
    "é" * 55,
    "\x00" * 55,
    None,
    7,
    True,
    [GOOD],
    {"traceparent": GOOD},
]


def test_a_trace_context_is_taken_as_it_is() -> None:
    meta = json.dumps({"user": 7, "traceparent": GOOD, "tracestate": "vendor=a,other=b"})

    assert carried_in(meta) == Carrier(GOOD, "vendor=a,other=b")


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: repr(text)[:30])
def test_what_is_none_costs_the_link_and_nothing_else(text: object) -> None:
    assert carried_in(json.dumps({"traceparent": text})) is None


@pytest.mark.parametrize("state", ["", "x" * 513, "é=1", "a=1\n", 7, None, ["a=1"]])
def test_a_state_that_is_none_is_left_out_and_the_link_stays(state: object) -> None:
    assert carrier_of({"traceparent": GOOD, "tracestate": state}) == Carrier(GOOD)


@pytest.mark.parametrize("meta", ["", "{", "[]", '"traceparent"', '{"traceparent": ' + "[" * 100_000])
def test_meta_data_that_can_not_be_read_carry_nothing(meta: str) -> None:
    assert carried_in(meta) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_no_value_whatever_raises(value: object) -> None:
    assert carrier_of({"traceparent": value, "tracestate": value}) is None
    assert carrier_of(value) is None


@pytest.mark.parametrize("own", [GOOD, "mine", 7, None])
def test_what_the_caller_gave_stands(own: object) -> None:
    options = EnqueueOptions(meta={"traceparent": own})

    assert with_trace(options, Carrier(GOOD.replace("4", "5"), "a=1")) is options


def test_other_meta_data_are_kept_beside_it() -> None:
    options = with_trace(EnqueueOptions(meta={"user": 7}, queue="q"), Carrier(GOOD, "a=1"))

    assert options.meta == {"user": 7, "traceparent": GOOD, "tracestate": "a=1"}
    assert options.queue == "q"


def test_where_there_is_no_room_for_it_the_job_is_enqueued_without() -> None:
    full = EnqueueOptions(meta={"text": "x" * (META_LIMIT_BYTES - 60)})

    assert with_trace(full, Carrier(GOOD)) is full


def test_neither_a_program_that_enqueues_nor_a_daemon_loads_a_library_of_tracing() -> None:
    program = (
        "import sys, wakeful, wakeful.handlers.client\n"
        "from wakeful.telemetry.tracing.joining import created, current_carrier, sending\n"
        "from wakeful.telemetry.tracing.joining import spans_of_process, step_block\n"
        "with sending('JOB', None) as span: assert span.carrier is None\n"
        "assert created('JOB', None) is current_carrier() is step_block('a') is spans_of_process() is None\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
