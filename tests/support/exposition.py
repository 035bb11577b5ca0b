"""Reads the text of metrics as strictly as the two formats are written, and says at once what is wrong with it.

Prometheus' text format 0.0.4 and OpenMetrics 1.0 agree in their samples; they differ in what describes a metric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,(?=[a-zA-Z_])|(?=\}))')
_NUMBER = re.compile(r"[+-]?(\d+(\.\d+)?([eE][+-]?\d+)?|Inf)|NaN")
_KINDS = {"counter", "gauge", "histogram"}
_UNITS = {"seconds", "bytes"}
_SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}
Labels = frozenset[tuple[str, str]]


@dataclass(slots=True)
class Family:
    """One metric: its kind, its help, and its samples by name and labels."""

    name: str
    kind: str = ""
    help: str = ""
    unit: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)

    def label_names(self) -> set[str]:
        """Every label that a sample has."""
        return {name for _, labels in self.samples for name, _ in labels}


def parse(text: str, *, openmetrics: bool = False) -> dict[str, Family]:
    """Give the families by name. Raises AssertionError where the text is not what its format asks for."""
    assert text.endswith("\n") and "\r" not in text and "\n\n" not in text
    lines = text.removesuffix("\n").split("\n")
    if openmetrics:
        assert lines.pop() == "# EOF"
    assert "# EOF" not in lines
    families: dict[str, Family] = {}
    current: Family | None = None
    for line in lines:
        if line.startswith("#"):
            current = _describe(line, families, current, openmetrics=openmetrics)
        else:
            assert current is not None, f"a sample before any description: {line}"
            _add_sample(line, current, openmetrics=openmetrics)
    for family in families.values():
        assert family.kind and family.help, f"{family.name} lacks HELP or TYPE"
        if family.kind == "histogram":
            _check_histogram(family)
    return families


def value(families: Mapping[str, Family], sample: str, **labels: str) -> float | None:
    """The value of one sample with exactly these labels."""
    for family in families.values():
        found = family.samples.get((sample, frozenset(labels.items())))
        if found is not None:
            return found
    return None


def _describe(line: str, families: dict[str, Family], current: Family | None, *, openmetrics: bool) -> Family:
    _, what, name, rest = line.split(" ", 3)
    assert what in ({"HELP", "TYPE", "UNIT"} if openmetrics else {"HELP", "TYPE"}), line
    assert _NAME.fullmatch(name), line
    if current is None or current.name != name:
        assert name not in families, f"{name} comes in two places"
        current = families[name] = Family(name)
    assert not current.samples, f"described after its samples: {line}"
    if what == "HELP":
        assert not current.help and not re.search(r"\\(?![\\n])", rest), line
        assert not openmetrics or '"' not in rest.replace(r"\"", ""), line
        current.help = rest
    elif what == "TYPE":
        assert not current.kind and rest in _KINDS, line
        assert not (openmetrics and name.endswith("_total")), line
        current.kind = rest
    else:
        assert rest in _UNITS and name.endswith(f"_{rest}"), line
        current.unit = rest
    return current


def _add_sample(line: str, family: Family, *, openmetrics: bool) -> None:
    match = _NAME.match(line)
    assert match, line
    name, at = match[0], match.end()
    labels: dict[str, str] = {}
    if line[at] == "{":
        at += 1
        while line[at] != "}":
            found = _LABEL.match(line, at)
            assert found, f"bad label at {at}: {line}"
            assert found[1] not in labels, f"a label comes twice: {line}"
            labels[found[1]] = re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], found[2])
            at = found.end()
        at += 1
    assert line[at] == " " and _NUMBER.fullmatch(line[at + 1 :]), line
    stem = family.name if openmetrics else family.name.removesuffix("_total")
    assert name in {f"{stem}{suffix}" for suffix in _SUFFIXES[family.kind]}, line
    key = (name, frozenset(labels.items()))
    assert key not in family.samples, f"comes twice: {line}"
    number = float(line[at + 1 :])
    assert family.kind == "gauge" or number >= 0, line
    family.samples[key] = number


def _check_histogram(family: Family) -> None:
    series: dict[Labels, dict[float, float]] = {}
    for (name, labels), number in family.samples.items():
        if name.endswith("_bucket"):
            bound = dict(labels)["le"]
            assert bound == "+Inf" or repr(float(bound)) == bound, f"{family.name}: le={bound}"
            rest = frozenset(pair for pair in labels if pair[0] != "le")
            series.setdefault(rest, {})[float(bound)] = number
    for labels, buckets in series.items():
        counts = [count for _, count in sorted(buckets.items())]
        assert counts == sorted(counts), f"{family.name}: buckets fall"
        assert buckets[float("inf")] == family.samples[f"{family.name}_count", labels]
        assert (f"{family.name}_sum", labels) in family.samples
