"""`wakeful migrate`: installs the schema or brings it up to date; or says what is to do, or prints it as SQL."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial

import anyio

from wakeful.cli import exits
from wakeful.cli.options import Commands, add_command, load_configuration
from wakeful.cli.terminal import say, show, to_json
from wakeful.config import current_dsn
from wakeful.core.settings import DatabaseSettings
from wakeful.store.migrate import Migrated, migrate, pending
from wakeful.store.migration_script import script
from wakeful.store.versions import Migration, versions
from wakeful.telemetry.bus import Telemetry


def register(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "migrate",
        run,
        summary="install the schema, or bring it up to date",
        example="wakeful migrate\n  wakeful migrate --sql > for-the-administrator.sql",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--check", action="store_true", help="change nothing; exit code 1 where there is something to do"
    )
    instead.add_argument(
        "--sql",
        action="store_true",
        help="change nothing; print what is to do as SQL (without a database: a fresh install)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Migrate, check, or print."""
    configured = load_configuration(arguments).settings
    settings = configured.database
    if not arguments.sql:
        current_dsn(settings)
    if arguments.sql:
        return _print_sql(settings, as_json=arguments.json)
    if arguments.check:
        return _check(anyio.run(pending, settings), as_json=arguments.json)
    migrating = partial(migrate, settings, Telemetry(), subject_paths=configured.jobs.subject_paths)
    return _tell(anyio.run(migrating), as_json=arguments.json)


def _print_sql(settings: DatabaseSettings, *, as_json: bool) -> int:
    has_database = settings.dsn is not None or settings.dsn_file is not None
    steps = anyio.run(pending, settings) if has_database else (versions().install(),)
    text = script(steps) if steps else ""
    if as_json:
        show(to_json({"pending": _names(steps), "sql": text}))
    elif steps:
        show(text.rstrip())
    else:
        say("the schema is up to date: there is nothing to run")
    return exits.OK


def _check(steps: Sequence[Migration], *, as_json: bool) -> int:
    if as_json:
        show(to_json({"pending": _names(steps)}))
    elif steps:
        show("\n".join(f"to do: {name}" for name in _names(steps)))
    else:
        show("the schema is up to date")
    return exits.FAILED if steps else exits.OK


def _tell(done: Migrated, *, as_json: bool) -> int:
    if as_json:
        applied = [{"version": one.version, "name": one.name, "seconds": one.seconds} for one in done.applied]
        show(to_json({"applied": applied, "for_administrator": list(done.for_administrator)}))
        return exits.OK
    for one in done.applied:
        show(f"applied {one.name} (schema version {one.version}, {one.seconds:g} s)")
    if not done.applied:
        show("the schema is up to date")
    if done.for_administrator:
        say("this role may not create the roles for producers, workers and observers;")
        say("let an administrator run these statements, then run `wakeful migrate` again:")
        show("\n".join(done.for_administrator))
    return exits.OK


def _names(steps: Sequence[Migration]) -> list[str]:
    return [step.name for step in steps]
