"""What this run of the demo is to do: from the command line and the environment, checked before anything is started.

Invariant: only the command says which database is used; one that is merely exported is named and left alone. The
daemon's other settings come from the environment as usual, over the demo's own; a `config.toml` that happens to lie
here is somebody's for another daemon, and is read only when named.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wakeful.cli.demo.example import HANDLERS
from wakeful.config import load
from wakeful.core.resources import checkout
from wakeful.core.settings import Settings

QUEUE: Final = "demo"
"""The queue in somebody's database: the demo serves no other there."""

LOST_LIMIT_ELSEWHERE: Final = 1000

_DATABASES: Final = (
    "DATABASE_URL",
    "DATABASE_URL_FILE",
    "WAKEFUL__DATABASE__DSN",
    "WAKEFUL__DATABASE__DSN_FILE",
    "WAKEFUL__DATABASE__LISTEN_DSN",
    "WAKEFUL__DATABASE__LISTEN_DSN_FILE",
)
_NOT_OURS: Final = (*_DATABASES, "WAKEFUL_CONFIG", "WAKEFUL__HANDLERS", "WAKEFUL__WORKER__QUEUES")
# Short waits, so that a newcomer sees within seconds what happens to a killed process and to a job without a handler.
_OWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "WAKEFUL__WORKER__NAME": "demo",
        "WAKEFUL__LEASE__DEFAULT": "6s",
        "WAKEFUL__LEASE__BEAT": "1s",
        "WAKEFUL__REAPER__INTERVAL": "1s",
        "WAKEFUL__JOBS__UNKNOWN_TYPE_GRACE": "2s",
        "WAKEFUL__ALERTS__FIRST_WAIT": "250ms",
        "WAKEFUL__DRAIN__GRACE": "15s",
        "WAKEFUL__HISTORY__FINISHED": "1d",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do. `dsn` is somebody's database, None for one of the demo's own; `exported` names variables not used."""

    data: Path
    settings: Settings
    dsn: str | None
    once: bool
    interval: float
    sites: tuple[str, ...]
    exported: tuple[str, ...]

    def settings_at(self, dsn: str) -> Settings:
        """The daemon's settings, with the database that it works in."""
        return replace(self.settings, database=replace(self.settings.database, dsn=dsn))

    @property
    def queue(self) -> str | None:
        """The queue that the demo enqueues to; None for the job types' own."""
        return None if self.dsn is None else QUEUE

    @property
    def served(self) -> tuple[str, ...]:
        """The queues that are watched; none named: all."""
        return () if self.dsn is None else (QUEUE,)


def plan_from(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Plan:
    """Give the plan. Raises ConfigError with every mistake."""
    dsn: str | None = arguments.database
    return Plan(
        data=_data_folder(arguments.data, environ, elsewhere=dsn is not None),
        settings=_settings(arguments.config, environ, dsn),
        dsn=dsn,
        once=arguments.once,
        interval=arguments.every,
        sites=tuple(arguments.site or ()),
        exported=tuple(name for name in _DATABASES if environ.get(name) not in (None, "", dsn)),
    )


def exported_note(exported: Sequence[str]) -> str:
    """Say that these variables are not used, and what would use them."""
    verb = "is" if len(exported) == 1 else "are"
    how = "make run DATABASE_URL=..." if checkout() is not None else "wakeful demo --database ..."
    return f"{' and '.join(exported)} {verb} set and not used; to use such a database: {how}"


def _settings(config: Path | None, environ: Mapping[str, str], dsn: str | None) -> Settings:
    inherited = {name: value for name, value in environ.items() if name not in _NOT_OURS}
    flags: dict[str, object] = {"handlers": HANDLERS, "log.format": "json", "sinks.log.kind": "log"}
    if dsn is not None:
        # Jobs of others are no concern of the demo: it takes them back from the dead, and lets none of them die.
        flags |= {"database.dsn": dsn, "worker.queues": QUEUE, "reaper.lost_limit": LOST_LIMIT_ELSEWHERE}
    return load(environ={**_OWN, **inherited}, path=config or Path(os.devnull), flags=flags).settings


def _data_folder(given: Path | None, environ: Mapping[str, str], *, elsewhere: bool) -> Path:
    """The folder that was given, or one of this checkout's or user's own; a foreign database's has another."""
    if given is not None:
        return given.absolute()
    name = "demo-elsewhere" if elsewhere else "demo"
    top = checkout()
    if top is not None:
        return top / ".wakeful" / name
    data = environ.get("XDG_DATA_HOME") or str(Path("~/.local/share").expanduser())
    return Path(data) / "wakeful" / name
