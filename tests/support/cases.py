"""Which test shows which failure case: `make cases` prints it, the architecture's tests hold tests/cases.toml to it.

Markers are read from the source, so that nothing has to be imported, and a test counts that another major runs, too.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from support.sources import TOP, python_files, shown

CASES = TOP / "tests" / "cases.toml"
MARKER = "pytest.mark.case"


@dataclass(frozen=True, slots=True)
class Case:
    """One entry of tests/cases.toml; `reason` says why it needs no test, "" that it does."""

    id: str
    title: str
    reason: str


def known_cases() -> dict[str, Case]:
    """Give every case by its id."""
    return {
        key: Case(key, entry["title"], entry.get("later") or entry.get("never") or "")
        for key, entry in _read().items()
        if isinstance(entry, dict)
    }


def open_cases() -> list[str]:
    """Give the ids that wait for their test."""
    waiting: list[str] = _read()["open"]
    return waiting


@cache
def shown_by() -> dict[str, list[str]]:
    """Give the tests, as `file::test`, by the ids that their markers name."""
    tests: dict[str, list[str]] = {}
    for path in python_files("tests"):
        text = path.read_text(encoding="utf-8")
        for test, case in marked(ast.parse(text)) if MARKER in text else ():
            tests.setdefault(case, []).append(f"{shown(path)}::{test}")
    return tests


def marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Give each test of a module with each case that it shows: by its own marker, its class's or its module's."""
    of_module = [case for node in module.body if isinstance(node, ast.Assign) for case in _ids(node.value)]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for case in [
                *of_module,
                *(case for decorator in node.decorator_list for case in _ids(decorator)),
            ]:
                if node.name.startswith(("test_", "Test")):
                    yield node.name, case


def _ids(expression: ast.AST) -> Iterator[str]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == MARKER:
            for given in node.args:
                yield ast.literal_eval(given)


def _read() -> dict[str, Any]:
    return tomllib.loads(CASES.read_text(encoding="utf-8"))


def main() -> None:
    """Print each case and the tests that show it, or why there is none."""
    tests = shown_by()
    for case in known_cases().values():
        print(f"{case.id:4} {case.title}")
        for line in tests.get(case.id, []):
            print(f"       {line}")
        if case.reason:
            print(f"       later or never: {case.reason}")
        elif case.id not in tests:
            print("       open")


if __name__ == "__main__":
    main()
