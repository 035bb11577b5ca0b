"""What a pipeline has come to: the channels by kind of outcome, the pictures, the text, and where the page lies.

Invariant: results are read as any program would read them, from the view; one that is not as expected leaves out its
line and breaks nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from wakeful.cli.demo.entries import Entry
from wakeful.cli.demo.paint import Line, Span, Style, Tone, line, padded, span, whole
from wakeful.cli.demo.story import JobSeen, Pipeline

PAGE: Final = "index.html"
_LABEL_COLUMNS: Final = 9
_LONGEST_LIST: Final = 6
_FINE: Final[tuple[tuple[str, Tone], ...]] = (("ok", "good"), ("empty", "dim"), ("skipped", "dim"))


def summary(pipeline: Pipeline, *, style: Style, now: datetime) -> Entry:
    """Give the entry for a pipeline that has ended."""
    details = tuple(_details(pipeline))
    page = _page(pipeline)
    fields: dict[str, object] = {
        "run": pipeline.run,
        "place": pipeline.place,
        "status": pipeline.latest.status,
        "seconds": round(pipeline.seconds(now), 1),
        "channels": {kind: list(names) for kind, names in channels_by_kind(pipeline.job("COLLECT")).items()},
        "degraded": [reason for job in pipeline.jobs for reason in job.degraded],
        "page": None if page is None else str(page),
    }
    return Entry(event="pipeline.ended", lines=(_head(pipeline, style, now), *details), fields=fields)


def channels_by_kind(collect: JobSeen | None) -> Mapping[str, Sequence[str]]:
    """Give the names of the channels by outcome: ok, empty, skipped, or the kind of failure, such as dns."""
    found: dict[str, list[str]] = {}
    for channel in _entries(collect, "channels"):
        status, reason = str(channel.get("status")), str(channel.get("reason") or "")
        kind = reason.partition(":")[0] or "failed" if status == "failed" else status
        found.setdefault(kind, []).append(str(channel.get("channel")))
    return found


def _head(pipeline: Pipeline, style: Style, now: datetime) -> Line:
    collect = pipeline.job("COLLECT")
    name = str(collect.result.get("name") or "") if collect is not None and collect.result else ""
    seconds = f"in {pipeline.seconds(now):.1f} s"
    title = (span(pipeline.place, "bold"), f" ({name})" if name else "")
    if pipeline.published:
        return line(style.mark("done"), " ", *title, " is published, ", seconds)
    latest = pipeline.latest
    ended = span(f"{latest.status} in {latest.job_type}", "bad" if latest.status == "DEAD" else "warn")
    return line(style.mark("failed"), " ", *title, " ", ended, f" {seconds}: {latest.reason}")


def _details(pipeline: Pipeline) -> Iterator[Line]:
    channels = channels_by_kind(pipeline.job("COLLECT"))
    if channels:
        yield _labelled("channels", *_channel_spans(channels))
    pictures = _entries(pipeline.job("VISION"), "pictures")
    if pictures:
        yield _labelled("images", *_picture_spans(pictures), *_degraded(pipeline.job("VISION")))
    copy = pipeline.job("COPY")
    if copy is not None and copy.result is not None:
        yield _labelled("copy", *_copy_spans(copy))
    page = _page(pipeline)
    if page is not None:
        yield _labelled("page", whole(page))


def _channel_spans(channels: Mapping[str, Sequence[str]]) -> Iterator[object]:
    counts = [span(f"{len(channels[kind])} {kind}", tone) for kind, tone in _FINE if kind in channels]
    failed = {kind: names for kind, names in channels.items() if kind not in dict(_FINE)}
    if failed:
        counts.append(span(f"{sum(map(len, failed.values()))} failed", "bad"))
    for number, count in enumerate(counts):
        yield ", " if number else ""
        yield count
    if failed:
        yield ": " + ", ".join(f"{kind} ({', '.join(names)})" for kind, names in failed.items())


def _picture_spans(pictures: Sequence[Mapping[str, Any]]) -> Iterator[object]:
    broken = [picture for picture in pictures if picture.get("problem")]
    described = sum(bool(picture.get("description")) for picture in pictures)
    yield f"{len(pictures) - len(broken)} looked at, {described} described"
    if broken:
        yield ", "
        yield span(f"{len(broken)} unusable", "bad")
        names = [_file_name(picture) for picture in broken[:_LONGEST_LIST]]
        yield f" ({', '.join(names)})"


def _copy_spans(copy: JobSeen) -> Iterator[object]:
    if copy.degraded:
        yield span(f"degraded: {'; '.join(copy.degraded)}", "warn")
    else:
        by_model = (copy.result or {}).get("source") == "provider"
        yield "written by the language model" if by_model else "made from the facts alone"


def _degraded(job: JobSeen | None) -> Iterator[object]:
    if job is not None and job.degraded:
        yield ", "
        yield span(f"degraded: {'; '.join(job.degraded)}", "warn")


def _page(pipeline: Pipeline) -> Path | None:
    publish = pipeline.job("PUBLISH")
    current = publish.result.get("current") if publish is not None and publish.result else None
    return Path(current) / PAGE if isinstance(current, str) else None


def _entries(job: JobSeen | None, key: str) -> list[Mapping[str, Any]]:
    listed = job.result.get(key) if job is not None and job.result else None
    return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _file_name(picture: Mapping[str, Any]) -> str:
    return str(picture.get("url") or "").rpartition("/")[2] or "?"


def _labelled(label: str, *pieces: object) -> Line:
    return (Span("    "), padded(span(label, "dim"), _LABEL_COLUMNS), *line(*pieces))
