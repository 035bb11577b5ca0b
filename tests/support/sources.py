"""The project's own files, for tests that read them: tracked by git where there is a repository, else all of them."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
_NEVER = {".git", ".pg", ".wakeful", "__pycache__", "build", "dist"}


@cache
def project_files() -> tuple[Path, ...]:
    """Give every file of the project that git tracks or would track, as absolute paths."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0 and (TOP / ".git").exists():
        named = (TOP / name for name in listing.stdout.split("\0") if name)
    else:
        named = (path for path in TOP.rglob("*") if not _is_foreign(path.relative_to(TOP)))
    return tuple(sorted(path for path in named if path.is_file()))


def _is_foreign(path: Path) -> bool:
    return any(part in _NEVER or part.startswith(".venv") or part.endswith("_cache") for part in path.parts)


def python_files(*folders: str) -> list[Path]:
    """Give the Python files below these folders of the project."""
    roots = [TOP / folder for folder in folders]
    return [
        path
        for path in project_files()
        if path.suffix == ".py" and any(root in path.parents for root in roots)
    ]


def functions_in(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Give each function of a file, methods and inner ones included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def shown(path: Path) -> str:
    """Name a file as people do, from the top of the project."""
    return str(path.relative_to(TOP))
