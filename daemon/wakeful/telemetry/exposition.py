"""The two text forms in which metrics are given: Prometheus' own (0.0.4), and OpenMetrics 1.0 for who asks for it.

Invariant: names, labels, numbers and their order are the same in both, so that nothing changes for whoever stores them
when a client learns to ask; only what describes a metric differs. The values are kept in `metrics`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from wakeful.telemetry.meters import Counter, Histogram, Meter

_UNITS: Final = ("seconds", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextForm:
    """One form: what it is called over HTTP, and what ends it."""

    content_type: str
    ending: str


PROMETHEUS: Final = TextForm(content_type="text/plain; version=0.0.4; charset=utf-8", ending="")
OPENMETRICS: Final = TextForm(
    content_type="application/openmetrics-text; version=1.0.0; charset=utf-8", ending="# EOF\n"
)


def form_for(accept: str) -> TextForm:
    """Give the form that an `Accept` asks for: OpenMetrics 1.0 where that is liked no less than plain text."""
    plain, ours = 0.0, 0.0
    for asked in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in asked.split(";"))
        given = dict(part.partition("=")[::2] for part in parameters)
        liking = _liking(given.get("q", "1"))
        if kind == "text/plain":
            plain = max(plain, liking)
        elif kind == "application/openmetrics-text" and given.get("version", "1.0.0") == "1.0.0":
            ours = max(ours, liking)
    return OPENMETRICS if ours > 0 and ours >= plain else PROMETHEUS


def head(meter: Meter, form: TextForm) -> list[str]:
    """Give the lines that stand before a metric's values."""
    kind = {Counter: "counter", Histogram: "histogram"}.get(type(meter), "gauge")
    if form is PROMETHEUS:
        return [f"# HELP {meter.name} {meter.help}", f"# TYPE {meter.name} {kind}"]
    name, unit = meter.name.removesuffix("_total"), unit_of(meter)
    units = [f"# UNIT {name} {unit}"] if unit else []
    return [f"# HELP {name} {meter.help}", f"# TYPE {name} {kind}", *units]


def unit_of(meter: Meter) -> str:
    """Give the unit that a metric's name ends in: seconds, bytes, or nothing for a number."""
    unit = meter.name.removesuffix("_total").rpartition("_")[2]
    return unit if unit in _UNITS else ""


def _liking(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
