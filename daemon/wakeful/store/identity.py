"""Which server this installation belongs to, and what has to be put right when it lives on another one, or anew.

Invariant: where the server does not tell who it is, nothing is refused for it (I4). What follows is the runtime's.
"""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.errors import SchemaMismatch
from wakeful.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The system identifiers of the server that the installation belongs to, and of this one; None: not known."""

    stored: str | None
    here: str | None

    @property
    def is_foreign(self) -> bool:
        """Whether this is surely another server than the one that the installation belongs to."""
        return self.stored is not None and self.here is not None and self.stored != self.here


async def read_identity(database: Database) -> Identity:
    """Both identifiers. Raises SchemaMismatch where nothing is installed."""
    row = await database.fetchrow("read_identity")
    if row is None:
        raise SchemaMismatch("wakeful.installation is empty; run `wakeful migrate`")
    return Identity(stored=row["stored"], here=row["here"])


async def raise_position(database: Database) -> int | None:
    """Bring the position sequence above all positions in use; gives its new value, None where it was right."""
    raised = await database.fetchval("raise_position")
    assert raised is None or isinstance(raised, int)
    return raised


async def adopt(database: Database) -> Identity:
    """Say that the installation now belongs to this server: for the owner of the schema; gives what holds now."""
    await database.fetch("adopt_server")
    return await read_identity(database)
