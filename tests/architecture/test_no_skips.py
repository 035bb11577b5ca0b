"""CI's plugin: each way to skip counts as a failure, and a run without skips stays green."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.sources import TOP

SKIPS = {
    "in the test": "def test_it():\n    pytest.skip('no server here')",
    "by a mark": "@pytest.mark.skipif(True, reason='no server here')\ndef test_it():\n    pass",
    "expected to fail": "@pytest.mark.xfail(reason='no server here')\ndef test_it():\n    assert False",
    "as a module": "pytest.skip('no server here', allow_module_level=True)",
}


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_sample.py").write_text(f"import pytest\ndef test_that_runs():\n    pass\n{text}\n")
    options = [
        "-q",
        "-p",
        "tests.support.no_skips",
        "-p",
        "no:cacheprovider",
        "-c",
        str(TOP / "pyproject.toml"),
    ]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            f"--rootdir={folder}",
            "--confcutdir",
            str(folder),
            str(folder),
        ],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("text", SKIPS.values(), ids=SKIPS)
def test_a_skip_fails_in_ci(tmp_path: Path, text: str) -> None:
    answer = run(tmp_path, text)
    assert answer.returncode != 0
    assert "not run, which CI does not accept: " in answer.stdout
    assert "no server here" in answer.stdout


def test_a_run_without_skips_stays_green(tmp_path: Path) -> None:
    answer = run(tmp_path, "")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.rstrip().splitlines()[-1].startswith("1 passed")
