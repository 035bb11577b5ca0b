"""Rows of jobs as JSON documents: ids and times as texts, the JSON that they hold as it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from wakeful.core import jsontext
from wakeful.store.reads import JobRow

_JSON_COLUMNS: Final = frozenset({"payload", "errors", "result", "progress", "meta"})


def document(row: JobRow) -> dict[str, object]:
    """Give a row as a value of `core.jsontext`, under the names of its columns."""
    return {name: _value(name, value) for name, value in row.items()}


def decoded(text: str | None) -> Any:
    """Give the value of a JSON column; one that is nested too deeply for Python stays a text."""
    if text is None:
        return None
    try:
        return jsontext.loads(text)
    except ValueError:
        return text


def steps_of(progress: str | None) -> list[dict[str, Any]]:
    """Give the steps of a progress document, whatever wrote it."""
    document = decoded(progress)
    steps = document.get("steps") if isinstance(document, dict) else None
    return [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []


def step_text(step: dict[str, Any]) -> str:
    """Give a step in a few words: `fetch running 40 % page 4 of 10`."""
    percent = step.get("percent")
    return _words(
        step.get("name"),
        step.get("status"),
        f"{percent:g} %" if isinstance(percent, int | float) else percent,
        step.get("message"),
        None if step.get("error") is None else f"({step['error']})",
    )


def current_step(steps: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Give the step that says most about a job now: the one that runs, else the last that has begun."""
    begun = [step for step in steps if step.get("status") != "pending"]
    running = [step for step in begun if step.get("status") == "running"]
    chosen = running or begun
    return chosen[-1] if chosen else None


def _value(name: str, value: object) -> object:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return decoded(value) if name in _JSON_COLUMNS and isinstance(value, str) else value


def _words(*parts: object) -> str:
    return " ".join(str(part) for part in parts if part not in (None, ""))
