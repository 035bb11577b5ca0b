"""A handler that is there in the daemon only: the process that it wants to run in does not find it."""

from __future__ import annotations

import sys

from wakeful import JobContext, Registry

registry = Registry()

if not sys.argv[0].endswith("bootstrap.py"):

    @registry.job("HIDDEN", isolation="process")
    def hidden(job: JobContext) -> None: ...
