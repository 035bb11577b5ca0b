"""`make soak`: half an hour, 200,000 jobs; ARGS="--seconds 600 --rate 150 --seed 7" for another one.

One of five minutes or more in which all holds leaves its figures and writes the pages on them anew: commit both.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from soak import figures, page, report
from soak.plan import CI, LONG, SHORT, Plan
from soak.running import soak
from support.cluster import running_cluster
from support.scratch import scratch_folder

REPORTS = Path(__file__).resolve().parents[2] / "reports" / "soak"
PLANS = {plan.name: plan for plan in (SHORT, CI, LONG)}


def chosen(arguments: list[str] | None = None) -> Plan:
    """The plan that the command line asks for."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--plan", choices=PLANS, default="long")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--rate", type=float, help="jobs a second")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--daemons", type=int)
    given = vars(parser.parse_args(arguments))
    plan = PLANS[given.pop("plan")]
    return replace(plan, **{name: value for name, value in given.items() if value is not None})


def main() -> int:
    """Run it; 0: every invariant held."""
    plan = chosen()
    print(f"seed {plan.seed}", flush=True)
    with scratch_folder() as folder, running_cluster(folder / "data") as cluster:
        soaked = asyncio.run(soak(plan, cluster, folder, say=lambda text: print(text, flush=True)))
    print(report.text_of(soaked), end="")
    print(f"report: {report.write(soaked, REPORTS)}")
    if soaked.holds and plan.name == "long" and plan.seconds >= figures.LEAST_SECONDS:
        figures.keep(figures.figures_of(soaked, server=cluster.binaries.major))
        page.write()
    return 0 if soaked.holds else 1


if __name__ == "__main__":
    sys.exit(main())
