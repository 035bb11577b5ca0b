"""The report of a soak: one line an invariant, the faults, and for each violation the job's lines and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from soak.running import Soaked
from soak.verdict import Verdict

MOST_VIOLATIONS = 50
LOG_LINES = 2000


def text_of(soaked: Soaked) -> str:
    """Give the report as people read it."""
    return "\n".join(_lines(soaked)) + "\n"


def _lines(soaked: Soaked) -> Iterator[str]:
    plan, found = soaked.plan, soaked.evidence
    yield f"soak {plan.name}, seed {plan.seed}: {plan.seconds:.0f} s at {plan.rate:.0f} jobs/s, {plan.daemons} daemons"
    yield f"judged with a margin of {plan.margin:.1f} s for the machine"
    yield (
        f"{len(found.enqueued):,} jobs enqueued, {len(found.executions):,} executions, {len(found.faults)} faults,"
        f" {soaked.cancelled} cancels, {len(found.requeued)} requeues"
    )
    yield from (f"  {verdict.line()}" for verdict in soaked.verdicts)
    for verdict in soaked.verdicts:
        for violation in verdict.violations[:MOST_VIOLATIONS]:
            yield f"{verdict.name}: {violation.job_id or ''} {violation.what}"


def document_of(soaked: Soaked) -> dict[str, object]:
    """Give it as a program reads it, with the evidence on each violation."""
    rows = [asdict(row) for row in soaked.evidence.rows]
    broken = {
        violation.job_id
        for verdict in soaked.verdicts
        for violation in verdict.violations[:MOST_VIOLATIONS]
        if violation.job_id is not None
    }
    return {
        "plan": asdict(soaked.plan),
        "verdicts": [_verdict(one) for one in soaked.verdicts],
        "faults": [asdict(fault) for fault in soaked.evidence.faults],
        "lifetimes": [asdict(life) for life in soaked.evidence.lifetimes],
        "requeued": [asdict(one) for one in soaked.evidence.requeued if one.job_id in broken],
        "enqueued": [asdict(one) for one in soaked.evidence.enqueued if one.job_id in broken],
        "rows": [row for row in rows if row["job_id"] in broken],
        "ledger": [line for line in soaked.lines if line.get("job_id") in broken],
    }


def _verdict(verdict: Verdict) -> dict[str, object]:
    return {
        "name": verdict.name,
        "line": verdict.line(),
        "seen": dict(verdict.seen),
        "explained": dict(verdict.explained),
        "violations": [asdict(one) for one in verdict.violations],
    }


def write(soaked: Soaked, folder: Path) -> Path:
    """Write text, document and the daemons' last lines into a folder of this soak's own; gives the folder."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    place = folder / f"{stamp}-{soaked.plan.name}-{soaked.plan.seed}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "report.txt").write_text(text_of(soaked), encoding="utf-8")
    (place / "report.json").write_text(
        json.dumps(document_of(soaked), indent=1, default=str), encoding="utf-8"
    )
    for name, lines in soaked.logs.items():
        (place / f"{name}.log").write_text("\n".join(lines[-LOG_LINES:]), encoding="utf-8")
    return place
