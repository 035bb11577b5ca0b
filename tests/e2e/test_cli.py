"""The command line as a whole: help, exit codes, where what is written; and every command but those on jobs."""

from __future__ import annotations

import json
import os
import pty
from datetime import datetime
from pathlib import Path

import anyio
import pytest

from support import factories
from support.cluster import Cluster, execute
from support.commands import PROGRAM, environment, wakeful
from support.databases import ClonedDatabase, Connection, cloned_database
from wakeful.cli.main import main

EVERY_COMMAND = (
    "run",
    "bench",
    "migrate",
    "adopt",
    "enqueue",
    "jobs list",
    "jobs show",
    "jobs tail",
    "jobs requeue",
    "jobs cancel",
    "queues list",
    "queues pause",
    "queues resume",
    "config show",
    "version",
)


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_command_has_help_with_an_example_and_json(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run_here(*command.split(), "--help") == 0
    written = capsys.readouterr()
    assert f"example:\n  wakeful {command}" in written.out
    assert "--json" in written.out
    assert written.err == ""


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("nonsense",),
        ("jobs",),
        ("jobs", "list", "--status", "LOST"),
        ("jobs", "list", "--older-than", "soon"),
        ("jobs", "list", "--limit", "0"),
        ("jobs", "list", "--stat", "DEAD"),
        ("jobs", "show", "4711"),
        ("enqueue", "COLLECT", "{", "--queue", "x"),
        ("enqueue", "COLLECT", "[]"),
        ("enqueue", "COLLECT", "--at", "2026-12-24T18:00:00"),
        ("enqueue", "COLLECT", "--queue", ""),
        ("migrate", "--check", "--sql"),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2_before_anything_is_connected_to(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run_here(*command) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith(("wakeful: ", "usage: wakeful"))


@pytest.mark.parametrize(
    ("command", "program"),
    [((), "wakeful"), (("jobs",), "wakeful jobs"), (("jobs", "show"), "wakeful jobs show")],
)
def test_what_is_missing_on_a_command_line_is_told_with_where_the_help_is(
    command: tuple[str, ...], program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run_here(*command) == 2
    assert f"hint: `{program} --help` shows what there is" in capsys.readouterr().err


async def test_a_wrong_configuration_ends_with_78_and_names_every_mistake(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[worker]\nconcurency = 3\n[lease]\nbeat = "soon"\n')
    ended = await wakeful("jobs", "list", folder=tmp_path)
    assert (ended.code, ended.out) == (78, "")
    assert "worker.concurency" in ended.err
    assert "lease.beat" in ended.err


async def test_handlers_that_are_named_twice_all_count_and_one_not_found_is_told_where_to_be(
    db: ClonedDatabase,
) -> None:
    named = ("--handlers", "nowhere.jobs,elsewhere", "--handlers", "os.missing")
    ended = await wakeful("run", *named, db=db)
    assert ended.code == 78
    said = ended.out + ended.err
    missing = "ModuleNotFoundError: No module named 'os.missing'; 'os' is not a package"
    hint = "; install its package here, or name the folder that holds it in PYTHONPATH (PYTHONPATH=. for this one)"
    assert f"nowhere.jobs can't be imported: ModuleNotFoundError: No module named 'nowhere'{hint}" in said
    assert f"elsewhere can't be imported: ModuleNotFoundError: No module named 'elsewhere'{hint}" in said
    assert f"os.missing can't be imported: {missing}\n" in said


async def test_no_database_a_dead_one_and_one_without_a_schema_are_told_apart(cluster: Cluster) -> None:
    missing = await wakeful("jobs", "list")
    assert missing.code == 78
    assert "DATABASE_URL" in missing.err
    dead = await wakeful("jobs", "list", "--database", "postgresql://u:s3cr3t@127.0.0.1:1/x")
    assert dead.code == 1
    assert "hint: check that the server runs" in dead.err
    empty = await wakeful("jobs", "list", "--database", cluster.dsn("postgres"))
    assert empty.code == 78
    assert "wakeful migrate" in empty.err
    assert "s3cr3t" not in dead.out + dead.err


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:s3cr3t@127.0.0.1:1/x",
        "postgresql://u:s3cr3t@[::1/x",
        "postgresql:///x?password=s3cr3t&port=1",
        "postgresql://u:s3cr3t#x@127.0.0.1:1/x",
        "postgresql://u:s3cr3t/x@127.0.0.1:1/x",
    ],
)
def test_no_password_is_ever_shown(
    dsn: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", dsn)
    for command in (
        ("config", "show"),
        ("config", "show", "--json"),
        ("jobs", "list"),
        ("migrate",),
        ("adopt",),
    ):
        _run_here(*command)
    written = capsys.readouterr()
    assert "database.dsn" in written.out + written.err  # the malformed ones are mistakes
    assert "wakeful: " in written.err
    assert "s3cr3t" not in written.out + written.err


async def test_each_role_may_do_what_the_documents_say(db: ClonedDatabase, sql: Connection) -> None:
    await factories.declare(sql, "COLLECT", secret_paths=("token",))
    dead = await factories.job_in(sql, "DEAD", payload='{"token": "s3cr3t"}')
    roles = ("producer", "worker", "observer")
    allowed = {
        ("jobs", "list"): {"worker", "observer"},
        ("jobs", "show", str(dead)): {"worker", "observer"},
        ("jobs", "tail", str(dead)): {"worker", "observer"},
        ("queues", "list"): {"worker", "observer"},
        ("enqueue", "COLLECT"): {"worker", "producer"},
        ("jobs", "cancel", "READY"): {"worker", "producer"},
        ("jobs", "requeue", str(dead)): {"worker"},
        ("queues", "pause", "mail"): {"worker"},
    }
    for role in roles:
        await sql.execute(f"create role {db.name}_{role} login in role wakeful_{role}")
    try:
        for command, may in allowed.items():
            for role in roles:
                ready = await factories.job_in(sql, "READY")
                named = [str(ready) if word == "READY" else word for word in command]
                ended = await wakeful(*named, db=db, role=f"{db.name}_{role}")
                assert (ended.code == 0) == (role in may), (command, role, ended)
                if role not in may:
                    assert "permission denied" in ended.err
                    assert "hint: this database role may not do that" in ended.err
    finally:
        for role in roles:
            await sql.execute(f"drop role {db.name}_{role}")


async def test_shared_options_may_stand_on_either_side(db: ClonedDatabase) -> None:
    for command in (
        ("--database", db.dsn, "--json", "queues", "list"),
        ("queues", "list", "--json", "--database", db.dsn),
        ("queues", "--json", "--database", db.dsn, "list"),
    ):
        ended = await wakeful(*command)
        assert (ended.code, ended.document()) == (0, {"queues": []})


async def test_enqueue_prints_the_id_and_keeps_every_digit(db: ClonedDatabase, sql: Connection) -> None:
    payload = '{"n": 12345678901234567890123, "price": 1.10}'
    ended = await wakeful(
        *("enqueue", "COLLECT", payload, "--priority", "interactive", "--subject", "place 1", "--tag", "a"),
        *("--tag", "b", "--max-attempts", 3, "--deadline", "10m", "--dedupe-key", "k", "--in", "1h"),
        *("--meta", '{"traceparent": "00-1"}', "--queue", "crawl", "--limit-key", "llm"),
        db=db,
    )
    assert (ended.code, ended.err) == (0, "")
    row = await sql.fetchrow(
        """select job_id::text, payload::text, priority, subject, tags, max_attempts, deadline, dedupe_key, queue,
                  meta::text, limit_key, run_after - now() between interval '59 min' and interval '1 hour' as later
           from wakeful.scheduled"""
    )
    assert row is not None
    assert ended.out == f"{row['job_id']}\n"
    assert row["payload"] == payload
    assert (row["priority"], row["subject"], row["tags"], row["max_attempts"]) == (
        "interactive",
        "place 1",
        ["a", "b"],
        3,
    )
    assert (row["deadline"].total_seconds(), row["dedupe_key"], row["queue"]) == (600, "k", "crawl")
    assert (row["meta"], row["limit_key"], row["later"]) == ('{"traceparent": "00-1"}', "llm", True)

    again = await wakeful("enqueue", "COLLECT", "--dedupe-key", "k", "--json", db=db)
    assert again.document() == {"job_id": row["job_id"], "created": False}
    in_words = await wakeful("enqueue", "COLLECT", "--dedupe-key", "k", db=db)
    assert in_words.out == ended.out
    assert "none was created" in in_words.err


async def test_enqueue_reads_the_payload_from_standard_input_or_a_file(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    (tmp_path / "payload.json").write_text('{"from": "file"}')
    await wakeful("enqueue", "A", "-", db=db, stdin='{"from": "stdin"}')
    await wakeful("enqueue", "B", "@payload.json", db=db, folder=tmp_path)
    missing = await wakeful("enqueue", "B", "@missing.json", db=db, folder=tmp_path)

    rows = await sql.fetch(
        "select job_type, payload ->> 'from' as source from wakeful.ready order by job_type"
    )
    assert [tuple(row) for row in rows] == [("A", "stdin"), ("B", "file")]
    assert missing.code == 1
    assert "can't read missing.json: No such file or directory" in missing.err


async def test_what_the_database_refuses_comes_with_its_code_and_hint(db: ClonedDatabase) -> None:
    ended = await wakeful("enqueue", "COLLECT", "-", db=db, stdin=json.dumps({"a": "x" * 1_100_000}))
    assert ended.code == 1
    assert "[WK" in ended.err
    assert "hint: " in ended.err
    assert len(ended.err) < 1000


async def test_enqueue_at_a_time(db: ClonedDatabase, sql: Connection) -> None:
    await wakeful("enqueue", "COLLECT", "--at", "2030-12-24T18:00:00+01:00", db=db)
    at = await sql.fetchval("select run_after from wakeful.scheduled")
    assert at == datetime.fromisoformat("2030-12-24T18:00:00+01:00")


async def test_queues_are_listed_paused_and_resumed(db: ClonedDatabase, sql: Connection) -> None:
    await factories.enqueue(sql, queue="mail")
    await factories.enqueue(sql, queue="mail")
    await factories.job_in(sql, "DEAD")
    await factories.job_in(sql, "SCHEDULED")
    await factories.job_in(sql, "RUNNING")

    paused = await wakeful("queues", "pause", "mail", "--reason", "provider down", db=db)
    assert (paused.code, paused.out, paused.err) == (0, "mail: paused\n", "")
    mistyped = await wakeful("queues", "pause", "mial", db=db)
    assert (mistyped.code, mistyped.out) == (0, "mial: paused\n")
    assert "no job has been in a queue of this name lately" in mistyped.err
    await sql.execute("delete from wakeful.queue where name = 'mial'")
    assert (await wakeful("queues", "pause", "mail", "--json", db=db)).document() == {
        "queue": "mail",
        "changed": False,
    }
    default, mail = (await wakeful("queues", "list", "--json", db=db)).document()["queues"]
    assert (default["waiting"], default["running"], default["scheduled"], default["dead"]) == (0, 1, 1, 1)
    assert (mail["waiting"], mail["reason"], mail["paused_by"]) == (2, "provider down", "postgres")
    assert mail["paused_at"] is not None
    text = (await wakeful("queues", "list", db=db)).out.splitlines()
    assert text[2].split()[:3] == ["mail", "paused", "2"]
    assert text[2].endswith("provider down")
    assert (await wakeful("queues", "resume", "mail", db=db)).out == "mail: resumed\n"
    assert (await wakeful("queues", "resume", "mail", db=db)).out == "mail: was not paused\n"


async def test_a_table_fits_the_terminal(db: ClonedDatabase, sql: Connection) -> None:
    job_id = await factories.job_in(sql, "RUNNING")
    await factories.depart(sql, job_id, "refuse", reason="서울 " * 100)
    master, slave = pty.openpty()
    try:
        async with await anyio.open_process(
            [*PROGRAM, "jobs", "list"], env=environment(db, more={"COLUMNS": "120"}), stdout=slave
        ) as process:
            await process.wait()
        shown = os.read(master, 100_000).decode()
    finally:
        os.close(master)
        os.close(slave)
    line = shown.splitlines()[1]
    assert line.endswith("…")
    assert sum(2 if "가" <= one <= "힣" else 1 for one in line) <= 120


async def test_migrate_installs_checks_and_prints(cluster: Cluster) -> None:
    async with cloned_database(cluster, template="template1") as empty:
        todo = await wakeful("migrate", "--check", db=empty)
        assert (todo.code, todo.out) == (1, "to do: schema.sql\n")
        printed = await wakeful("migrate", "--sql", db=empty)
        assert printed.out.startswith("-- Made by `wakeful migrate --sql`")
        first = await wakeful("migrate", db=empty)
        assert first.code == 0
        assert first.out.startswith("applied schema.sql (schema version 1, ")
        again = await wakeful("migrate", "--json", db=empty)
        assert again.document() == {"applied": [], "for_administrator": []}
        checked = await wakeful("migrate", "--check", db=empty)
        assert (checked.code, checked.out) == (0, "the schema is up to date\n")
        nothing = await wakeful("migrate", "--sql", db=empty)
        assert (nothing.code, nothing.out) == (0, "")


async def test_migrate_prints_a_script_without_a_database_that_installs(cluster: Cluster) -> None:
    script = (await wakeful("migrate", "--sql")).out
    async with cloned_database(cluster, template="template1") as empty:
        await execute(empty.dsn, script)
        assert (await wakeful("migrate", "--check", db=empty)).code == 0


async def test_adopt_binds_the_installation_to_this_server(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute("update wakeful.installation set system_identifier = '4711'")
    ended = await wakeful("adopt", db=db)
    assert ended.code == 0
    here = await sql.fetchval("select system_identifier from wakeful.installation")
    assert here != "4711"
    assert ended.out == f"adopted: this installation now belongs to server {here}\n"
    assert (await wakeful("adopt", "--json", db=db)).document() == {"system_identifier": here}


async def test_config_show_tells_values_and_origins(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[worker]\nconcurrency = 7\n[sinks.team]\nkind = "webhook"\nurl = "https://h.example/T0/s3cr3t-path"\n'
    )
    shown = await wakeful("config", "show", "--origin", folder=tmp_path, environ={"WAKEFUL__POLL__MAX": "9s"})
    rows = {line.split()[0]: line.split()[1:] for line in shown.out.splitlines()}
    assert rows["worker.concurrency"] == ["7", "file", "config.toml"]
    assert rows["poll.max"] == ['"9s"', "environment", "WAKEFUL__POLL__MAX"]
    assert rows["lease.beat"][-1] == "default"
    assert "s3cr3t" not in shown.out
    assert shown.err.startswith("read from config.toml\n")
    as_json = await wakeful("config", "show", "--json", folder=tmp_path)
    assert {"path": "worker.concurrency", "value": "7", "origin": "file config.toml"} in as_json.document()


async def test_version_is_told() -> None:
    ended = await wakeful("version")
    assert ended.out.startswith("wakeful ")
    assert set((await wakeful("version", "--json")).document()) == {"wakeful", "python"}


def _run_here(*arguments: str) -> int:
    """Run a command line in this process; gives the exit code, whoever raised it."""
    try:
        return main(arguments)
    except SystemExit as stopped:
        return int(stopped.code or 0)
