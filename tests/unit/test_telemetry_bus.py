"""The bus, the recorder and the redactor: emitting never hurts, waiting is bounded, secrets stay hidden."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from uuid import UUID

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.telemetry.bus import ASKED_ANEW_SECONDS, Telemetry
from wakeful.telemetry.events import JOB_CLAIMED, JOB_FINISHED, JOBS_PROMOTED, Event
from wakeful.telemetry.recorder import Recorder
from wakeful.telemetry.redaction import Redactor


def test_every_subscriber_hears_every_event_until_it_leaves() -> None:
    telemetry, first, second = Telemetry(strict=True), Recorder(), Recorder()
    leave = telemetry.subscribe(first)
    telemetry.subscribe(second)

    telemetry.emit(JOBS_PROMOTED, jobs=1)
    leave()
    telemetry.emit(JOBS_PROMOTED, jobs=2)

    assert first.of(JOBS_PROMOTED) == [{"jobs": 1}]
    assert second.of(JOBS_PROMOTED) == [{"jobs": 1}, {"jobs": 2}]


def test_a_subscriber_hears_what_it_wants_and_the_bus_tells_whether_anybody_does() -> None:
    telemetry, some, every = Telemetry(strict=True), Recorder(), Recorder()
    assert not telemetry.hears(JOBS_PROMOTED)
    telemetry.subscribe(some, lambda event: event is JOBS_PROMOTED)

    assert telemetry.hears(JOBS_PROMOTED) and not telemetry.hears(JOB_CLAIMED)
    leave = telemetry.subscribe(every)
    assert telemetry.hears(JOB_CLAIMED)
    telemetry.emit(JOB_CLAIMED, run_no=1)
    telemetry.emit(JOBS_PROMOTED, jobs=1)
    leave()

    assert not telemetry.hears(JOB_CLAIMED)
    assert some.names() == ["jobs.promoted"]
    assert every.names() == ["job.claimed", "jobs.promoted"]


def test_what_a_subscriber_wants_may_change_and_is_asked_anew_each_second() -> None:
    now = [100.0]
    telemetry, recorder, wanted = Telemetry(clock=lambda: now[0]), Recorder(), {JOBS_PROMOTED}
    telemetry.subscribe(recorder, lambda event: event in wanted)
    assert not telemetry.hears(JOB_CLAIMED)

    wanted.add(JOB_CLAIMED)
    now[0] += ASKED_ANEW_SECONDS
    telemetry.emit(JOBS_PROMOTED, jobs=1)

    assert telemetry.hears(JOB_CLAIMED)
    telemetry.emit(JOB_CLAIMED, run_no=1)
    assert recorder.names() == ["jobs.promoted", "job.claimed"]


def test_a_subscriber_that_cannot_say_what_it_wants_is_told_all() -> None:
    telemetry, recorder = Telemetry(), Recorder()
    telemetry.subscribe(recorder, lambda event: event.fields[99] == "no such field")

    telemetry.emit(JOBS_PROMOTED, jobs=1)

    assert recorder.names() == ["jobs.promoted"]
    assert telemetry.failures == 1


def test_an_id_need_not_be_text_to_be_emitted_and_waited_for() -> None:
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)

    telemetry.emit(JOB_CLAIMED, job_id=UUID(int=7), run_no=1)

    assert recorder.of(JOB_CLAIMED, job_id=UUID(int=7)) == recorder.of(JOB_CLAIMED, job_id=str(UUID(int=7)))
    assert recorder.of(JOB_CLAIMED) == [{"job_id": str(UUID(int=7)), "run_no": 1}]


def test_a_subscriber_that_fails_hurts_nobody_and_tells_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry, recorder = Telemetry(redactor=Redactor(["geheim"])), Recorder()
    telemetry.subscribe(_broken)
    telemetry.subscribe(recorder)

    for _ in range(3):
        telemetry.emit(JOBS_PROMOTED, jobs=1)

    errors = capsys.readouterr().err
    assert len(recorder.of(JOBS_PROMOTED)) == telemetry.failures == 3
    assert errors.count("RuntimeError") == 2  # once raised, once in the only traceback's source line
    assert "geheim" not in errors


def test_in_tests_a_subscriber_that_fails_is_heard_of() -> None:
    telemetry = Telemetry(strict=True)
    telemetry.subscribe(_broken)

    with pytest.raises(RuntimeError):
        telemetry.emit(JOBS_PROMOTED, jobs=1)


def test_in_tests_a_field_outside_of_the_catalogue_is_refused() -> None:
    with pytest.raises(ValueError, match=r"jobs\.promoted has no field job"):
        Telemetry(strict=True).emit(JOBS_PROMOTED, job=1)


def test_in_service_it_is_passed_on() -> None:
    telemetry, recorder = Telemetry(), Recorder()
    telemetry.subscribe(recorder)

    telemetry.emit(JOBS_PROMOTED, job=1)

    assert recorder.of(JOBS_PROMOTED, job=1)


def test_many_threads_may_emit_and_subscribe_at_once() -> None:
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)

    def emit() -> None:
        for number in range(200):
            leave = telemetry.subscribe(lambda event, fields: None)
            telemetry.emit(JOB_CLAIMED, run_no=number)
            leave()

    threads = [threading.Thread(target=emit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(recorder.of(JOB_CLAIMED)) == 1600


async def test_a_wait_sees_what_was_before_it_and_what_comes_from_a_thread() -> None:
    telemetry, recorder = Telemetry(strict=True), Recorder()
    telemetry.subscribe(recorder)
    telemetry.emit(JOB_FINISHED, job_id=1)

    assert await recorder.seen(JOB_FINISHED, job_id=1) == {"job_id": 1}
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, lambda: telemetry.emit(JOB_FINISHED, job_id=2))
        assert await recorder.seen(JOB_FINISHED, job_id=2) == {"job_id": 2}


async def test_a_wait_in_vain_says_what_was_seen() -> None:
    recorder = Recorder()
    recorder(JOBS_PROMOTED, {"jobs": 1})

    with pytest.raises(TimeoutError, match=r"no job.finished with .*seen: \['jobs.promoted'\]"):
        await recorder.seen(JOB_FINISHED, within=0.01, job_id=3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://bob:pw@host/x", "postgresql://bob:***@host/x"),
        ("postgresql://:pw@host/x and http://a:b@c/", "postgresql://:***@host/x and http://a:***@c/"),
        ("host=h password=pw user=u", "host=h password=*** user=u"),
        ("password='p w' user=u", "password=*** user=u"),
        ("Password = pw", "Password = ***"),
        ("time 12:30@home http://host:80/x", "time 12:30@home http://host:80/x"),
        ("see long-secret and secret", "see *** and ***"),
        ("ab", "ab"),
    ],
)
def test_secrets_are_hidden_by_value_and_by_shape(text: str, shown: str) -> None:
    assert Redactor(["secret", "long-secret", "ab"]).text(text) == shown


def test_a_rotated_secret_is_hidden_from_then_on() -> None:
    redactor = Redactor(["older-one"])
    redactor.add("newer-one")

    assert redactor.value({"a": ["older-one", ("newer-one", 3)], "newer-one": None}) == {
        "a": ["***", ["***", 3]],
        "***": None,
    }


@given(st.text(), st.lists(st.text(min_size=4, max_size=8), max_size=4))
def test_no_registered_secret_comes_through(text: str, secrets: list[str]) -> None:
    secrets = [secret for secret in secrets if secret not in "***" and "*" not in secret]
    shown = Redactor(secrets).text(text + "".join(secrets))

    assert not [secret for secret in secrets if secret in shown.replace("***", "\n\n\n")]


def _broken(event: Event, fields: Mapping[str, object]) -> None:
    raise RuntimeError("postgresql://bob:geheim@host")
