"""What this process holds: nothing twice, nothing forgotten, a former claim apart from the next one."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest

from support.holding import make_holding
from wakeful.runtime.holdings import Holdings


def test_a_job_is_held_until_the_database_has_taken_its_end() -> None:
    holdings, holding = Holdings(), make_holding()
    holdings.add([holding])
    assert holdings.snapshot() == [holding]

    holdings.drop(holding)
    holdings.drop(holding)
    assert holdings.snapshot() == []
    assert len(holdings) == 0


def test_the_next_claim_of_a_job_does_not_hide_the_former_one_whose_handler_still_runs() -> None:
    holdings, job_id = Holdings(), uuid4()
    former, current = make_holding(job_id=job_id, claim=1), make_holding(job_id=job_id, claim=2)
    holdings.add([former])
    holdings.add([current])

    assert holdings.snapshot() == [former, current]
    holdings.drop(former)
    assert holdings.snapshot() == [current]


def test_jobs_of_a_queue_count_until_they_are_ending() -> None:
    holdings = Holdings()
    waiting, running, ending, other = (make_holding(queue=queue) for queue in ("q", "q", "q", "other"))
    running.stage, ending.stage = "running", "ending"
    holdings.add([waiting, running, ending, other])

    assert holdings.by_queue() == {"q": 2, "other": 1}


@pytest.mark.case("I11")
def test_a_suspect_is_known_until_its_end_is_written() -> None:
    holdings, suspect = Holdings(), make_holding(suspect=True)
    holdings.add([make_holding(), suspect])
    suspect.stage = "ending"
    assert holdings.has_suspect()

    holdings.drop(suspect)
    assert not holdings.has_suspect()


@pytest.mark.case("I8")
def test_a_doubt_is_kept_until_its_claim_can_not_commit_any_more() -> None:
    holdings = Holdings()
    holdings.doubt(7, 11, first=1, until=time.monotonic() + 60)
    holdings.doubt(7, 12, first=1, until=time.monotonic() - 1)

    (doubt,) = holdings.doubts()
    assert (doubt.lane_id, doubt.token) == (7, 11)
    assert holdings.doubts() == []  # asked a moment ago
    doubt.ask_at = 0.0
    assert holdings.doubts() == [doubt]
    doubt.ask_at = 0.0
    holdings.resolve(doubt)
    assert holdings.doubts() == []


def test_the_beat_reads_in_its_thread_while_the_loop_writes() -> None:
    holdings, stop = Holdings(), threading.Event()

    def read() -> None:
        while not stop.is_set():
            holdings.snapshot()
            holdings.doubts()

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(3000):
        held = [make_holding(), make_holding()]
        holdings.add(held)
        holdings.doubt(1, number, first=1, until=0.0)
        for one in held:
            holdings.drop(one)
    stop.set()
    reader.join()  # a failure in a thread is one of the test

    assert holdings.snapshot() == []
