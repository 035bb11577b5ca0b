"""`wakeful jobs`: list, show, tail, requeue, cancel, as processes on a real database."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import uuid
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from support import factories
from support.commands import PROGRAM, environment, lines_of, running_command, wakeful
from support.databases import ClonedDatabase, Connection
from support.proxy import Mode, Proxy

NASTY = "서울 ✓ \x1b[2J\x1b]0;owned\x07\r\nfake line \u202eevil\x9b31m"


async def test_list_filters_by_status_type_queue_subject_and_age(db: ClonedDatabase, sql: Connection) -> None:
    old = (await factories.enqueue(sql, "COLLECT", subject="place 1")).job_id
    await sql.execute("update wakeful.ready set created_at = now() - interval '2 hours'")
    dead = await factories.job_in(sql, "DEAD")
    done = await factories.job_in(sql, "DONE")
    mail = (await factories.enqueue(sql, "MAIL", queue="mail")).job_id
    running = await factories.job_in(sql, "RUNNING")
    later = await factories.job_in(sql, "SCHEDULED")

    async def listed(*arguments: str) -> list[uuid.UUID]:
        ended = await wakeful("jobs", "list", "--json", *arguments, db=db)
        assert (ended.code, ended.err) == (0, "")
        return [uuid.UUID(job["job_id"]) for job in ended.document()["jobs"]]

    # Ids of one millisecond are in no order, so the newest first is the greatest first.
    assert await listed() == sorted([later, running, mail, done, dead, old], reverse=True)
    assert await listed("--status", "dead") == [dead]
    assert await listed("--status", "DONE", "--status", "RUNNING") == sorted([running, done], reverse=True)
    assert await listed("--type", "MAIL") == [mail]
    assert await listed("--queue", "mail", "--type", "COLLECT") == []
    assert await listed("--subject", "place 1") == [old]
    assert await listed("--older-than", "1h") == [old]
    assert await listed("--newer-than", "1h", "--status", "PENDING") == sorted([later, mail], reverse=True)


async def test_list_pages_show_every_job_once(db: ClonedDatabase, sql: Connection) -> None:
    made = sorted([str(await factories.job_in(sql, "READY" if n % 2 else "DEAD")) for n in range(7)])
    seen: list[str] = []
    after: list[str] = []
    while True:
        page = (await wakeful("jobs", "list", "--json", "--limit", 3, *after, db=db)).document()
        seen += [job["job_id"] for job in page["jobs"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]

    assert seen == made[::-1]
    text = await wakeful("jobs", "list", "--limit", 3, db=db)
    assert f"more: --after {made[4]}" in text.err
    assert len(text.out.splitlines()) == 4


async def test_list_says_what_a_job_is_at(db: ClonedDatabase, sql: Connection) -> None:
    running = await factories.job_in(sql, "RUNNING")
    await _progress(sql, running, ("fetch", "done", 100, None), ("parse", "running", 40, "page 4 of 10"))
    await factories.job_in(sql, "DEAD")

    ended = await wakeful("jobs", "list", db=db)

    heading, *lines = ended.out.splitlines()
    dead_line, running_line = sorted(lines, key=lambda line: "RUNNING" in line)
    assert heading.split() == ["JOB", "ID", "STATUS", "TYPE", "QUEUE", "SUBJECT", "ATTEMPT", "AGE", "WHAT"]
    assert dead_line.endswith("it went wrong")
    assert running_line.endswith("parse running 40 % page 4 of 10")


async def test_show_tells_everything_but_secrets(db: ClonedDatabase, sql: Connection) -> None:
    await factories.declare(sql, "COLLECT", secret_paths=("token",))
    payload = '{"token": "s3cr3t", "n": 12345678901234567890123, "price": 1.10}'
    job_id = (await factories.enqueue(sql, "COLLECT", payload, subject="place 1", tags=("a", "b"))).job_id
    await factories.claim(sql, job_id)
    await _progress(sql, job_id, ("fetch", "failed", 10, None))
    await factories.depart(
        sql,
        job_id,
        "refuse",
        reason="ValueError: no\nmore",
        entry={"type": "ValueError", "message": "no", "traceback": "File x\n  line 1"},
    )
    await sql.execute(
        "insert into wakeful.job_log values ($1, 1, 1, now(), 'info', 'fetched pages=4')", job_id
    )

    text = await wakeful("jobs", "show", job_id, db=db)
    shown = (await wakeful("jobs", "show", job_id, "--json", db=db)).out

    assert text.code == 0
    for part in (
        "place 1",
        "DEAD",
        "1 of 5",
        "a, b",
        "ValueError: no",
        "line 1",
        "fetch failed 10 %",
        "fetched pages=4",
    ):
        assert part in text.out
    assert "+00:00" not in text.out, "times are all written in one way"
    assert "12345678901234567890123" in shown
    assert '"price":1.1' in shown
    assert '"price": 1.10' in text.out
    document = json.loads(shown)
    assert document["status"] == "DEAD"
    assert document["errors"][0]["traceback"] == "File x\n  line 1"
    assert document["progress"]["steps"][0]["name"] == "fetch"
    assert document["log"][0]["message"] == "fetched pages=4"
    assert "s3cr3t" not in text.out + shown


async def test_what_users_wrote_never_acts_on_the_terminal(db: ClonedDatabase, sql: Connection) -> None:
    job_id = (await factories.enqueue(sql, "COLLECT", json.dumps({"text": NASTY}), tags=("t",))).job_id
    await factories.claim(sql, job_id)
    await _progress(sql, job_id, ("fetch", "running", 1, NASTY))
    await sql.execute("insert into wakeful.job_log values ($1, 1, 1, now(), 'info', $2)", job_id, NASTY)
    await factories.depart(
        sql, job_id, "refuse", reason=NASTY, entry={"type": "E", "message": NASTY, "traceback": NASTY}
    )
    await sql.execute("insert into wakeful.queue values ('default', now(), 'x', $1)", NASTY)

    for command in (
        ("jobs", "list"),
        ("jobs", "show", job_id),
        ("jobs", "tail", job_id),
        ("queues", "list"),
        ("jobs", "list", "--json"),
        ("jobs", "show", job_id, "--json"),
    ):
        ended = await wakeful(*command, db=db)
        assert ended.code == 0
        assert not set(ended.out) & set("\x1b\x07\r\x9b\u202e"), command
        assert "\nfake line" not in ended.out
        assert "서울 ✓" in ended.out
    exact = (await wakeful("jobs", "show", job_id, "--json", db=db)).document()
    assert exact["last_error"] == NASTY
    assert exact["payload"] == {"text": NASTY}


async def test_show_and_tail_of_an_unknown_job_fail_with_words(db: ClonedDatabase) -> None:
    unknown = uuid.uuid4()
    for command in ("show", "tail"):
        ended = await wakeful("jobs", command, unknown, db=db)
        assert (ended.code, ended.out) == (1, "")
        assert f"job {unknown} does not exist, or is past its retention" in ended.err
        assert "hint: " in ended.err


async def test_tail_follows_the_steps_until_the_job_has_ended(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await factories.job_in(sql, "RUNNING")
    await _progress(sql, job_id, ("fetch", "running", 10, None), ("parse", "pending", None, None))
    async with running_command("jobs", "tail", job_id, db=db) as process:
        lines = lines_of(process)
        assert (await lines.next()).endswith("COLLECT  RUNNING, attempt 1 of 5")
        assert (await lines.next()).endswith("COLLECT  fetch running 10 %")
        await _progress(sql, job_id, ("fetch", "running", 50.0, "page 5"), ("parse", "pending", None, None))
        assert (await lines.next()).endswith("COLLECT  fetch running 50 % page 5")
        await _progress(sql, job_id, ("fetch", "done", 100, None), ("parse", "done", None, None))
        await factories.finish(sql, job_id)
        rest = [await lines.next() for _ in range(3)]
        assert [line.partition("COLLECT  ")[2] for line in rest] == ["fetch done 100 %", "parse done", "DONE"]
        with anyio.fail_after(30):
            assert await process.wait() == 0


async def test_tail_tells_a_new_attempt_from_the_one_before(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await factories.job_in(sql, "RUNNING")
    await _progress(sql, job_id, ("fetch", "running", 10, None))
    async with running_command("jobs", "tail", job_id, "--json", db=db) as process:
        lines = lines_of(process)
        await lines.next()
        await lines.next()
        async with sql.transaction():
            await factories.depart(sql, job_id, "fail", delay=timedelta(0))
            await factories.claim(sql, job_id)
            await _progress(sql, job_id, ("fetch", "running", 10, None))
        again = json.loads(await lines.next())
        assert (again["status"], again["run_no"], again["step"]) == ("RUNNING", 2, None)
        assert json.loads(await lines.next())["step"]["percent"] == 10


async def test_tail_without_ids_shows_whatever_runs_until_ctrl_c(db: ClonedDatabase, sql: Connection) -> None:
    await factories.job_in(sql, "READY")
    first = await factories.job_in(sql, "RUNNING")
    async with running_command("jobs", "tail", db=db) as process:
        lines = lines_of(process)
        assert str(first) in await lines.next()
        second = await factories.job_in(sql, "RUNNING")
        assert str(second) in await lines.next()
        await factories.finish(sql, first)
        assert (await lines.next()).endswith("DONE")
        process.send_signal(signal.SIGINT)
        with anyio.fail_after(30):
            assert await process.wait() == 130
        assert process.stderr is not None
        with pytest.raises(anyio.EndOfStream):
            await process.stderr.receive()


async def test_tail_waits_through_an_outage(db: ClonedDatabase, sql: Connection, proxy: Proxy) -> None:
    job_id = await factories.job_in(sql, "RUNNING")
    through = ("--database", proxy.dsn(db.name))
    async with running_command("jobs", "tail", job_id, *through, db=db) as process:
        lines = lines_of(process)
        await lines.next()
        proxy.set(Mode.REFUSE)
        proxy.reset()
        assert process.stderr is not None
        with anyio.fail_after(30):
            assert b"the database is away, waiting for it" in await process.stderr.receive()
        proxy.set(Mode.PASS)
        await _progress(sql, job_id, ("fetch", "running", 10, None))
        assert (await lines.next()).endswith("fetch running 10 %")
        await factories.finish(sql, job_id)
        assert (await lines.next()).endswith("DONE")
        with anyio.fail_after(30):
            assert await process.wait() == 0


@pytest.mark.case("F59")
async def test_requeue_by_ids_reports_each(db: ClonedDatabase, sql: Connection) -> None:
    dead = await factories.job_in(sql, "DEAD")
    done = await factories.job_in(sql, "DONE")
    unknown = uuid.uuid4()
    first = await factories.job_in(sql, "DEAD", dedupe_key="k")
    await factories.enqueue(sql, dedupe_key="k")

    text = await wakeful("jobs", "requeue", dead, done, unknown, first, db=db)
    as_json = await wakeful("jobs", "requeue", dead, done, unknown, "--json", db=db)

    assert text.code == 1
    assert text.out.splitlines()[0] == f"{dead}  requeued"
    assert (
        text.out.splitlines()[1]
        == f"{done}  not requeued: it is DONE (only DEAD and CANCELLED jobs run again)"
    )
    assert "does not exist" in text.out.splitlines()[2]
    assert "its dedupe key is taken by job" in text.out.splitlines()[3]
    assert "1 changed, 3 not" in text.err
    assert [line["changed"] for line in as_json.documents()] == [False, False, False]
    assert await factories.status_of(sql, dead) == "PENDING"
    assert (
        await sql.fetchval("select application from wakeful.audit where action = 'requeue'") == "wakeful cli"
    )


async def test_requeue_by_filter_takes_the_dead_of_a_type_only(db: ClonedDatabase, sql: Connection) -> None:
    dead = sorted([await factories.job_in(sql, "DEAD") for _ in range(3)])
    await factories.job_in(sql, "CANCELLED")
    other = (await factories.enqueue(sql, "MAIL")).job_id
    await factories.claim(sql, other)
    await factories.depart(sql, other, "refuse")

    dry = await wakeful("jobs", "requeue", "--type", "COLLECT", "--dry-run", db=db)
    assert dry.out.split() == [str(job) for job in dead]
    assert await sql.fetchval("select count(*) from wakeful.dead") == 4
    ended = await wakeful("jobs", "requeue", "--type", "COLLECT", db=db)

    assert ended.code == 0
    assert [await factories.status_of(sql, job) for job in dead] == ["PENDING"] * 3
    assert await factories.status_of(sql, other) == "DEAD"
    positions = await sql.fetch("select job_id from wakeful.ready order by pos")
    assert [row["job_id"] for row in positions] == dead


async def test_cancel_waits_for_the_running_and_ends_the_waiting(db: ClonedDatabase, sql: Connection) -> None:
    ready, later = await factories.job_in(sql, "READY"), await factories.job_in(sql, "SCHEDULED")
    running, dead = await factories.job_in(sql, "RUNNING"), await factories.job_in(sql, "DEAD")

    by_filter = await wakeful("jobs", "cancel", "--type", "COLLECT", "--reason", "too late", db=db)
    by_id = await wakeful("jobs", "cancel", dead, db=db)

    assert by_filter.code == 0
    assert by_filter.out.splitlines() == sorted(
        [
            f"{ready}  cancelled",
            f"{later}  cancelled",
            f"{running}  asked to stop; its owner hears of it within a heartbeat",
        ]
    )
    assert by_id.code == 1
    assert by_id.out == f"{dead}  not cancelled: it had ended before, as DEAD\n"
    assert await sql.fetchval("select last_error from wakeful.jobs where job_id = $1", ready) == "too late"


async def test_neither_ids_nor_a_filter_is_refused_and_changes_nothing(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = await factories.job_in(sql, "READY")
    for arguments, said in (
        ((), "by a filter\n"),
        ((job_id, "--type", "COLLECT"), "by a filter, not both\n"),
    ):
        ended = await wakeful("jobs", "cancel", *arguments, db=db)
        assert (ended.code, ended.out) == (2, "")
        assert f"name jobs by their ids, or choose them {said}" in ended.err
    assert await factories.status_of(sql, job_id) == "PENDING"


async def test_a_reader_that_goes_away_is_no_failure(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    await sql.execute("select wakeful.enqueue('COLLECT', subject => n::text) from generate_series(1, 3000) n")
    command = f"{shlex.join(PROGRAM)} jobs list --limit 3000 2>{shlex.quote(str(tmp_path / 'err'))} | head -1"
    ended = await anyio.run_process(
        ["bash", "-o", "pipefail", "-c", command], check=False, env=environment(db), stderr=subprocess.PIPE
    )

    assert ended.returncode == 0
    assert ended.stdout.startswith(b"JOB ID")
    assert (tmp_path / "err").read_text() == ""


@pytest.mark.parametrize("rows", [1, 3000])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
async def test_an_output_that_is_full_is_said_in_a_line(
    rows: int, db: ClonedDatabase, sql: Connection
) -> None:
    await sql.execute(
        "select wakeful.enqueue('COLLECT', subject => n::text) from generate_series(1, $1::int) n", rows
    )
    command = f"{shlex.join(PROGRAM)} jobs list --limit 3000 > /dev/full"
    ended = await anyio.run_process(
        ["bash", "-c", command], check=False, env=environment(db), stderr=subprocess.PIPE
    )

    assert ended.returncode == 1
    said = "wakeful: the result can't be written to standard output: No space left on device\n"
    assert ended.stderr.decode() == said


async def _progress(
    sql: Connection, job_id: uuid.UUID, *steps: tuple[str, str, float | None, str | None]
) -> None:
    names = ("name", "status", "percent", "message")
    document = {"attempt": 1, "steps": [dict(zip(names, step, strict=True)) for step in steps]}
    await sql.execute(
        """insert into wakeful.progress (job_id, run_no, document)
           select $1, j.run_no, $2::jsonb from wakeful.jobs j where j.job_id = $1
           on conflict (job_id) do update set run_no = excluded.run_no, document = excluded.document""",
        job_id,
        json.dumps(document),
    )
