"""How the demo looks: the live frame, what is told of changes, the summary, and the three kinds of screen."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from os import terminal_size
from typing import Any
from uuid import UUID

import pytest

from wakeful.cli.demo.changes import changes
from wakeful.cli.demo.entries import note
from wakeful.cli.demo.frame import Room, frame
from wakeful.cli.demo.paint import Line, Span, Style, line, span, whole, wrapped
from wakeful.cli.demo.screen import JsonScreen, LiveScreen, PlainScreen, screen_for
from wakeful.cli.demo.story import JobSeen, Pipeline, Snapshot, Step, Tally, job_seen, snapshot_of
from wakeful.cli.demo.summary import summary
from wakeful.cli.terminal import width_of

NOW = datetime(2026, 12, 24, 18, 0, tzinfo=UTC)
PLAIN = Style(colours=False, symbols=True)
RUN = "01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e00"
MOVES_THE_CURSOR = "evil\x1b[2J\nname"


def job(job_type: str, status: str, *, number: int = 0, **fields: Any) -> JobSeen:
    given: dict[str, Any] = {
        "job_id": UUID(int=UUID(RUN).int + number),
        "subject": "corner-bakery",
        "run": RUN,
        "attempt": 1,
        "max_attempts": 5,
        "run_no": 1,
        "created_at": NOW - timedelta(seconds=4),
        **fields,
    }
    return JobSeen(job_type=job_type, status=status, **given)


def showing(*jobs: JobSeen) -> Snapshot:
    return snapshot_of({one.job_id: one for one in jobs})


def texts(lines: list[Line], style: Style = PLAIN) -> list[str]:
    return [style.render(one) for one in lines]


def drawn(snapshot: Snapshot, *, columns: int = 100, lines: int = 20, style: Style = PLAIN) -> list[str]:
    room = Room(columns=columns, lines=lines)
    return texts(frame(snapshot, line("the footer"), room=room, style=style, now=NOW), style)


VISION_RUNS = job(
    "VISION",
    "RUNNING",
    number=1,
    steps=(
        Step(name="fetch", status="done"),
        Step(name="measure", status="running", percent=50.0, message="picture 3 of 6"),
        Step(name="describe", status="pending"),
    ),
)
COLLECT_DONE = job("COLLECT", "DONE", finished_at=NOW)


def test_a_pipeline_shows_its_stages_and_the_steps_of_the_one_that_runs() -> None:
    assert drawn(showing(COLLECT_DONE, VISION_RUNS)) == [
        "corner-bakery    COLLECT ✓  VISION ▶  COPY ·  BUILD ·  PUBLISH ·     4 s",
        "                 fetch ✓  measure ██████░░░░░░  50 % picture 3 of 6  describe ·",
        "the footer",
    ]


def test_a_narrow_terminal_gets_one_line_a_pipeline() -> None:
    first, footer = drawn(showing(COLLECT_DONE, VISION_RUNS), columns=60)
    assert first.startswith("corner-bakery    VISION  measure ██████░░░░░░  50 %")
    assert footer == "the footer"


@pytest.mark.parametrize("columns", [20, 33, 60, 72, 100])
def test_no_line_is_wider_than_the_terminal(columns: int) -> None:
    wide = job("COLLECT", "PENDING", number=2, subject="宿屋" * 30, run=None, reason="x" * 300)
    for shown in drawn(showing(COLLECT_DONE, VISION_RUNS, wide), columns=columns):
        assert width_of(shown) <= columns


def test_where_not_all_fit_it_says_how_many_more_there_are() -> None:
    many = [
        job("COLLECT", "RUNNING", number=number, run=f"{number}", subject=f"place-{number}")
        for number in range(9)
    ]
    shown = drawn(showing(*many), lines=8)
    assert len(shown) <= 8
    assert shown[-2:] == ["  and 6 more", "the footer"]
    assert drawn(showing(*many), lines=1) == ["the footer"]


def test_a_job_that_waits_says_for_what() -> None:
    waits = job(
        "VISION",
        "PENDING",
        number=1,
        attempt=0,
        due=NOW + timedelta(seconds=3),
        steps=(Step(name="describe", status="failed", error="RateLimited: the provider answers 429"),),
    )
    shown = drawn(showing(COLLECT_DONE, waits))
    assert "VISION ◷" in shown[0]
    assert shown[1].strip() == "◷ runs again in 3 s (attempt 1 of 5): RateLimited: the provider answers 429"


def test_without_symbols_the_bars_are_plain_characters() -> None:
    shown = "\n".join(drawn(showing(COLLECT_DONE, VISION_RUNS), style=Style(colours=False, symbols=False)))
    assert shown.isascii()
    assert "measure ######------  50 %" in shown


def test_a_text_from_outside_moves_no_cursor() -> None:
    evil = job(
        "COLLECT", "RUNNING", subject=MOVES_THE_CURSOR, steps=(Step(name="\x1b]0;x\a", status="running"),)
    )
    shown = "".join(drawn(showing(evil)))
    assert "\x1b" not in shown
    assert "evil\\x1b[2J\\nname" in shown


def told(before: Snapshot, after: Snapshot) -> list[tuple[str, str]]:
    entries = changes(before, after, style=PLAIN, now=NOW)
    return [(entry.event, PLAIN.render(entry.lines[0])) for entry in entries]


def test_a_job_that_ran_between_two_looks_is_told_by_its_ends() -> None:
    fast = job("COLLECT", "DONE", steps=(Step(name="visit", status="done", seconds=1.25),), finished_at=NOW)
    assert told(Snapshot(), showing(fast)) == [
        ("job.enqueued", "corner-bakery    COLLECT   enqueued"),
        ("step", "corner-bakery    COLLECT   ✓ visit 1.2 s"),
        ("job.ended", "corner-bakery    COLLECT   ✓ DONE after 4.0 s"),
    ]


def test_a_change_is_told_once() -> None:
    running = showing(COLLECT_DONE, VISION_RUNS)
    assert told(running, running) == []


def test_a_failed_attempt_and_the_next_one_are_told() -> None:
    failed = job("COLLECT", "PENDING", reason="OSError: no", due=NOW + timedelta(seconds=5))
    again = job("COLLECT", "RUNNING", attempt=2, run_no=2)
    assert told(showing(job("COLLECT", "RUNNING")), showing(failed)) == [
        ("job.waits", "corner-bakery    COLLECT   ◷ runs again in 5 s (attempt 2 of 5): OSError: no")
    ]
    assert told(showing(failed), showing(again)) == [
        ("job.again", "corner-bakery    COLLECT   runs again, attempt 2 of 5")
    ]


def test_the_death_of_ai_check_is_said_to_be_right() -> None:
    died = job("AI_CHECK", "DEAD", run=None, attempt=2, reason="UnknownJobType: nobody")
    (entry,) = changes(showing(job("AI_CHECK", "PENDING", run=None)), showing(died), style=PLAIN, now=NOW)
    assert "DEAD after 2 attempts: UnknownJobType: nobody" in PLAIN.render(entry.lines[0])
    assert "as it should" in PLAIN.render(entry.lines[1])


def pipeline(**results: Any) -> Pipeline:
    jobs = [
        job(stage, "DONE", number=number, result=results.get(stage, {}), finished_at=NOW)
        for number, stage in enumerate(("COLLECT", "VISION", "COPY", "BUILD", "PUBLISH"))
    ]
    return Pipeline(run=RUN, jobs=tuple(jobs))


def channel(name: str, status: str, reason: str | None = None) -> dict[str, object]:
    return {"channel": name, "status": status, "reason": reason}


def test_a_summary_counts_channels_by_kind_and_names_what_failed() -> None:
    ended = pipeline(
        COLLECT={
            "name": "The Corner Bakery",
            "channels": [
                channel("pages", "ok"),
                channel("robots", "ok"),
                channel("feed", "empty"),
                channel("sitemap", "failed", "dns: no such host"),
                channel("menu", "failed", "timeout: 2 s"),
                channel("contact", "failed", "timeout: 2 s"),
            ],
        },
        VISION={"pictures": [{"url": "http://x/a.png"}, {"url": "http://x/b.png", "problem": "torn"}]},
        COPY={"source": "provider"},
        PUBLISH={"current": "/srv/sites/corner-bakery/public/current"},
    )
    entry = summary(ended, style=PLAIN, now=NOW)
    assert texts(list(entry.lines)) == [
        "✓ corner-bakery (The Corner Bakery) is published, in 4.0 s",
        "    channels 2 ok, 1 empty, 3 failed: dns (sitemap), timeout (menu, contact)",
        "    images   1 looked at, 0 described, 1 unusable (b.png)",
        "    copy     written by the language model",
        "    page     /srv/sites/corner-bakery/public/current/index.html",
    ]
    assert entry.document()["channels"] == {
        "ok": ["pages", "robots"],
        "empty": ["feed"],
        "dns": ["sitemap"],
        "timeout": ["menu", "contact"],
    }


@pytest.mark.parametrize("strange", [{}, {"channels": "none"}, {"channels": [1, {"status": None}]}])
def test_a_summary_of_unexpected_results_breaks_nothing(strange: Mapping[str, object]) -> None:
    entry = summary(pipeline(COLLECT=strange, PUBLISH={"current": 7}), style=PLAIN, now=NOW)
    assert "is published" in PLAIN.render(entry.lines[0])


def test_a_summary_of_a_pipeline_that_died_says_where_and_why() -> None:
    died = Pipeline(run=RUN, jobs=(job("COLLECT", "DEAD", reason="Fail: no channel gave a fact"),))
    shown = PLAIN.render(summary(died, style=PLAIN, now=NOW).lines[0])
    assert "corner-bakery DEAD in COLLECT" in shown
    assert shown.endswith("Fail: no channel gave a fact")


def test_a_run_that_gives_way_to_a_newer_one_is_no_death() -> None:
    tally = Tally()
    tally.count(Pipeline(run=RUN, jobs=(COLLECT_DONE, job("VISION", "CANCELLED", number=1))))
    tally.count(Pipeline(run=RUN, jobs=(job("COLLECT", "DEAD"),)))
    assert (tally.published, tally.cancelled, tally.died) == (0, 1, ["corner-bakery"])


def test_a_degraded_copy_says_so() -> None:
    jobs = (
        *pipeline().jobs[:2],
        job("COPY", "DONE", result={"source": "facts"}, degraded=("the model is away",)),
    )
    shown = texts(list(summary(Pipeline(run=RUN, jobs=jobs), style=PLAIN, now=NOW).lines))
    assert "    copy     degraded: the model is away" in shown


def row(**fields: object) -> dict[str, Any]:
    given: dict[str, Any] = dict.fromkeys(
        ("subject", "payload", "result", "progress", "last_error", "run_after", "finished_at")
    )
    counts = {"attempts": 1, "max_attempts": 5, "run_no": 1, "degraded": [], "created_at": NOW}
    return {**given, **counts, "job_id": UUID(RUN), "job_type": "COLLECT", "status": "DONE", **fields}


def test_a_job_is_read_from_its_row() -> None:
    steps = [
        {"name": "visit", "status": "done", "started_at": NOW.isoformat(), "finished_at": NOW.isoformat()}
    ]
    seen = job_seen(row(progress=json.dumps({"steps": steps}), last_error="OSError: no\nTraceback"))
    assert (seen.run, seen.reason) == (RUN, "OSError: no")
    assert seen.steps == (Step(name="visit", status="done", seconds=0.0),)
    assert job_seen(row(job_type="VISION", payload='{"run": "r-1"}')).run == "r-1"


@pytest.mark.parametrize("payload", ["null", "[]", '{"run": 7}', "{}"])
def test_a_job_whose_payload_names_no_run_belongs_to_no_pipeline(payload: str) -> None:
    assert job_seen(row(job_type="VISION", payload=payload)).run is None


def test_a_long_line_is_broken_at_its_spaces_under_its_text() -> None:
    labelled = (Span("    "), Span("channels "), *line("one two three four five six"))
    shown = texts(wrapped(labelled, 30))
    assert shown == ["    channels one two three", "          four five six"]


def test_what_is_for_copying_is_never_broken() -> None:
    command = "psql --with many words that go beyond the width"
    shown = wrapped(line("look ", whole(command)), 20)
    assert any(piece.text == command for one in shown for piece in one)


class Terminal(io.StringIO):
    """Knows what a terminal would show: new lines, the way up, and clearing below."""

    def isatty(self) -> bool:
        return True

    def shown(self) -> list[str]:
        lines, at = [""], 0
        for part in re.findall(r"\x1b\[\d*[A-Zm]|\r|\n|[^\x1b\r\n]+", self.getvalue()):
            if part == "\n":
                at += 1
                lines += [""] * (at + 1 - len(lines))
            elif part.endswith("A") and part[0] == "\x1b":
                at -= int(part[2:-1])
            elif part == "\x1b[J":
                lines[at:] = [""]
            elif part[0] not in "\x1b\r":
                lines[at] += part
        return lines


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((80, 24)))
    return Terminal()


def test_a_live_screen_keeps_what_was_said_and_draws_the_frame_anew(terminal: Terminal) -> None:
    screen = LiveScreen(terminal, PLAIN)
    screen.write([note("a", line("said first"))], [line("frame 1"), line("footer 1")])
    screen.write([], [line("frame 2"), line("more"), line("footer 2")])
    screen.write([note("b", line("said later"))], [line("footer 3")])
    assert terminal.shown() == ["said first", "said later", "footer 3", ""]
    screen.write([])
    assert terminal.shown() == ["said first", "said later", ""]


def test_a_live_screen_writes_nothing_where_nothing_has_changed(terminal: Terminal) -> None:
    screen = LiveScreen(terminal, PLAIN)
    screen.write([], [line("frame")])
    before = terminal.getvalue()
    screen.write([], [line("frame")])
    assert terminal.getvalue() == before


def test_a_narrower_terminal_is_cleared_of_all_of_the_old_frame(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = LiveScreen(terminal, PLAIN)
    screen.write([], [line("x" * 70)])
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((30, 24)))
    screen.write([], [line("y")])
    assert "\x1b[3A" in terminal.getvalue()


def test_plain_lines_have_the_time_in_front() -> None:
    stream = io.StringIO()
    PlainScreen(stream, PLAIN, lambda: NOW).write([note("a", line("first"), line("  second"))])
    first, second = stream.getvalue().splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d  first", first)
    assert second == " " * 12 + "second"


def test_json_is_one_object_a_line() -> None:
    stream = io.StringIO()
    JsonScreen(stream, lambda: NOW).write([note("a", line("x"), place=MOVES_THE_CURSOR)])
    (only,) = stream.getvalue().splitlines()
    assert json.loads(only) == {"at": NOW.isoformat(), "event": "a", "place": MOVES_THE_CURSOR}


@pytest.mark.parametrize(
    ("environ", "kind", "colours"),
    [
        ({"TERM": "xterm"}, LiveScreen, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, LiveScreen, False),
        ({"TERM": "dumb"}, PlainScreen, False),
        ({}, PlainScreen, False),
    ],
)
def test_the_terminal_and_the_environment_choose_the_screen(
    environ: Mapping[str, str], kind: type, colours: bool
) -> None:
    screen = screen_for(Terminal(), environ, as_json=False, clock=lambda: NOW)
    assert (type(screen), screen.style.colours) == (kind, colours)


def test_what_is_no_terminal_gets_lines_and_a_program_json() -> None:
    environ = {"TERM": "xterm"}
    assert type(screen_for(io.StringIO(), environ, as_json=False, clock=lambda: NOW)) is PlainScreen
    assert type(screen_for(Terminal(), environ, as_json=True, clock=lambda: NOW)) is JsonScreen


def test_colours_are_put_round_texts_and_taken_back() -> None:
    assert Style(colours=True, symbols=True).render(line(span("x", "bad"), "y")) == "\x1b[31mx\x1b[0my"
