"""The boards and rules of `monitoring/` as tests need them: what each asks, with variables and macros written out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from support.sources import TOP

FOLDER = TOP / "monitoring"
RULES = FOLDER / "prometheus-rules.yaml"
PROMETHEUS_BOARD = FOLDER / "grafana-prometheus.json"
SQL_BOARD = FOLDER / "grafana-sql.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One query of a panel, as it is written; `form` is table or time_series where that is said."""

    panel: str
    text: str
    form: str = ""


def rules() -> list[dict[str, Any]]:
    """All rules, of all groups."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def board(name: str) -> dict[str, Any]:
    """A board by its file's name."""
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return found


def panels(one: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels that show something."""
    return [panel for panel in one["panels"] if panel["type"] != "row"]


def queries(one: Mapping[str, Any]) -> Iterator[Query]:
    """What the panels of a board ask."""
    for panel in panels(one):
        for target in panel["targets"]:
            text = target.get("expr") or target["rawSql"]
            yield Query(panel=panel["title"], text=text, form=target.get("format", ""))


def with_variables(text: str, **values: list[str]) -> str:
    """SQL with `${name:sqlstring}` and the macros written out as Grafana does: for the last hour, by the minute."""
    for name, chosen in values.items():
        quoted = ",".join("'" + value.replace("'", "''") + "'" for value in chosen)
        text = text.replace(f"${{{name}:sqlstring}}", quoted)
    begin, end = "(now() - interval '1 hour')", "now()"
    text = re.sub(r"\$__timeFilter\((\w+)\)", rf"\1 between {begin} and {end}", text)
    text = re.sub(
        r"\$__timeGroupAlias\((\w+), \$__interval\)", r'floor(extract(epoch from \1)/60)*60 as "time"', text
    )
    return text.replace("$__timeFrom()", begin).replace("$__timeTo()", end)
