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


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What one version of Wakeful brings: the whole schema, and the steps to it in order, from 2 on."""

    schema: str
    steps: tuple[Migration, ...]

    @property
    def newest(self) -> int:
        """The version that the whole schema is at."""
        return max((one.version for one in self.steps), default=FIRST_VERSION)

    def install(self) -> Migration:
        """The step from nothing to the newest version."""
        return Migration(version=self.newest, name=_SCHEMA_FILE, text=self.schema)

    def after(self, installed: Installed) -> tuple[Migration, ...]:
        """The steps that an installed schema lacks."""
        return tuple(one for one in self.steps if one.version > installed.version)

    def notes_of(self, step: Migration) -> list[tuple[int, str, str, bool]]:
        """What is noted of a step: version, name, checksum, breaking. A fresh install holds all numbered steps."""
        if not step.is_install:
            return [(step.version, step.name, step.checksum, step.breaking)]
        held = [(one.version, one.name, one.checksum, one.breaking) for one in self.steps]
        return [(FIRST_VERSION, step.name, step.checksum, False), *held]

    def refuse_changed(self, version: int, checksum: str) -> None:
        """Raise SchemaMismatch where the step that was applied is not the one that is known by its number."""
        for one in self.steps:
            if one.version == version and one.checksum != checksum:
                raise SchemaMismatch(
                    f"the migration {one.name} was changed after it was applied here;"
                    " run the version of Wakeful that applied it"
                )

    def refuse_newer(self, installed: Installed) -> None:
        """Raise SchemaMismatch where the schema has changed too much for this version of Wakeful."""
        if installed.breaking > self.newest:
            raise SchemaMismatch(
                f"the schema is at version {installed.version}, and this version of Wakeful knows {self.newest}"
                f" at most, where {installed.breaking} is needed; run a newer version of Wakeful here"
            )

    def refuse_older(self, installed: Installed) -> None:
        """Raise SchemaMismatch where the schema lacks steps of this version of Wakeful."""
        if installed.version < self.newest:
            raise SchemaMismatch(
                f"the schema is at version {installed.version}, and this version of Wakeful needs {self.newest};"
                " run `wakeful migrate`"
            )


def migration_of(name: str, text: str) -> Migration:
    """The step in a file `NNNN_name.sql`."""
    number, _, _ = name.partition("_")
    if not number.isdecimal() or int(number) <= FIRST_VERSION:
        raise WakefulError(f"the migration {name} has no number above {FIRST_VERSION}")
    return Migration(version=int(number), name=name, text=text, breaking=text.startswith(_BREAKING_MARK))


@cache
def versions() -> Versions:
    """What this version of Wakeful brings."""
    folder = resources.files("wakeful.store") / "migrations"
    found = [
        migration_of(entry.name, entry.read_text(encoding="utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return Versions(schema=schema_sql(), steps=tuple(sorted(found, key=lambda one: one.version)))
