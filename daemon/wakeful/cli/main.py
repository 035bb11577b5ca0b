"""The program `wakeful`: reads the command line, runs one command, and turns every failure into words and a code.

Invariant: standard output holds results only. A failure says what happened, why, and what to do, without secrets; a
reader that goes away (`| head`) is no failure. Each command is one module of `cli.commands` with `register(commands)`.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import Final

from wakeful.aio.shutdown import release_signals
from wakeful.cli import exits
from wakeful.cli.commands import (
    adopt,
    alerts,
    bench,
    config,
    demo,
    enqueue,
    jobs,
    migrate,
    queues,
    run,
    version,
)
from wakeful.cli.exits import CommandFailed
from wakeful.cli.options import Parser, add_shared_options
from wakeful.cli.terminal import block, finish, forget, say, visible
from wakeful.errors import ConfigError, OptionRefused, SchemaMismatch, StoreUnavailable, WakefulError
from wakeful.telemetry.redaction import Redactor

# In the order of the help.
COMMANDS: Final = (run, demo, bench, migrate, adopt, enqueue, jobs, queues, alerts, config, version)

# They watch the stop signals, which are held until then.
HOLDING: Final = (run.run, demo.run, bench.run)

_DESCRIPTION: Final = "Wakeful: a job daemon for PostgreSQL."
_EPILOG: Final = """exit codes:
  0 it worked   1 it failed, or is not there   2 the command line makes no sense
  78 the configuration or the schema does not fit   130 interrupted

`wakeful COMMAND --help` shows the options of a command and an example."""
_REACH_HINT: Final = (
    "check that the server runs, and DATABASE_URL or --database (`wakeful config show --origin`)"
)
_DENIED_HINT: Final = "this database role may not do that: use a member of wakeful_worker, or the owner"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; gives the exit code. Raises SystemExit for --help and for what argparse refuses."""
    _open_missing_streams()
    _write_anything()
    arguments = build_parser().parse_args(argv)
    try:
        if arguments.run not in HOLDING:
            release_signals()
        code: int = arguments.run(arguments)
        finish()
    except BrokenPipeError:
        forget()  # nobody reads any more
        return exits.OK
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except WakefulError as error:
        return _tell(error)
    return code


def build_parser() -> argparse.ArgumentParser:
    """Give the parser of the whole command line."""
    parser = Parser(
        prog="wakeful",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_shared_options(parser, default=None)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.register(commands)
    return parser


def _tell(error: WakefulError) -> int:
    """Say what went wrong on standard error; gives the exit code."""
    if isinstance(error, ConfigError):
        _complain(
            "the configuration has mistakes:" if len(error.problems) > 1 else "the configuration is wrong:"
        )
        for problem in error.problems:
            say(block(_hidden(problem), indent="  "))
        return exits.CONFIG
    if isinstance(error, SchemaMismatch):
        _complain(str(error))
        return exits.CONFIG
    if isinstance(error, CommandFailed):
        _complain(error.message, hint=error.hint)
        return error.code
    if isinstance(error, OptionRefused):
        _complain(f"{error.message} [{error.sqlstate}]", hint=error.hint)
        return exits.FAILED
    _complain(str(error), hint=_hint_for(error))
    return exits.FAILED


def _hint_for(error: WakefulError) -> str | None:
    if "[42501]" in str(error):
        return _DENIED_HINT
    return _REACH_HINT if isinstance(error, StoreUnavailable) else None


def _complain(message: str, *, hint: str | None = None) -> None:
    say(f"wakeful: {visible(_hidden(message))}")
    if hint is not None:
        say(f"  hint: {visible(_hidden(hint))}")


def _hidden(text: str) -> str:
    return Redactor().text(text)


def _open_missing_streams() -> None:
    """Open what was closed when we were started: else a connection gets the number that error messages go to."""
    for name, mode in (("stdin", os.O_RDONLY), ("stdout", os.O_WRONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, mode)  # the lowest that is free, which is the one that is missing
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", closefd=False))


def _write_anything() -> None:
    """Let no character be a failure where the streams' encoding is a small one."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
