"""What the demo says at its start and at its end: what it does, where things are, how to look, to enqueue and to stop.

Invariant: every command that is shown works as it stands, in a shell of the folder that the demo was started in, and no
line holds a password.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wakeful.cli.demo.entries import Entry, note
from wakeful.cli.demo.location import Location, server_shown
from wakeful.cli.demo.paint import Line, Span, line, padded, span, whole
from wakeful.cli.demo.plan import QUEUE, Plan, exported_note
from wakeful.cli.demo.story import Snapshot, Tally
from wakeful.cli.demo.surroundings import Surroundings
from wakeful.core.resources import checkout, examples_folder
from wakeful.core.secrets import HIDDEN

_LABEL_COLUMNS: Final = 10
_PURPOSE: Final = (
    "A shop's web site becomes a page of its own by a pipeline of jobs, each committed with the end",
    "of the one before: COLLECT > VISION > COPY > BUILD > PUBLISH;",
)
_UNHANDLED: Final = "AI_CHECK has no handler, to show that such a job fails loudly."
_GUEST: Final = (
    "Others work here: theirs is left alone, and AI_CHECK is left out, as its alert would reach them."
)
_JOBS_SQL: Final = "select job_type, subject, status from wakeful.jobs"
_EXAMPLE_URL: Final = "http://corner-bakery.test/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the introduction tells of. `guest`: others work in this database; `http` is None where it is off."""

    plan: Plan
    location: Location
    around: Surroundings
    log: Path
    guest: bool
    http: str | None


def beginning(plan: Plan) -> Entry:
    """Say what is being set up, before anything takes time."""
    own = "setting up a PostgreSQL of its own"
    where = own if plan.dsn is None else f"in the database {server_shown(plan.dsn, os.environ)}"
    lines = [line(span("Wakeful demo", "bold"), f": {where}; data folder ", whole(plan.data))]
    if plan.exported:
        lines.append(line(span(exported_note(plan.exported), "warn")))
    return note("demo.starting", *lines, data=str(plan.data), not_used=list(plan.exported))


def installing(plan: Plan, shown: str) -> Entry:
    """Say that the schema is missing and is installed now."""
    where = "" if plan.dsn is None else f" in {shown}, where it is missing or old"
    return note("schema.installing", line(f"installing the schema{where} (as `wakeful migrate` does)"))


def installed(seconds: float) -> Entry:
    """Say that the schema is there now."""
    return note("schema.installed", line(f"the schema is installed ({seconds:.1f} s)"), seconds=seconds)


def introduction(scene: Scene) -> Entry:
    """Say all that a newcomer needs to know."""
    fields: dict[str, object] = {
        "data": str(scene.plan.data),
        "database": scene.location.connect,
        "queue": scene.plan.queue,
        "http": scene.http,
        "log": str(scene.log),
    }
    lines = (*_purpose(scene), Line(), *_whereabouts(scene), Line(), *_commands(scene), Line())
    return note("demo.ready", *lines, **fields)


def taken_up(left: Snapshot) -> tuple[Entry, ...]:
    """Say that an earlier run has left jobs, where it has."""
    jobs = sum(not job.ended for job in left.jobs)
    if not jobs:
        return ()
    said = "1 job of an earlier run goes on" if jobs == 1 else f"{jobs} jobs of an earlier run go on"
    killed = "; what a killed process was running is taken back when its lease ends, in a few seconds"
    return (note("jobs.taken_up", line(said, span(killed, "dim")), jobs=jobs),)


def ending(plan: Plan, tally: Tally, *, waiting: int, reason: str | None) -> Entry:
    """Say what came of it, and what stays."""
    counts = {"published": tally.published, "cancelled": tally.cancelled, "died": len(tally.died)}
    said = [f"{count} {name}" for name, count in counts.items() if count or name == "published"]
    if waiting:
        said.append(f"{waiting} {'goes' if waiting == 1 else 'go'} on in the next run")
    told = line(
        span("ended", "bold"),
        f": {', '.join(said)}. Nothing runs any more; the data stay in ",
        whole(plan.data),
    )
    lines = (told,) if reason is None else (line(span(reason, "bad")), told)
    return note("demo.ended", *lines, **counts, waiting=waiting, reason=reason)


