"""What this process takes of its machine, under the names that every exporter has for it.

Invariant: nothing here waits or asks anybody but the system's own counters. Which metrics these are is in `meters`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_STATM: Final = Path("/proc/self/statm")


def processor_seconds() -> float:
    """Seconds of processor that all threads have used."""
    return time.process_time()


def resident_bytes() -> int | None:
    """Memory that is in use; None where the system does not tell in this way."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
