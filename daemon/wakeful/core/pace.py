"""How long jobs of each type run here, so that the claimer knows how many can start soon.

Invariant: nothing is assumed of a type until 20 of its jobs have run; one slow job outweighs many fast ones, because a
job that waits behind it holds a lease for nothing. `Starts` says how many jobs really start, whatever they are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

ENOUGH_RUNS: Final = 20
SMOOTHING: Final = 0.1
SOON_SECONDS: Final = 0.05
MOST_AHEAD: Final = 1000
SHORT_SECONDS: Final = 0.5
SHORT_AT_MOST_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Known:
    """What is known of one type: smoothed and longest run in seconds, and how many runs that stands on."""

    seconds: float
    longest: float = 0.0
    runs: int = 0


class Pace:
    """Smoothed run times by job type."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def ran(self, job_type: str, seconds: float) -> None:
        """Note one run; a slower one than usual counts at once, a faster one by and by."""
        known = self._known.get(job_type)
        if known is None:
            known = self._known[job_type] = _Known(seconds)
        usual = known.seconds
        known.seconds = seconds if seconds > 4 * usual else usual + SMOOTHING * (seconds - usual)
        longest = 0.99 * known.longest
        known.longest = seconds if seconds > longest else longest  # noqa: FURB136 - `max` is a call, for each job
        known.runs += 1

    def forget(self, job_type: str) -> None:
        """Assume nothing of the type any more: jobs claimed ahead did not start soon."""
        if job_type in self._known:
            self._known[job_type].runs = 0

    def ahead(self, job_type: str, workers: int) -> int:
        """How many more jobs of the type `workers` can start within about 50 ms."""
        known = self._known.get(job_type)
        if known is None or known.runs < ENOUGH_RUNS:
            return 0
        return min(MOST_AHEAD, int(SOON_SECONDS * workers / max(known.seconds, 1e-6)))

    def is_short(self, job_type: str) -> bool:
        """Whether jobs of the type run well under a second, so that losing a claim in a server crash is harmless."""
        known = self._known.get(job_type)
        return (
            known is not None
            and known.runs >= ENOUGH_RUNS
            and known.seconds < SHORT_SECONDS
            and known.longest < SHORT_AT_MOST_SECONDS
        )


class Starts:
    """How many jobs have started within the last 50 ms, so about as many start within the next."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def note(self, count: int, now: float) -> int:
        """`count` have started by `now` (seconds); gives how many of them in the last 50 ms, as far as is known."""
        seen = self._seen
        while len(seen) > 1 and seen[1][0] <= now - SOON_SECONDS:
            seen.popleft()
        at, before = seen[0] if seen else (now, count)
        seen.append((now, count))
        return int((count - before) * min(1.0, SOON_SECONDS / max(now - at, 1e-6)))
