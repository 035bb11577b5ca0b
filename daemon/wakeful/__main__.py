"""`python -m wakeful`, and the command `wakeful`.

Stop signals are held before anything else is imported, which takes a moment: one that comes in it is acted upon by a
daemon when it can, and by every other command as soon as it is clear that it is none. As PID 1 it would be lost.
"""

from __future__ import annotations

import sys

from wakeful.aio.shutdown import hold_signals

hold_signals()

from wakeful.cli.main import main  # noqa: E402 -- see above

__all__ = ("main",)

if __name__ == "__main__":
    sys.exit(main())
