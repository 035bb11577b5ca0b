"""`PYTHONPATH=tests python -m soak.page` writes the measured parts of docs/reliability.md and README.md anew.

Invariant: the parts of a page between the marks are made of the kept figures alone; the rest is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from soak.figures import kept
from soak.matrix import ALONE, ROWS
from soak.running import KINDS

TOP = Path(__file__).resolve().parents[2]
PAGES = (TOP / "docs" / "reliability.md", TOP / "README.md")
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
IN_SHORT = ("kill", "pause", "drain", "blackhole", "lost_replies", "server_crash", "terminate", "lock_table")


def made(text: str, figures: Mapping[str, Any]) -> str:
    """The page with its measured parts made of these figures."""

    def block(match: re.Match[str]) -> str:
        lines = "\n".join(_BLOCKS[match[2]](figures))
        return f"{match[1]}{lines}\n{match[3]}"

    return BLOCK.sub(block, text)


def _matrix(figures: Mapping[str, Any]) -> Iterator[str]:
    yield "| fault | what happens | bound | measured | shown alone by |"
    yield "| --- | --- | --- | --- | --- |"
    for kind, row in ROWS.items():
        seen = figures["kinds"].get(kind)
        test = f"`{row.test}`" if row.test else ""
        measured = _measured(seen) if seen else "not in this run"
        yield f"| {KINDS[kind].what} | {row.happens} | {row.bound} | {measured} | {test} |"


def _alone(_: Mapping[str, Any]) -> Iterator[str]:
    yield "| fault | what happens | shown by |"
    yield "| --- | --- | --- |"
    yield from (f"| {one.fault} | {one.happens} | `{one.test}` |" for one in ALONE)


def _measured(seen: Mapping[str, float]) -> str:
    parts = [f"{seen['times']:.0f} times, up to {seen['longest_s']} s"]
    if "again" in seen:
        parts.append(
            f"jobs ran elsewhere after {seen['again_median_s']} s (median), {seen['again_s']} s at most"
        )
    if "stop_s" in seen:
        parts.append(f"exit after {seen['stop_s']} s at most")
    parts.append(f"throughput after {seen['back_s']} s, all daemons after {seen['whole_s']} s at most")
    return "; ".join(parts)


def _in_short(figures: Mapping[str, Any]) -> Iterator[str]:
    yield "| fault | times | throughput is back after | its jobs run elsewhere after |"
    yield "| --- | --- | --- | --- |"
    for kind in IN_SHORT:
        seen = figures["kinds"].get(kind)
        if seen is not None:
            again = f"{seen['again_median_s']} s, {seen['again_s']} s at most" if "again" in seen else ""
            yield f"| {KINDS[kind].what} | {seen['times']} | {seen['back_s']} s at most | {again} |"


def _run(figures: Mapping[str, Any]) -> Iterator[str]:
    minutes = figures["seconds"] / 60
    dead = figures["lease"] + figures["reaper"] + 3 * figures["beat"]
    yield (
        f"On {figures['day']}, {figures['daemons']} daemons, PostgreSQL {figures['postgresql']}, Python"
        f" {figures['python']}, on two cores shared with others (load {figures['load']:g}): {minutes:.0f} minutes,"
        f" {figures['jobs']:,} jobs in {figures['executions']:,} runs, {figures['faults']} faults,"
        f" {figures['processes']} processes,"
        f" {figures['cancels']:,} cancels, {figures['requeues']:,} requeues, {figures['owners_lost']:,} lost"
        f" owners; seed {figures['seed']}. Leases of {figures['lease']:g} s, a beat every {figures['beat']:g} s, a"
        f" reaper every {figures['reaper']:g} s, a grace of {figures['grace']:g} s: jobs of a"
        f" dead daemon are claimable within {dead:g} s."
    )


def _invariants(figures: Mapping[str, Any]) -> Iterator[str]:
    yield "| invariant | looked at | explained |"
    yield "| --- | --- | --- |"
    for name, one in figures["invariants"].items():
        seen = ", ".join(f"{_number(value)} {what}" for what, value in one["seen"].items())
        explained = ", ".join(f"{count} times: {why}" for why, count in one["explained"].items())
        yield f"| `{name}` | {seen} | {explained} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


_BLOCKS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "matrix": _matrix,
    "alone": _alone,
    "short": _in_short,
    "run": _run,
    "invariants": _invariants,
}


def write() -> None:
    """Write the pages anew."""
    figures = kept()
    for page in PAGES:
        page.write_text(made(page.read_text(encoding="utf-8"), figures), encoding="utf-8")


if __name__ == "__main__":
    write()
