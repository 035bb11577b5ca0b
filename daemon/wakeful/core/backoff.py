"""How long a failed job waits before its next attempt, and the jitter that keeps a failed batch from coming back
in one wave.

Invariant: every delay is finite and not negative, whatever the attempt's number; chance comes in as an argument, so
that nothing here is random.
"""

from __future__ import annotations

from typing import Final

FIRST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 600.0
JITTER: Final = 0.2

# A server may name any delay; added jitter past a minute spreads nothing better, and a year fits every clock.
_LONGEST_ADDED_SECONDS: Final = 60.0
_LONGEST_SERVER_SECONDS: Final = 365 * 86400.0

# 5 s doubled seven times is past 600 s: a higher exponent is clamped before the power, never after it.
_LAST_DOUBLING: Final = 7


def delay(attempt: int) -> float:
    """Give the seconds to wait after failed attempt number `attempt` (from 1): 5, 10, 20 … 600."""
    doublings = min(max(attempt - 1, 0), _LAST_DOUBLING)
    return min(FIRST_SECONDS * 2.0**doublings, LONGEST_SECONDS)


def jittered(seconds: float, random: float) -> float:
    """Take up to 20 % off a delay of ours; `random` is in [0, 1)."""
    return _bounded(seconds) * (1.0 - JITTER * random)


def on_top(server_delay: float, random: float) -> float:
    """Add up to 20 %, at most a minute, to a delay that a server gave: never shorter than it said."""
    seconds = _bounded(server_delay)
    return seconds + min(seconds * JITTER, _LONGEST_ADDED_SECONDS) * random


def _bounded(seconds: float) -> float:
    # max(0.0, nan) is 0.0: the order of the arguments matters.
    return min(max(0.0, seconds), _LONGEST_SERVER_SECONDS)
