"""Drives the real store and the real runtime one step at a time: for our users' tests, and for our own.

Nothing here is a stand-in, and everything here is public; `docs/testing.md` shows it at work.
"""

from wakeful.testing.databases import PrivateDatabase, database
from wakeful.testing.instance import Instance, StepReports, instance
from wakeful.testing.upkeep import expire_lease, reap, run_promoter, run_pruner, run_reaper

__all__ = [
    "Instance",
    "PrivateDatabase",
    "StepReports",
    "database",
    "expire_lease",
    "instance",
    "reap",
    "run_promoter",
    "run_pruner",
    "run_reaper",
]
