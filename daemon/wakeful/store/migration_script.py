"""The steps of a migration as text for psql: for an administrator who runs what the daemon's role may not.

The text does what `store.migrate` does, statement for statement; its values are written out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wakeful.store.statements import statements
from wakeful.store.versions import Migration, Versions, versions

_HEAD: Final = (
    "-- Made by `wakeful migrate --sql`. Run it as the schema's owner-to-be: psql -v ON_ERROR_STOP=1 -f FILE"
)


def script(steps: Sequence[Migration], *, known: Versions | None = None) -> str:
    """The text of these steps, each in a transaction of its own."""
    return "\n\n".join([_HEAD, *(_step(one, known or versions()) for one in steps)]) + "\n"


def _step(step: Migration, known: Versions) -> str:
    sql = statements()
    notes = [_written_out(sql["note_migration"], note) for note in known.notes_of(step)]
    bind = [sql["bind_server"]] if step.is_install else []
    parts = [
        "begin",
        sql["begin_migration"],
        sql["lock_migrations"],
        step.text,
        *notes,
        *bind,
        sql["grant_roles"],
        "commit",
    ]
    return "\n\n".join(f"{part.rstrip().removesuffix(';')};" for part in parts)


def _written_out(statement: str, values: Sequence[object]) -> str:
    lines = (line for line in statement.splitlines() if not line.startswith("--"))
    return re.sub(r"\$(\d)", lambda found: _literal(values[int(found[1]) - 1]), "\n".join(lines))


def _literal(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"
