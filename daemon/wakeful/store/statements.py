"""The SQL that daemons run, one statement a file: `sql/claim_jobs.sql` is the statement `claim_jobs`.

Nothing here is a template: a statement is sent as it stands in its file, with positional arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType


@cache
def statements() -> Mapping[str, str]:
    """Every statement by its name, the stem of its file."""
    folder = resources.files("wakeful.store") / "sql"
    return MappingProxyType(
        {
            entry.name.removesuffix(".sql"): entry.read_text(encoding="utf-8")
            for entry in folder.iterdir()
            if entry.name.endswith(".sql")
        }
    )
