"""The style card's sizes and words, held to: small files, small functions, flat code, plain names."""

from __future__ import annotations

import ast
import re
import statistics
from pathlib import Path

import pytest

from support.sources import functions_in, python_files, shown

PACKAGE = "daemon/wakeful"
LONGEST_FILE = 300
LONGEST_FUNCTION = {PACKAGE: 40, "examples": 40, "bench": 40, "tools": 40, "tests": 60}
DEEPEST = 3
NEVER_A_NAME = re.compile(r"(^|_)(task|manager|helpers?|utils?|base|common)(_|$)", re.IGNORECASE)
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@pytest.mark.parametrize("path", python_files(PACKAGE, "examples"), ids=shown)
def test_a_file_is_short_and_starts_with_its_story(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), (
            "no docstring: what it owns, its invariant, what it leaves to others"
        )


@pytest.mark.parametrize(("folder", "longest"), LONGEST_FUNCTION.items())
def test_functions_are_short(folder: str, longest: int) -> None:
    long = [
        f"{shown(path)}:{function.lineno} {function.name} has {_body_lines(function)} lines"
        for path in python_files(folder)
        for function in functions_in(path)
        if _body_lines(function) > longest
    ]
    assert long == []


def test_the_median_function_is_small() -> None:
    lines = [_body_lines(function) for path in python_files(PACKAGE) for function in functions_in(path)]
    assert statistics.median(lines) <= 8


def test_code_is_flat() -> None:
    deep = [
        f"{shown(path)}:{function.lineno} {function.name} is {_depth(function.body)} deep"
        for path in python_files(PACKAGE, "examples")
        for function in functions_in(path)
        if _depth(function.body) > DEEPEST
    ]
    assert deep == []


def test_names_say_what_a_thing_is() -> None:
    vague = [
        f"{shown(path)} {name}"
        for path in python_files(PACKAGE, "examples")
        for name in (path.stem, *_defined(path))
        if NEVER_A_NAME.search(CAMEL.sub("_", name))
    ]
    assert vague == []


def _defined(path: Path) -> list[str]:
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, kinds)]


def _body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, without its docstring."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _depth(body: list[ast.stmt]) -> int:
    """The deepest nesting of blocks; an inner function starts anew, and `elif` is no deeper than its `if`."""
    return max((_depth_of(statement) for statement in body), default=0)


def _depth_of(statement: ast.stmt) -> int:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return 0
    inner = 0
    for name in ("body", "orelse", "finalbody"):
        block: list[ast.stmt] = getattr(statement, name, [])
        is_elif = name == "orelse" and len(block) == 1 and isinstance(block[0], ast.If)
        inner = max(inner, _depth(block) - (1 if is_elif and isinstance(statement, ast.If) else 0))
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        inner = max(inner, _depth(part.body))
    compound = (
        ast.If
        | ast.For
        | ast.AsyncFor
        | ast.While
        | ast.With
        | ast.AsyncWith
        | ast.Try
        | ast.TryStar
        | ast.Match
    )
    return inner + 1 if isinstance(statement, compound) else inner
