"""What is left of a run: a table on the terminal, and a JSON file and pictures in the output folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import plots
from bench.figures import Figure, Series, table


def show(machine: Mapping[str, str], figures: Sequence[Figure], *, rounds: int) -> None:
    """Print where and what."""
    print("\n".join(f"{name:>10}: {value}" for name, value in machine.items()))
    print(f"{'rounds':>10}: {rounds}, medians and ranges over them\n")
    print(table(figures))
    hows = dict.fromkeys(
        f"  {figure.name.split(':')[0]}: {figure.how}" for figure in figures if figure.unit != "x"
    )
    print("\nhow:\n" + "\n".join(hows))


def write(
    folder: Path, machine: Mapping[str, str], figures: Sequence[Figure], series: Sequence[Series]
) -> list[Path]:
    """Write all of it as `results-<time>.json`; with pictures beside it; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"results-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    document = {
        "machine": dict(machine),
        "figures": [
            {**asdict(figure), "median": figure.median, "range": figure.spread} for figure in figures
        ],
        "series": [asdict(one) for one in series],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return [path, *plots.draw(folder, document)]
