"""`python -m wakeful`, and the command `wakeful`."""

from __future__ import annotations

import sys

from wakeful.cli.main import main

__all__ = ("main",)

if __name__ == "__main__":
    sys.exit(main())
