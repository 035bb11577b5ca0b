"""The versions of the schema: the steps that lead to the newest, and which installed one this Wakeful can work with.

Invariant: a step that was released never changes; its checksum tells. Taking the steps is `store.migrate`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from wakeful.core.resources import schema_sql
from wakeful.errors import SchemaMismatch, WakefulError

FIRST_VERSION: Final = 1
_SCHEMA_FILE: Final = "schema.sql"
_BREAKING_MARK: Final = "-- breaking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """One step: to `version`, by the text of a file; `breaking`: daemons that do not know it must not run after it."""

    version: int
    name: str
    text: str
    breaking: bool = False

    @property
    def checksum(self) -> str:
        """sha256 of the text."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def is_install(self) -> bool:
        """Whether it is the whole schema, from nothing."""
        return self.name == _SCHEMA_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The version of an installed schema, and the one that a daemon has to know to run on it."""

    version: int
    breaking: int


@cache
def migrations() -> tuple[Migration, ...]:
    """The numbered steps of this version of Wakeful, in order: from 2 on, since 1 is the first release."""
    folder = resources.files("wakeful.store") / "migrations"
    found = [
        migration_of(entry.name, entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return tuple(sorted(found, key=lambda one: one.version))


def migration_of(name: str, text: str) -> Migration:
    """The step in a file `NNNN_name.sql`."""
    number, _, _ = name.partition("_")
    if not number.isdecimal() or int(number) <= FIRST_VERSION:
        raise WakefulError(f"the migration {name} has no number above {FIRST_VERSION}")
    return Migration(version=int(number), name=name, text=text, breaking=text.startswith(_BREAKING_MARK))


def fresh_install() -> Migration:
    """The step from nothing to the newest version."""
    return Migration(version=newest_version(), name=_SCHEMA_FILE, text=schema_sql())


def newest_version() -> int:
    """The version of the schema that this version of Wakeful brings."""
    return max((one.version for one in migrations()), default=FIRST_VERSION)


def notes_of(step: Migration) -> list[tuple[int, str, str, bool]]:
    """What is noted of a step: version, name, checksum, breaking. A fresh install holds all numbered steps."""
    own = (FIRST_VERSION if step.is_install else step.version, step.name, step.checksum, step.breaking)
    held = migrations() if step.is_install else ()
    return [own, *((one.version, one.name, one.checksum, one.breaking) for one in held)]


def steps_after(installed: Installed) -> tuple[Migration, ...]:
    """The numbered steps that an installed schema lacks."""
    return tuple(one for one in migrations() if one.version > installed.version)


def refuse_changed(version: int, checksum: str) -> None:
    """Raise SchemaMismatch where the step that was applied is not the one that this Wakeful has under its number."""
    for one in migrations():
        if one.version == version and one.checksum != checksum:
            raise SchemaMismatch(
                f"the migration {one.name} was changed after it was applied here;"
                " run the version of Wakeful that applied it"
            )


def refuse_newer(installed: Installed) -> None:
    """Raise SchemaMismatch where the schema has changed too much for this version of Wakeful."""
    if installed.breaking > newest_version():
        raise SchemaMismatch(
            f"the schema is at version {installed.version}, and this version of Wakeful knows {newest_version()}"
            f" at most, where {installed.breaking} is needed; run a newer version of Wakeful here"
        )


def refuse_older(installed: Installed) -> None:
    """Raise SchemaMismatch where the schema lacks steps of this version of Wakeful."""
    if installed.version < newest_version():
        raise SchemaMismatch(
            f"the schema is at version {installed.version}, and this version of Wakeful needs {newest_version()};"
            " run `wakeful migrate`"
        )
