"""What docs/testing.md shows is run as it stands there, by a pytest of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from support.sources import TOP

SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
BLOCK = re.compile(r"```python\n# (?P<name>\w+\.py)\n(?P<code>.*?)```", re.DOTALL)


def test_the_tests_of_the_documentation_pass(tmp_path: Path) -> None:
    blocks = {found["name"]: found["code"] for found in BLOCK.finditer((TOP / "docs/testing.md").read_text())}
    assert sorted(blocks) == ["conftest.py", "test_collect.py", "test_reclaim.py"]
    for name, code in blocks.items():
        (tmp_path / name).write_text(code)
    (tmp_path / "pytest.ini").write_text(SETTINGS)

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout
