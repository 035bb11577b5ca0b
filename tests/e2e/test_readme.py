"""The ten lines of the README, as they stand there: they migrate, enqueue, run, and show what came of it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.cluster import Cluster
from support.databases import ClonedDatabase, cloned_database
from support.sources import TOP

README = (TOP / "README.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def block(language: str, holding: str) -> str:
    (found,) = [text for name, text in BLOCKS if name == language and holding in text]
    return found


@pytest.fixture
async def empty(cluster: Cluster) -> AsyncIterator[ClonedDatabase]:
    """A database without Wakeful."""
    async with cloned_database(cluster, template="template1") as database:
        yield database


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jobs.py").write_text(block("python", "# jobs.py"))
    return tmp_path


def run(line: str, folder: Path, dsn: str) -> str:
    """Run a line of the README as a shell does; its `wakeful` is this interpreter's."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    script = f'wakeful() {{ "$PYTHON_OF_TESTS" -m wakeful "$@"; }}\n{line}'
    environment |= {"DATABASE_URL": dsn, "PYTHON_OF_TESTS": sys.executable, "WAKEFUL__HTTP__PORT": "0"}
    answer = subprocess.run(
        ["sh", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


async def test_the_ten_lines_do_what_they_say(empty: ClonedDatabase, folder: Path) -> None:
    setup, look = block("", "pip install .\n").splitlines(), block("", "wakeful jobs list\n").splitlines()
    assert setup[:2] == ["pip install .", "export DATABASE_URL=postgresql://user:password@localhost/name"]
    migrate, serve = setup[2:]
    run(migrate, folder, empty.dsn)
    sql = await empty.connect()
    first = await sql.fetchrow(block("sql", "wakeful.enqueue"))
    again = await sql.fetchrow(block("sql", "wakeful.enqueue"))
    run(f"{serve} --drain", folder, empty.dsn)
    assert look == ["wakeful jobs list", "wakeful jobs tail"]
    (shown,) = json.loads(run("wakeful jobs list --json", folder, empty.dsn))["jobs"]

    assert first is not None and again is not None
    assert (first["created"], again["created"], first["job_id"]) == (True, False, again["job_id"])
    assert (shown["job_type"], shown["status"]) == ("WELCOME", "DONE")
    result = await sql.fetchval("select result from wakeful.jobs")
    assert json.loads(result) == {"text": "Welcome, Ada!"}


async def test_the_line_of_python_does_the_same(empty: ClonedDatabase, folder: Path) -> None:
    run("wakeful migrate", folder, empty.dsn)
    connection = await empty.connect()
    (line,) = re.findall(r"`await (welcome\.enqueue\(connection, .*?\))`", README)
    spec = importlib.util.spec_from_file_location("jobs_of_the_readme", folder / "jobs.py")
    assert spec is not None and spec.loader is not None
    jobs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(jobs)

    enqueued = await eval(line, {"welcome": jobs.welcome, "connection": connection})

    assert enqueued.created
    assert json.loads(await connection.fetchval("select payload from wakeful.jobs")) == {"name": "Ada"}
