"""`wakeful demo --once`: each place once; what it tells, what the database says of it afterwards, what is left."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from support.databases import Connection
from support.demos import Ended, left_by, run_demo
from support.scratch import scratch_folder
from wakeful.embedded import running_server

PLACES = {"corner-bakery", "spoke-and-chain", "lantern-books", "crooked-teapot"}
STAGES = {"COLLECT", "VISION", "COPY", "BUILD", "PUBLISH"}
EXPORTED = "postgresql://somebody:correct-horse@db.invalid/production"


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """One run of all places, its data folder, the port that was taken, and the users of the system before it."""

    ended: Ended
    data: Path
    port: int
    users: str


@pytest.fixture(scope="session")
def once() -> Iterator[Once]:
    with scratch_folder() as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        users = Path("/etc/passwd").read_text()
        given = {
            "DATABASE_URL": EXPORTED,
            "WAKEFUL__DATABASE__DSN": EXPORTED,
            "WAKEFUL__HTTP__PORT": str(port),
        }
        ended = run_demo("--once", "--json", data=folder / "a demo", environ=given)
        yield Once(ended=ended, data=folder / "a demo", port=port, users=users)


@pytest.fixture
async def afterwards(once: Once) -> AsyncIterator[Connection]:
    """A connection to the demo's server, started again on its data."""
    async with running_server(once.data) as server:
        connection = await asyncpg.connect(server.dsn)
        yield connection
        await connection.close()


def test_it_ends_with_0_when_every_place_is_published(once: Once) -> None:
    assert (once.ended.code, once.ended.err) == (0, "")
    ends = once.ended.events("pipeline.ended")
    assert {end["place"] for end in ends} == PLACES
    assert {end["status"] for end in ends} == {"DONE"}
    assert once.ended.told[-1]["event"] == "demo.ended"
    assert (once.ended.told[-1]["published"], once.ended.told[-1]["died"]) == (len(PLACES), 0)


def test_a_summary_counts_the_channels_by_kind_and_names_the_page(once: Once) -> None:
    (good,) = once.ended.events("pipeline.ended", place="corner-bakery")
    (crooked,) = once.ended.events("pipeline.ended", place="crooked-teapot")
    assert set(good["channels"]) == {"ok"}
    kinds = {"ok", "dns", "refused", "timeout", "forbidden", "rate_limited", "bad_markup"}
    assert kinds <= set(crooked["channels"])
    for end in once.ended.events("pipeline.ended"):
        assert "<h1>" in Path(end["page"]).read_text()
    assert any(end["degraded"] for end in once.ended.events("pipeline.ended"))


def test_each_step_is_told_as_it_ends(once: Once) -> None:
    ended = once.ended.events("step", subject="corner-bakery", step_status="done")
    # A job that was asked to wait takes its steps again.
    assert list(dict.fromkeys((step["job_type"], step["step"]) for step in ended)) == [
        *(("COLLECT", "visit"), ("COLLECT", "save")),
        *(("VISION", "fetch"), ("VISION", "measure"), ("VISION", "describe")),
        *(("COPY", "write"), ("COPY", "save")),
        *(("BUILD", "render"), ("PUBLISH", "switch"), ("PUBLISH", "tidy")),
    ]


def test_a_job_without_a_handler_fails_loudly_and_people_are_told(once: Once) -> None:
    (died,) = once.ended.events("job.ended", job_type="AI_CHECK")
    assert (died["status"], died["attempt"]) == ("DEAD", 2)
    assert "UnknownJobType" in died["reason"]
    (alert,) = once.ended.events("alert.told")
    assert (alert["sink"], alert["kind"], alert["job_type"]) == ("log", "job_dead", "AI_CHECK")


def test_it_says_where_everything_is(once: Once) -> None:
    (ready,) = once.ended.events("demo.ready")
    assert ready["data"] == str(once.data)
    assert ready["database"].startswith("postgresql://postgres@/postgres?host=/")
    assert ready["log"] == str(once.data / "daemon.log")


def test_an_exported_database_is_named_and_not_used(once: Once) -> None:
    assert once.ended.told[0]["not_used"] == ["DATABASE_URL", "WAKEFUL__DATABASE__DSN"]
    assert "correct-horse" not in once.ended.out
    assert "db.invalid" not in (once.data / "daemon.log").read_text()


def test_a_taken_port_means_the_next_free_one(once: Once) -> None:
    (moved,) = once.ended.events("http.moved")
    (ready,) = once.ended.events("demo.ready")
    assert moved["wanted"] == once.port
    assert ready["http"] == f"http://127.0.0.1:{moved['port']}/"


def test_nothing_but_the_data_is_left(once: Once) -> None:
    (ready,) = once.ended.events("demo.ready")
    assert left_by(once.data, ready) == []
    assert Path("/etc/passwd").read_text() == once.users
    assert {path.name for path in once.data.iterdir()} <= {
        *("cluster", "daemon.log", "server.log", "sites", "binaries")
    }


def test_the_daemons_log_is_a_file_of_json_lines(once: Once) -> None:
    lines = [json.loads(line) for line in (once.data / "daemon.log").read_text().splitlines()]
    assert {"daemon.started", "job.finished", "alert.told", "daemon.stopped"} <= {
        line["event"] for line in lines
    }


async def test_the_database_has_the_whole_story(once: Once, afterwards: Connection) -> None:
    rows = await afterwards.fetch("select * from wakeful.jobs")
    by_place: dict[str, dict[str, Any]] = {place: {} for place in PLACES}
    for row in rows:
        if row["job_type"] in STAGES:
            by_place[row["subject"]][row["job_type"]] = row
    for jobs in by_place.values():
        assert {stage: job["status"] for stage, job in jobs.items()} == dict.fromkeys(STAGES, "DONE")
        channels = json.loads(jobs["COLLECT"]["result"])["channels"]
        assert len(channels) >= 6
        assert {"channel", "status", "reason", "http_status", "items", "duration_ms"} == set(channels[0])
    (unhandled,) = (row for row in rows if row["job_type"] == "AI_CHECK")
    assert unhandled["status"] == "DEAD"
    assert {row["queue"] for row in rows} == {"default"}
    assert await afterwards.fetchval("select count(*) from wakeful.instance") == 0
    assert await afterwards.fetchval("select array_agg(kind) from wakeful.alert") == ["job_dead"]