def _purpose(scene: Scene) -> tuple[Line, ...]:
    plan = scene.plan
    pace = "each place once" if plan.once or plan.sites else f"a new one every {plan.interval:g} s"
    return tuple(line(text) for text in (*_PURPOSE, f"{pace}. {_GUEST if scene.guest else _UNHANDLED}"))


def _whereabouts(scene: Scene) -> tuple[Line, ...]:
    plan = scene.plan
    served = (
        scene.location.shown if plan.dsn is None else f"{scene.location.shown}; only queue {QUEUE} is used"
    )
    lines = [
        _labelled("data", whole(plan.data), "  ", span(_how_to_remove(plan), "dim")),
        _labelled("code", whole(_from_here(examples_folder() / "onboarding" / "jobs.py"))),
        _labelled("database", served),
        _labelled("sites", scene.around.sites),
        _labelled("model", scene.around.model),
        _labelled("log", whole(scene.log), "  ", span("JSON, one line an event", "dim")),
    ]
    if scene.http is not None:
        lines.append(_labelled("http", whole(scene.http), "  ", span("readyz, livez, metrics", "dim")))
    return tuple(lines)


def _commands(scene: Scene) -> tuple[Line, ...]:
    plan, psql = scene.plan, scene.location.psql
    client = f'{shlex.quote(psql or "psql")} "$DATABASE_URL" -c'
    without = span("  (or any other SQL client: psql is not on PATH)", "dim") if psql is None else Span("")
    connect = scene.location.connect
    password = span("  with the password in place of ***" if HIDDEN in connect else "", "dim")
    how = f"Ctrl-C (or kill {os.getpid()})" if sys.stdin.isatty() else f"kill {os.getpid()}"
    return (
        _labelled("look", whole(f"export DATABASE_URL={shlex.quote(connect)}"), password),
        _labelled("", whole(f"{_program()} jobs list")),
        _labelled("", whole(f'{client} "{_JOBS_SQL}"'), without),
        _labelled("enqueue", whole(f'{client} "{_in_double_quotes(_enqueue_sql(plan))}"')),
        _labelled("stop", how, span("  running jobs finish first", "dim")),
    )


def _enqueue_sql(plan: Plan) -> str:
    url = (plan.sites[0] if plan.sites else _EXAMPLE_URL).replace("'", "''")
    queue = "" if plan.queue is None else f", queue => '{plan.queue}'"
    payload = f"jsonb_build_object('place_id', 'my-shop', 'url', '{url}')"
    return f"select * from wakeful.enqueue('COLLECT', {payload}{queue})"


def _in_double_quotes(text: str) -> str:
    """Escape what a shell would take for its own between double quotes."""
    return re.sub(r'([\\"$`])', r"\\\1", text)


def _how_to_remove(plan: Plan) -> str:
    top = checkout()
    ours = top is not None and plan.data.is_relative_to(top / ".wakeful")
    command = "make clean" if ours else f"rm -r {shlex.quote(str(plan.data))}"
    return f"they stay for the next run; {command} removes them"


def _program() -> str:
    """The command `wakeful`, as it can be called from here."""
    ours = Path(sys.executable).parent / "wakeful"
    on_path = shutil.which("wakeful")
    if on_path is not None and Path(on_path).samefile(ours):
        return "wakeful"
    return shlex.quote(_from_here(ours))


def _from_here(path: Path) -> str:
    """Give a path as it can be used in this folder, as short as it gets."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _labelled(label: str, *pieces: object) -> Line:
    return (Span("  "), padded(span(label, "bold"), _LABEL_COLUMNS), *line(*pieces))
