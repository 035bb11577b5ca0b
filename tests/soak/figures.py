"""The figures of a soak that are kept: small, tracked, and all that the page on reliability says was measured."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from soak.evidence import Evidence, Fault, Lifetime
from soak.running import Soaked
from soak.takeovers import takeovers

KEPT = Path(__file__).with_name("figures.json")
LEAST_SECONDS = 300.0  # a shorter soak is no measurement

Figures = dict[str, object]


def figures_of(soaked: Soaked, *, server: int) -> Figures:
    """What is kept of a soak."""
    plan, found = soaked.plan, soaked.evidence
    return {
        "day": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "postgresql": server,
        "load": round(os.getloadavg()[2], 1),  # the mean of a quarter of an hour
        "seconds": plan.seconds,
        "rate": plan.rate,
        "seed": plan.seed,
        "daemons": plan.daemons,
        "lease": plan.timing.lease,
        "beat": plan.timing.beat,
        "reaper": plan.timing.reaper,
        "grace": plan.timing.grace,
        "jobs": sum(job.fate == "COMMITTED" for job in found.enqueued),
        "executions": len(found.executions),
        "faults": len(found.faults),
        "cancels": soaked.cancelled,
        "requeues": len(found.requeued),
        "owners_lost": sum(row.lost for row in found.rows),
        "processes": len(found.lifetimes),
        "kinds": _kinds(found),
        "invariants": {
            one.name: {"seen": dict(one.seen), "explained": dict(one.explained)} for one in soaked.verdicts
        },
    }


def _kinds(found: Evidence) -> dict[str, dict[str, float]]:
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for fault in found.faults:
        by_kind[fault.kind].append(fault)
    again: dict[str, list[float]] = defaultdict(list)
    for one in takeovers(found):
        again[one.fault.kind].append(one.seconds)
    kinds = {kind: _kind(faults, again.get(kind, [])) for kind, faults in sorted(by_kind.items())}
    stops = [life.stop_seconds for life in _stopped(found.lifetimes)]
    if stops and "drain" in kinds:
        kinds["drain"]["stop_s"] = round(max(stops), 1)
    return kinds


def _kind(faults: list[Fault], again: list[float]) -> dict[str, float]:
    alone = [fault for fault in faults if fault.alone] or faults
    seen: dict[str, float] = {
        "times": len(faults),
        "longest_s": round(max(fault.ended - fault.began for fault in faults), 1),
        "back_s": round(max(fault.back or 0.0 for fault in alone), 1),
        "whole_s": round(max(fault.whole or 0.0 for fault in alone), 1),
    }
    if again:
        seen |= {
            "again": len(again),
            "again_median_s": round(statistics.median(again), 1),
            "again_s": round(max(again), 1),
        }
    return seen


def _stopped(lifetimes: Iterable[Lifetime]) -> list[Lifetime]:
    return [life for life in lifetimes if life.why == "stopped"]


def keep(figures: Figures) -> None:
    """Write them where they are tracked."""
    KEPT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def kept() -> Figures:
    """Read them."""
    found: Figures = json.loads(KEPT.read_text(encoding="utf-8"))
    return found
