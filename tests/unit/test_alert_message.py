"""The stored message: whatever stands in an alert's details, there is one."""

from __future__ import annotations

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
