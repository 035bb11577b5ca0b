"""`python -m bench [NAME …]`: measure, round after round on one server, then print and write what it gave."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.catalogue import MEASUREMENTS
from bench.figures import Results, table
from bench.machine import described
from bench.ratios import ratios_of
from bench.sizes import Sizes
from bench.stage import Cluster, fresh, make_template, running_cluster

ROOT = Path(__file__).resolve().parents[1]


async def run_rounds(
    cluster: Cluster, names: Sequence[str], *, rounds: int, given: dict[str, float]
) -> Results:
    """Each measurement once a round, so that what is compared lies close together in time."""
    results = Results()
    await make_template(cluster)
    for number in range(1, rounds + 1):
        results.begin_round()
        for name in names:
            measurement = MEASUREMENTS[name]
            print(f"round {number} of {rounds}: {name}", file=sys.stderr, flush=True)
            async with fresh(cluster, "bench") as here:
                outcome = await measurement.run(here, Sizes(measurement.sizes).replaced(given))
            results.add(outcome)
            print(table(results.latest(outcome)), file=sys.stderr, flush=True)
    return results


async def measure(arguments: argparse.Namespace) -> None:
    names = arguments.names
    with running_cluster() as cluster:
        machine = await described(cluster)
        results = await run_rounds(cluster, names, rounds=arguments.rounds, given=dict(arguments.set))
    figures = [*results.figures(), *ratios_of(results.rounds)]
    report.show(machine, figures, rounds=arguments.rounds)
    written = report.write(arguments.out, machine, figures, list(results.series.values()))
    print("\nwritten:\n" + "\n".join(f"  {path}" for path in written))


def build_parser() -> argparse.ArgumentParser:
    listed = "\n".join(
        f"  {name:<15} {one.title} ({', '.join(f'{size}={value:g}' for size, value in one.sizes.items())})"
        for name, one in MEASUREMENTS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog=f"measurements and their sizes:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", type=_name, help="which (default: all quick ones)"
    )
    parser.add_argument(
        "--set",
        action="append",
        metavar="SIZE=NUMBER",
        type=_size,
        default=[],
        help="another size of the measurements that have it, such as jobs=20000; may be repeated",
    )
    add_run_options(parser)
    return parser


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add how often to measure, and where to."""
    parser.add_argument("--rounds", type=int, default=3, help="how often each (default: 3)")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "bench", help="folder for the results")


def _name(text: str) -> str:
    if text not in MEASUREMENTS:
        raise argparse.ArgumentTypeError(f"no measurement is named {text!r}: {', '.join(MEASUREMENTS)}")
    return text


def _size(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{number!r} is not a number") from None


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line; ends with 2 where a size is given that none of what is measured has."""
    parser = build_parser()
    arguments = parser.parse_args(given)
    arguments.names = arguments.names or [name for name, one in MEASUREMENTS.items() if one.by_default]
    known = {size for name in arguments.names for size in MEASUREMENTS[name].sizes}
    for size, _ in arguments.set:
        if size not in known:
            which, had = ", ".join(arguments.names), ", ".join(sorted(known)) or "none"
            parser.error(f"argument --set: no size {size!r} in {which}; the sizes there: {had}")
    return arguments


def main() -> None:
    asyncio.run(measure(read_arguments()))


if __name__ == "__main__":
    main()
