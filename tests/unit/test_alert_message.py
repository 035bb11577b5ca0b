"""The stored message: whatever stands in an alert's details, there is one."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from wakeful.core import jsontext
from wakeful.core.alert_settings import AlertSettings
from wakeful.outbox.cards.document import read
from wakeful.outbox.message import UNREADABLE, Composer
from wakeful.store.alerts import Looked, Story
from wakeful.telemetry.redaction import Redactor

NOW = datetime(2026, 12, 1, tzinfo=UTC)
LOOKED = Looked(
    alert_id=7,
    dedupe_key="a",
    kind="trouble",
    job_type=None,
    fingerprint=None,
    title="trouble",
    severity="error",
    subject=None,
    job_id=None,
    occurrences=1,
    first_seen=NOW,
    last_seen=NOW,
    lasting=False,
    state="open",
    opened_at=NOW,
    resolved_at=None,
    resolved_reason=None,
    queue=None,
    job_owner=None,
    muted_until=None,
    now=NOW,
)


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")])
def test_details_of_any_depth_give_a_message(begin: str, end: str) -> None:
    """Also of that at which they can just be written by themselves, but not within a message, with an exact number."""
    composer = Composer(settings=AlertSettings(), redactor=Redactor())
    carried = []
    for depth in (1, *range(380, 560), 5000):
        details = f'{{"a":{begin * depth}1.00000000000000000000000001{end * depth}}}'
        story = Story(body_text=details, samples_text="[]")

        text = composer.message("alert.opened", LOOKED, story, severity="error")

        assert read(text).notice.title == "trouble"
        message = jsontext.loads(text)
        assert isinstance(message, dict)
        carried.append(message["data"]["details"] != UNREADABLE)
    assert (carried[0], carried[-1]) == (True, False)


SECRET = "geheim-geheim-0123456789"
CUT_IN = ["title", "last_error", "sample", "sample_title"]


@pytest.mark.parametrize("where", CUT_IN)
def test_no_half_of_a_secret_is_in_a_message_wherever_a_text_was_cut(where: str) -> None:
    """`depart()` leaves 500 characters of a title and 2,000 of an error; a message shows 500 bytes of a line."""
    composer = Composer(settings=AlertSettings(), redactor=Redactor((SECRET,)))
    limit = 2000 if where == "last_error" else 500
    for before in range(limit - len(SECRET) - 2, limit + 2):
        text = "x" * (before - 1) + " " + SECRET + " and more"
        stored = text if where == "sample" else text[:limit]
        looked = replace(LOOKED, title=stored if where == "title" else "trouble")
        body = {"last_error": stored} if where == "last_error" else {}
        samples = [{"job_id": None, "subject": None, "error": stored}] if where.startswith("sample") else []
        story = Story(body_text=json.dumps(body), samples_text=json.dumps(samples))

        message = composer.message("alert.opened", looked, story, severity="error")
        entry = str(composer.entry(looked, severity="error"))

        assert [size for size in range(4, len(SECRET)) if SECRET[:size] in message + entry] == [], before


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the password=hunter2 and more", "the password=*** and more"),
        ("dsn postgresql://app:hunt", "dsn postgresql://app:***"),
        ("with password='hunter 2 is", "with password=***"),
        ("x geheim-geh…[cut]", "x ***…[cut]"),
        ("x geheim-\n  …[cut]…\n9876543210 y 0123456789 z", "x ***\n  …[cut]…\n9876543210 y 0123456789 z"),
        ("start\n  …[cut]…\nheim-0123456789 z", "start\n  …[cut]…\n*** z"),
        ("nothing gehe", "nothing ***"),
        ("nothing geh", "nothing geh"),
        ("", ""),
    ],
)
def test_what_is_left_of_a_secret_at_a_cut_is_hidden(text: str, shown: str) -> None:
    assert Redactor((SECRET,)).cut(text) == shown


def test_the_samples_of_an_alert_are_whole_until_their_secrets_are_hidden() -> None:
    composer = Composer(settings=AlertSettings(), redactor=Redactor((SECRET,)))
    error = f"{SECRET} " * 100 + "the end"
    samples = json.dumps([{"job_id": "1", "subject": f"s {SECRET}", "error": error}])
    text = composer.message(
        "alert.opened", LOOKED, Story(body_text="{}", samples_text=samples), severity="error"
    )

    (sample,) = json.loads(text)["data"]["samples"]
    assert sample == {"job_id": "1", "subject": "s ***", "error": "*** " * 100 + "the end"}
