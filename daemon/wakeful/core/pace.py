"""How long jobs of each type run here, so that the claimer knows how many can start soon.

Invariant: nothing is assumed of a type until 20 of its jobs have run; one slow job outweighs many fast ones, because a
job that waits behind it holds a lease for nothing.
"""

from __future__ import annotations

from typing import Final

ENOUGH_RUNS: Final = 20
SMOOTHING: Final = 0.1
SOON_SECONDS: Final = 0.05
MOST_AHEAD: Final = 500
SHORT_SECONDS: Final = 0.5
SHORT_AT_MOST_SECONDS: Final = 1.0


class Pace:
    """Smoothed run times by job type."""

    __slots__ = ("_longest", "_runs", "_seconds")

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._longest: dict[str, float] = {}
        self._runs: dict[str, int] = {}

    def ran(self, job_type: str, seconds: float) -> None:
        """Note one run; a slower one than usual counts at once, a faster one by and by."""
        known = self._seconds.get(job_type, seconds)
        self._seconds[job_type] = (
            max(seconds, known) if seconds > 4 * known else known + SMOOTHING * (seconds - known)
        )
        self._longest[job_type] = max(seconds, 0.99 * self._longest.get(job_type, 0.0))
        self._runs[job_type] = self._runs.get(job_type, 0) + 1

    def forget(self, job_type: str) -> None:
        """Assume nothing of the type any more: jobs claimed ahead did not start soon."""
        self._runs[job_type] = 0

    def ahead(self, job_type: str, workers: int) -> int:
        """How many more jobs of the type `workers` can start within about 50 ms."""
        if self._runs.get(job_type, 0) < ENOUGH_RUNS:
            return 0
        return min(MOST_AHEAD, int(SOON_SECONDS * workers / max(self._seconds[job_type], 1e-6)))

    def is_short(self, job_type: str) -> bool:
        """Whether jobs of the type run well under a second, so that losing a claim in a server crash is harmless."""
        return (
            self._runs.get(job_type, 0) >= ENOUGH_RUNS
            and self._seconds[job_type] < SHORT_SECONDS
            and self._longest[job_type] < SHORT_AT_MOST_SECONDS
        )
