"""The settings as `wakeful config show` lists them: a row a key, with where it comes from.

Invariant: no row holds a secret. Rows come in the order of the sections in `core.settings`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass

from wakeful.core.decoding import Origin, is_secret
from wakeful.core.durations import format_duration
from wakeful.core.secrets import shown
from wakeful.core.settings import Settings

NOT_SET = "(not set)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting: its dotted path, its value as text, and where that was given."""

    path: str
    value: str
    origin: Origin


def effective(settings: Settings, origins: Mapping[str, Origin]) -> tuple[Row, ...]:
    """List all settings with their origins (those of `Configuration`); one without an origin is a default."""
    default = Origin(kind="default")
    return tuple(
        Row(path=path, value=_text(path, value), origin=origins.get(path, default))
        for path, value in _leaves("", settings)
    )


def _leaves(path: str, value: object) -> Iterator[tuple[str, object]]:
    if is_dataclass(value):
        for entry in fields(value):
            yield from _leaves(f"{path}.{entry.name}" if path else entry.name, getattr(value, entry.name))
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _leaves(f"{path}.{name}", part)
    else:
        yield path, value


def _text(path: str, value: object) -> str:
    if value is None:
        return NOT_SET
    if is_secret(path) and isinstance(value, str):
        return json.dumps(shown(value), ensure_ascii=False)
    if isinstance(value, float):  # every float of the settings is a duration
        return json.dumps(format_duration(value))
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
