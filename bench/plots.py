"""Pictures of results, as PNG and SVG: drains, wake-ups, and a held snapshot over time.

`python -m bench.plots FILE.json … --out FOLDER` draws from result files, whose figures are taken together. Colours are
of a palette that colour-blind readers can tell apart; ours is always the same one, and nothing is told by colour alone.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS, LIMIT, OTHERS, INK, GRID = "#0072B2", "#6E6E6E", "#E69F00", "#222222", "#DDDDDD"
PARTS = ("p50", "p95", "p99")
MARKS = {"p50": "o", "p95": "s", "p99": "^"}
OUR_NAMES = ("wakeful", "drain", "wake")  # and what begins with one
TITLES = {
    "bare": "the same SQL by hand",
    "wakeful": "Wakeful, defaults",
    "drain": "Wakeful, defaults",
    "drain-100": "Wakeful, concurrency 100",
    "wake": "Wakeful",
}
CURVES = (
    ("held: claim", "claim, ms", OURS),
    ("held: finished", "finished, jobs/s", "#009E73"),
    ("held: waiting", "waiting, jobs", "#D55E00"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One named value with its range."""

    name: str
    middle: float
    low: float
    high: float

    @property
    def title(self) -> str:
        """What it is called in a picture."""
        return TITLES.get(self.name, self.name)

    @property
    def colour(self) -> str:
        """Ours, the limit, or somebody else's."""
        return LIMIT if self.name == "bare" else _colour_of(self.name)


def _colour_of(name: str) -> str:
    return OURS if name.startswith(OUR_NAMES) else OTHERS


def draw(folder: Path, document: Mapping[str, Any]) -> list[Path]:
    """Draw what the results hold; gives the files: none where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        return []
    figures = {one["name"]: one for one in document["figures"]}
    series = {one["name"]: one["points"] for one in document["series"]}
    where = _where(document["machine"])
    pictures = []
    if rates := _bars(figures, ": rate"):
        pictures.append(("drain", _draw_drains(rates, where)))
    if any(": p50" in name or name == "wake: p50" for name in figures) and (waits := _wakes(figures)):
        pictures.append(("wake", _draw_wakes(waits, where)))
    if all(name in series for name, _, _ in CURVES):
        pictures.append(("held", _draw_curves(series, where)))
    return [path for name, picture in pictures for path in _saved(folder, name, picture)]


def _where(machine: Mapping[str, str]) -> str:
    return (
        f"{machine['machine']}; PostgreSQL {machine['PostgreSQL'].split(',')[0]}; Python {machine['Python']}"
    )


def _bars(figures: Mapping[str, Any], end: str) -> list[Bar]:
    found = [
        Bar(name=name.removesuffix(end), middle=one["median"], low=one["range"][0], high=one["range"][1])
        for name, one in figures.items()
        if name.endswith(end)
    ]
    return sorted(found, key=lambda bar: bar.middle)


def _wakes(figures: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Percentiles by who was woken."""
    found: dict[str, dict[str, float]] = {}
    for name, one in figures.items():
        who, _, part = name.replace(": wake: ", ":").rpartition(":")
        if part.strip() in PARTS and ("wake" in name):
            found.setdefault(who.strip(), {})[part.strip()] = one["median"]
    return dict(sorted(found.items(), key=lambda item: -item[1]["p50"]))


def _plotting() -> Any:
    import matplotlib  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 -- for the plots only

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415

    plt.rcParams.update(
        {
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#888888",
            "xtick.color": INK,
            "ytick.color": INK,
            "svg.fonttype": "none",
        }
    )
    return plt


def _draw_drains(bars: Sequence[Bar], where: str) -> Any:
    plt = _plotting()
    picture, axes = plt.subplots(figsize=(8, 0.42 * len(bars) + 1.5), layout="constrained")
    longest = max(bar.high for bar in bars)
    for row, bar in enumerate(bars):
        axes.barh(row, bar.middle, color=bar.colour, height=0.62)
        if bar.low < bar.high:
            axes.plot([bar.low, bar.high], [row, row], color=INK, linewidth=1.2)
        axes.text(bar.high + longest * 0.012, row, f"{bar.middle:,.0f}", va="center", fontsize=9)
    axes.set_yticks(range(len(bars)), [bar.title for bar in bars])
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, longest * 1.12)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("no-op jobs a second, one worker process (bar: median, line: range)")
    _title(axes, "Drain", where)
    return picture


def _draw_wakes(waits: Mapping[str, Mapping[str, float]], where: str) -> Any:
    plt = _plotting()
    picture, axes = plt.subplots(figsize=(8, 0.42 * len(waits) + 1.7), layout="constrained")
    for row, (name, parts) in enumerate(waits.items()):
        colour = _colour_of(name)
        axes.plot([parts["p50"], parts["p99"]], [row, row], color=colour, linewidth=1.6, zorder=1)
        for part in PARTS:
            axes.scatter(
                parts[part],
                row,
                marker=MARKS[part],
                s=42,
                color=colour,
                edgecolor=INK,
                linewidth=0.6,
                zorder=2,
            )
    for part in PARTS:
        axes.scatter([], [], marker=MARKS[part], s=42, color="white", edgecolor=INK, label=part)
    axes.set_yticks(range(len(waits)), [TITLES.get(name, name) for name in waits])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(waits) - 0.4)
    axes.set_xlim(left=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel("milliseconds from the commit of an enqueue to the start of its handler, idle worker")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=3, borderaxespad=0)
    _title(axes, "Wake-up", where)
    return picture


def _draw_curves(series: Mapping[str, Sequence[Sequence[float]]], where: str) -> Any:
    plt = _plotting()
    picture, rows = plt.subplots(len(CURVES), 1, sharex=True, figsize=(8, 6), layout="constrained")
    for axes, (name, label, colour) in zip(rows, CURVES, strict=True):
        moments, values = zip(*series[name], strict=True)
        axes.plot(moments, values, color=colour, linewidth=1.4)
        axes.set_ylabel(label)
        axes.set_ylim(0, max([*values, 1e-9]) * 1.15)
        axes.grid(color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}")
    picture.align_ylabels(rows)
    rows[-1].set_xlabel("seconds with a snapshot held open")
    rows[-1].set_xlim(left=0)
    _title(rows[0], "A held snapshot under a steady load", where)
    return picture


def _title(axes: Any, text: str, where: str) -> None:
    axes.set_title(f"{text}\n", loc="left", fontsize=13, fontweight="bold")
    axes.text(0, 1.02, where, transform=axes.transAxes, fontsize=8, color="#555555", va="bottom")


def _saved(folder: Path, name: str, picture: Any) -> Iterable[Path]:
    for ending in ("png", "svg"):
        path = folder / f"{name}.{ending}"
        picture.savefig(path, dpi=150)
        yield path
    _plotting().close(picture)


def _taken_together(paths: Sequence[Path]) -> dict[str, Any]:
    documents = [json.loads(path.read_text()) for path in paths]
    return {
        "machine": documents[0]["machine"],
        "figures": [one for document in documents for one in document["figures"]],
        "series": [one for document in documents for one in document["series"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.plots", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--out", type=Path, default=Path())
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    drawn = draw(arguments.out, _taken_together(arguments.files))
    print("\n".join(map(str, drawn)) or "nothing to draw, or no matplotlib in this environment")


if __name__ == "__main__":
    main()
