"""What has changed between two looks at the jobs: one entry a change, in the order in which it must have happened.

Invariant: a change is told once; what was passed over between two looks (a step that ran and ended) is told by its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from wakeful.cli.demo.entries import Entry
from wakeful.cli.demo.paint import Line, Mark, Span, Style, Tone, line, padded, span
from wakeful.cli.demo.story import STAGES, UNHANDLED, JobSeen, Snapshot, Step

_SUBJECT_COLUMNS: Final = 15
_TYPE_COLUMNS: Final = 8
_STEP_MARKS: Final[dict[str, Mark]] = {"running": "running", "done": "done", "failed": "failed"}


def changes(before: Snapshot, after: Snapshot, *, style: Style, now: datetime) -> Iterator[Entry]:
    """Give an entry for each change."""
    known = {job.job_id: job for job in before.jobs}
    for job in after.jobs:
        yield from _of_job(known.get(job.job_id), job, style=style, now=now)


def waits_for(job: JobSeen, now: datetime) -> str:
    """Say when a job that has run before runs again, and why not now."""
    left = 0.0 if job.due is None else (job.due - now).total_seconds()
    when = f"runs again in {left:.0f} s" if left >= 1 else "is due again"
    return f"{when} (attempt {job.attempt + 1} of {job.max_attempts})"


def outcome_mark(job: JobSeen) -> Mark:
    """The mark for a job's status."""
    if job.status == "DONE":
        return "done"
    if job.ended:
        return "failed"
    if job.status == "RUNNING":
        return "running"
    return "waiting" if job.runs_again else "pending"


def _of_job(before: JobSeen | None, job: JobSeen, *, style: Style, now: datetime) -> Iterator[Entry]:
    is_again = before is not None and job.run_no != before.run_no
    if before is None and job.job_type not in STAGES[1:]:
        yield _entry("job.enqueued", job, line("enqueued"), minor=job.job_type != UNHANDLED)
    if job.status == "RUNNING" and job.run_no > 1 and (before is None or is_again):
        again = line(f"runs again, attempt {job.attempt} of {job.max_attempts}")
        yield _entry("job.again", job, again, minor=_is_free(job))
    known = {step.name: step.status for step in before.steps} if before is not None and not is_again else {}
    for step in job.steps:
        if step.status in _STEP_MARKS and known.get(step.name) != step.status:
            yield _of_step(job, step, style)
    if before is not None and before.status == job.status and not is_again:
        return
    if job.runs_again:
        yield _of_wait(job, style=style, now=now)
    elif job.ended:
        yield _of_end(job, style=style, now=now)


def _of_step(job: JobSeen, step: Step, style: Style) -> Entry:
    took = "" if step.seconds is None else f"{step.seconds:.1f} s"
    said = {"running": "...", "failed": "failed"}.get(step.status, took)
    shown = line(style.mark(_STEP_MARKS[step.status]), " ", step.name, " ", span(said, "dim"))
    return _entry("step", job, shown, minor=True, step=step.name, step_status=step.status)


def _of_wait(job: JobSeen, *, style: Style, now: datetime) -> Entry:
    shown = line(
        style.mark("waiting"), " ", waits_for(job, now), span(f": {job.why}" if job.why else "", "dim")
    )
    return _entry("job.waits", job, shown, minor=_is_free(job), reason=job.why)


def _is_free(job: JobSeen) -> bool:
    """Whether some run of it was not counted as an attempt: it was asked to wait, or its process went away."""
    return job.attempt < job.run_no


def _of_end(job: JobSeen, *, style: Style, now: datetime) -> Entry:
    tone: Tone = "good" if job.status == "DONE" else "bad"
    after = f" after {job.seconds(now):.1f} s"
    if job.status == "DEAD":
        after = f" after {job.attempt} attempt{'' if job.attempt == 1 else 's'}"
    reason = "" if job.status == "DONE" or not job.reason else f": {job.reason}"
    degraded = span(f", degraded: {'; '.join(job.degraded)}" if job.degraded else "", "warn")
    shown = line(
        style.mark(outcome_mark(job)), " ", span(job.status, tone), after, span(reason, "dim"), degraded
    )
    ended = _entry("job.ended", job, shown, minor=job.status == "DONE", reason=job.reason)
    if job.job_type != UNHANDLED or job.status != "DEAD":
        return ended
    told = line(
        Span(" " * 2),
        span("as it should: nothing here serves this type, and a dead job is never silent", "dim"),
    )
    return Entry(event=ended.event, lines=(*ended.lines, told), fields=ended.fields)


def _entry(event: str, job: JobSeen, shown: Line, *, minor: bool = False, **fields: object) -> Entry:
    head = (
        padded(span(job.subject), _SUBJECT_COLUMNS),
        Span("  "),
        padded(span(job.job_type), _TYPE_COLUMNS),
        Span("  "),
    )
    about = {
        "job_id": str(job.job_id),
        "job_type": job.job_type,
        "subject": job.subject,
        "status": job.status,
        "attempt": job.attempt,
        "run_no": job.run_no,
    }
    return Entry(event=event, lines=((*head, *shown),), fields={**about, **fields}, minor=minor)
