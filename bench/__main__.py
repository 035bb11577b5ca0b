"""`python -m bench`: the first figures, each measurement on a server of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform

from bench.measures import Measure, drain, idle, wake
from bench.stage import stage

MEASURES: dict[str, Measure] = {
    "drain": lambda here: drain(here, 20_000, job_type="bench.noop", concurrency=10),
    "drain-100": lambda here: drain(here, 20_000, job_type="bench.noop", concurrency=100),
    "drain-threads": lambda here: drain(here, 20_000, job_type="bench.thread", concurrency=10),
    "wake": lambda here: wake(here, 300),
    "idle": lambda here: idle(here, 30),
}


async def measure(names: list[str]) -> None:
    python, load = platform.python_version(), os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {python}; load {load:.1f}")
    for name in names:
        async with stage() as here:
            print(f"{name:>14}  {await MEASURES[name](here)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"which: {', '.join(MEASURES)} (default: all)"
    )
    chosen = parser.parse_args().names or list(MEASURES)
    unknown = [name for name in chosen if name not in MEASURES]
    if unknown:
        parser.error(f"no measurement named {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    asyncio.run(measure(chosen))


if __name__ == "__main__":
    main()
