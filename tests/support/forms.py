"""Which form of a test runs: the short one by default, the long one with FAULTS=long in the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, TypeVar

LONG: Final = os.environ.get("FAULTS") == "long"
T = TypeVar("T")


def some(everything: Sequence[T], *short: T) -> Sequence[T]:
    """Give all of it in the long form, and what is named in the short one."""
    return everything if LONG else short


def times(short: int, long: int) -> int:
    """Give how often something is done."""
    return long if LONG else short
