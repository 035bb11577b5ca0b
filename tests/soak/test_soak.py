"""The soak in its short form, beside the other tests; SOAK_SECONDS=170 is the form of CI, `make soak` the long one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from soak import report
from soak.plan import CI, SHORT, Plan
from soak.running import soak
from support.cluster import Cluster

REPORTS = Path(__file__).resolve().parents[2] / "reports" / "soak"
SECONDS = float(os.environ.get("SOAK_SECONDS", SHORT.seconds))
SEED = int(os.environ.get("SOAK_SEED", SHORT.seed))


def plan() -> Plan:
    return replace(CI if CI.seconds / 2 <= SECONDS else SHORT, seconds=SECONDS, seed=SEED)


@pytest.mark.timeout(SECONDS + 240)
async def test_whatever_happens_to_the_fleet_nothing_is_lost_and_nothing_written_by_two(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    said: list[str] = [f"seed {SEED}"]
    soaked = await soak(plan(), own_cluster, tmp_path, say=said.append)
    print("\n".join(said))
    print(report.text_of(soaked))
    if not soaked.holds:
        print(f"report: {report.write(soaked, REPORTS)}")
    assert [verdict.line() for verdict in soaked.verdicts if not verdict.holds] == []
    assert len(soaked.evidence.faults) > 0
