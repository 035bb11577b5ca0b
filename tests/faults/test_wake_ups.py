"""Wake-ups in trouble: however LISTEN is lost, a job waits for one poll at most, and for milliseconds soon after."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
import pytest

from support.canaries import DEAF_WITHOUT_NOTIFY, LONG, QUICK, all_done, enqueue, get, pickup, terminate
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import Daemon, running_daemon
from support.proxy import Mode, Proxy
from wakeful.store.listener import ECHO_SECONDS, ECHO_TIMEOUT_SECONDS, FIRST_PAUSE_SECONDS

LISTENER = "wakeful listener"
POLL_SECONDS = 2.0
MARGIN_SECONDS = 5.0  # for a machine that is busy with something else
SOON_SECONDS = 10.0  # by when a job is heard of in milliseconds again
ROUNDS = 100 if LONG else 4
LONGEST_TROUBLE_SECONDS = 20.0 if LONG else 1.5
WAKES = 3000 if LONG else 40
STARTS = 50 if LONG else 1

Way = Callable[[Proxy, Connection], Awaitable[object]]


async def terminated(proxy: Proxy, sql: Connection) -> None:
    assert await terminate(sql, LISTENER) == 1


async def reset(proxy: Proxy, sql: Connection) -> None:
    proxy.reset(link=proxy.link(LISTENER).number)


async def half_closed(proxy: Proxy, sql: Connection) -> None:
    proxy.half_close(link=proxy.link(LISTENER).number)


async def half_open(proxy: Proxy, sql: Connection, *, mode: Mode) -> None:
    proxy.set(mode, link=proxy.link(LISTENER).number)


WAYS: tuple[Way, ...] = (
    terminated,
    reset,
    half_closed,
    partial(half_open, mode=Mode.BLACKHOLE),
    *((partial(half_open, mode=Mode.HOLD_REPLIES),) if LONG else ()),
)


def test_a_listener_that_hears_nothing_is_found_out_in_time() -> None:
    assert ECHO_SECONDS + ECHO_TIMEOUT_SECONDS + FIRST_PAUSE_SECONDS < SOON_SECONDS


@pytest.mark.case("F01")
async def test_however_listen_is_lost_no_job_waits_for_more_than_a_poll_and_it_comes_back(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    polls = {"poll.min": f"{POLL_SECONDS}s", "poll.max": f"{POLL_SECONDS}s"}
    with running_daemon(proxy.dsn(db.name), settings=polls) as daemon:
        daemon.wait_for("daemon.started")
        canaries: list[str] = []
        for number, way in enumerate(WAYS, start=1):
            daemon.wait_for("listener.connected", count=number)
            await way(proxy, sql)
            canaries.append(await enqueue(sql, "probe.ok"))
            daemon.wait_for("job.finished", job_id=canaries[-1])
            daemon.wait_for("listener.connected", count=number + 1, timeout=3 * SOON_SECONDS)
            await heard_of(daemon, sql)
        for job_id in canaries:
            assert await pickup(sql, job_id) < POLL_SECONDS + MARGIN_SECONDS
        assert "wakeful_listen_connected 1" in (await get(daemon, "/metrics"))[1]
        assert len(daemon.events("listener.lost")) >= len(WAYS)


async def heard_of(daemon: Daemon, sql: Connection) -> None:
    """See that a job is notified of, and runs."""
    before = len(daemon.events("notification.received"))
    job_id = await enqueue(sql, "probe.ok")
    daemon.wait_for("notification.received", count=before + 1)
    daemon.wait_for("job.finished", job_id=job_id)


@pytest.mark.case("F01", "F80")
async def test_a_role_whose_idle_sessions_are_ended_costs_no_storm_and_no_wake_up(
    db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute(f"alter database {db.name} set idle_session_timeout = '500ms'")
    with running_daemon(db.dsn, settings=DEAF_WITHOUT_NOTIFY) as daemon:
        daemon.wait_for("listener.connected")
        daemon.wait_for("daemon.started")
        before = len(daemon.lines)
        await anyio.sleep(2)  # several times as long as a session may be idle
        for _ in range(3):
            job_id = await enqueue(sql, "probe.ok")
            daemon.wait_for("job.finished", job_id=job_id)
        loud = [line for line in daemon.lines[before:] if line["level"] in {"warning", "error", "critical"}]
        assert len(loud) <= 4, loud
        assert await sql.fetchval("select max(attempts) from wakeful.jobs") == 1


@pytest.mark.case("F06")
@pytest.mark.timeout(900 if LONG else 120)
async def test_no_wake_up_is_lost_between_an_empty_claim_and_the_wait(
    db: ClonedDatabase, sql: Connection
) -> None:
    chance = random.Random(6)
    with running_daemon(db.dsn, settings=DEAF_WITHOUT_NOTIFY) as daemon:
        daemon.wait_for("listener.connected")
        for _ in range(WAKES):
            await anyio.sleep(chance.uniform(0, 0.05))
            job_id = await enqueue(sql, "probe.ok")
            daemon.wait_for("job.finished", job_id=job_id)


@pytest.mark.case("F06")
@pytest.mark.timeout(900 if LONG else 120)
async def test_a_job_that_comes_while_a_daemon_starts_waits_for_no_poll(
    db: ClonedDatabase, sql: Connection
) -> None:
    for _ in range(STARTS):
        with running_daemon(db.dsn, settings=DEAF_WITHOUT_NOTIFY) as daemon:
            jobs = []
            while not daemon.events("listener.connected"):
                jobs.append(await enqueue(sql, "probe.ok"))
                await anyio.sleep(0.01)
            jobs.append(await enqueue(sql, "probe.ok"))
            for job_id in jobs:
                daemon.wait_for("job.finished", job_id=job_id)


@pytest.mark.case("F07")
async def test_what_is_due_later_starts_at_its_time_and_not_at_a_poll(
    db: ClonedDatabase, sql: Connection
) -> None:
    with running_daemon(db.dsn, settings=DEAF_WITHOUT_NOTIFY) as daemon:
        daemon.wait_for("listener.connected")
        daemon.wait_for("daemon.started")
        later = await enqueue(sql, "probe.ok", options="run_after => now() + interval '2 seconds'")
        sooner = await enqueue(sql, "probe.ok", options="run_after => now() + interval '1 second'")
        again = await enqueue(sql, "probe.say", what="retry", seconds=1)
        ends = [daemon.wait_for("job.finished", job_id=job_id)["job_id"] for job_id in (sooner, later)]
        daemon.wait_for("job.started", job_id=again, count=3)
        for job_id in ends:
            assert 0 <= await pickup(sql, str(job_id)) < MARGIN_SECONDS


@pytest.mark.case("F09", "F82")
@pytest.mark.timeout(3000 if LONG else 120)
async def test_after_any_trouble_on_the_way_a_canary_runs_soon_and_nothing_piles_up(
    db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    chance = random.Random(9)
    modes = (Mode.REFUSE, Mode.BLACKHOLE, Mode.HOLD_REPLIES, Mode.DELAY)
    with running_daemon(proxy.dsn(db.name), settings=QUICK) as daemon:
        daemon.wait_for("listener.connected")
        jobs = 0
        for number in range(ROUNDS):
            proxy.set(modes[number % len(modes)], seconds=chance.uniform(0.01, 0.1))
            if chance.random() < 0.5:
                proxy.reset()
            await anyio.sleep(chance.uniform(0.1, LONGEST_TROUBLE_SECONDS))
            proxy.set(Mode.PASS)
            job_id, jobs = await enqueue(sql, "probe.ok"), jobs + 1
            daemon.wait_for("job.finished", job_id=job_id, timeout=30)
            assert await pickup(sql, job_id) < SOON_SECONDS + MARGIN_SECONDS
        await all_done(sql, jobs)
        assert (await get(daemon, "/livez"))[0] == 200
        await eventually(partial(get, daemon, "/readyz"), until=lambda answer: answer[0] == 200, timeout=20)
        await eventually(partial(sessions, sql), until=lambda seen: seen <= 10, timeout=20)


async def sessions(sql: Connection) -> int:
    found: int = await sql.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'wakeful%'"
    )
    return found
