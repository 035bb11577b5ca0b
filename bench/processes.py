"""Processor time and memory of processes, read from /proc: what a shared machine can't blur as it does wall time."""

from __future__ import annotations

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = Path("/proc")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process and its ended, waited-for children have used."""
    fields = _stat(pid)
    return sum(int(fields[column]) for column in range(11, 15)) / TICKS


def tree_cpu_seconds(pid: int) -> float:
    """The same with all living descendants: for a postmaster, the whole server."""
    return sum(cpu_seconds(one) for one in (pid, *descendants(pid)) if _alive(one))


def descendants(pid: int) -> list[int]:
    """The living processes below this one."""
    below = [child for child in _children(pid) if _alive(child)]
    return [*below, *(deeper for child in below for deeper in descendants(child))]


def resident_megabytes(pid: int) -> float:
    """Memory that the process holds in RAM, with what it shares."""
    return int((PROC / str(pid) / "statm").read_text().split()[1]) * PAGE / 1e6


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for thread in (PROC / str(pid) / "task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except OSError:  # it has ended
        return []


def _alive(pid: int) -> bool:
    return (PROC / str(pid) / "stat").exists()


def _stat(pid: int) -> list[str]:
    try:
        return (PROC / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:  # ended between two looks; its time is its parent's by then
        return ["0"] * 50
