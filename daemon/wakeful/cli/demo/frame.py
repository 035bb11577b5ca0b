"""The live part of the view: the pipelines that run now, with their steps and bars, and one line about all of it.

Invariant: a frame is never wider or higher than the room that it is given; where there is less, it says less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wakeful.cli.demo.changes import outcome_mark, waits_for
from wakeful.cli.demo.paint import Line, Mark, Span, Style, fitted, line, padded, span
from wakeful.cli.demo.story import STAGES, JobSeen, Pipeline, Snapshot, Step

_PLACE_COLUMNS: Final = 16
_NARROW: Final = 72  # columns below which a pipeline has one line
_STEP_MARKS: Final[dict[str, Mark]] = {"running": "running", "done": "done", "failed": "failed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Columns and lines that a frame may take."""

    columns: int
    lines: int


def frame(snapshot: Snapshot, footer: Line, *, room: Room, style: Style, now: datetime) -> list[Line]:
    """Give the lines for what runs now, and the footer."""
    blocks = [_pipeline(one, room=room, style=style, now=now) for one in snapshot.open_pipelines]
    blocks += [[_other(job, style=style, now=now)] for job in snapshot.open_others]
    lines = [*_fitting(blocks, room.lines - 1), footer]
    return [fitted(one, room.columns) for one in lines[-max(1, room.lines) :]]


def _fitting(blocks: Sequence[list[Line]], lines: int) -> Iterator[Line]:
    """Give whole blocks while they fit, and how many do not."""
    left = lines
    for number, block in enumerate(blocks):
        rest = len(blocks) - number
        if len(block) > left - (1 if rest > 1 else 0):
            if left > 0:
                yield line(span(f"  and {rest} more", "dim"))
            return
        left -= len(block)
        yield from block


def _pipeline(pipeline: Pipeline, *, room: Room, style: Style, now: datetime) -> list[Line]:
    latest = pipeline.latest
    name = padded(span(pipeline.place, "bold"), _PLACE_COLUMNS)
    if room.columns < _NARROW:
        stage = padded(span(latest.job_type), max(map(len, STAGES)) + 1)
        return [line(name, " ", stage, *_now_doing(latest, style=style, now=now))]
    indent = Span(" " * (_PLACE_COLUMNS + 1))
    seconds = span(f"{pipeline.seconds(now):4.0f} s", "dim")
    return [
        line(name, " ", *_chain(pipeline, style), seconds),
        (indent, *_steps(latest, style=style, now=now)),
    ]


def _chain(pipeline: Pipeline, style: Style) -> Iterator[object]:
    for stage in STAGES:
        job = pipeline.job(stage)
        mark = style.mark("pending") if job is None else style.mark(outcome_mark(job))
        yield span(stage, "dim") if job is None else stage
        yield " "
        yield mark
        yield "  "


def _steps(job: JobSeen, *, style: Style, now: datetime) -> Line:
    """All steps of a job, the running one with its bar."""
    if job.runs_again or job.ended or not job.steps:
        return _now_doing(job, style=style, now=now)
    pieces: list[object] = []
    for step in job.steps:
        pieces += [span(step.name, "dim" if step.status == "pending" else "plain"), " "]
        pieces += _progress(step, style) if step.status == "running" else [style.mark(_mark_of(step))]
        pieces.append("  ")
    return line(*pieces)


def _now_doing(job: JobSeen, *, style: Style, now: datetime) -> Line:
    """What a job does in a few words."""
    if job.runs_again:
        return line(
            style.mark("waiting"),
            " ",
            waits_for(job, now),
            span(f": {job.why}" if job.why else "", "dim"),
        )
    running = next((step for step in job.steps if step.status == "running"), None)
    if running is not None and job.status == "RUNNING":
        return line(running.name, " ", *_progress(running, style))
    said = {"PENDING": "waits for a worker", "RUNNING": "starts", "DONE": "done"}.get(job.status, job.status)
    return line(span(said, "dim"))


def _progress(step: Step, style: Style) -> list[object]:
    shown: list[object] = [style.mark("running")] if step.percent is None else list(style.bar(step.percent))
    return [*shown, " ", span(step.message, "dim")] if step.message else shown


def _other(job: JobSeen, *, style: Style, now: datetime) -> Line:
    name = padded(span(job.job_type, "bold"), _PLACE_COLUMNS)
    about = span(f"({job.subject}) ", "dim") if job.subject else Span("")
    return line(name, " ", about, *_now_doing(job, style=style, now=now))


def _mark_of(step: Step) -> Mark:
    return _STEP_MARKS.get(step.status, "pending")
