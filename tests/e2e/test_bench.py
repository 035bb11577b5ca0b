"""`python -m bench`: one small run from its server to its file, with every figure that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.sources import TOP


def test_a_run_measures_on_a_server_of_its_own_and_writes_what_it_found(tmp_path: Path) -> None:
    sizes = ("--set", "jobs=200", "--set", "singles=20", "--rounds", "1")
    run = subprocess.run(
        [sys.executable, "-m", "bench", "bare", "drain", "wal", *sizes, "--out", tmp_path],
        cwd=TOP,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    (written,) = tmp_path.glob("results-*.json")
    found = json.loads(written.read_text())
    figures = {one["name"]: one for one in found["figures"]}
    for name in (
        "bare: rate",
        "drain: rate",
        "drain: WAL a job",
        "drain / bare",
        "wal: whole life, with history",
    ):
        assert figures[name]["median"] > 0
        assert figures[name]["how"]
        assert f"{name} " in run.stdout
    for surrounding in ("machine", "Python", "PostgreSQL", "asyncpg", "uvloop"):
        assert found["machine"][surrounding] in run.stdout
