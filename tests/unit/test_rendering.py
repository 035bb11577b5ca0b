"""`alerts render` in all its forms: what each kind of sink would send of each rule, and without its key."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import get_args

import anyio
import pytest

from support.card_rules import discord_problems, pagerduty_problems, slack_problems, teams_problems
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.secrets import HIDDEN
from wakeful.core.settings import SinkKind, SinkSettings
from wakeful.outbox.rendering import rendered
from wakeful.outbox.rules import RULES
from wakeful.outbox.specimens import names, specimen_of
from wakeful.telemetry.redaction import Redactor

KEY = "R0UT1NGKEY-of-somebody"
NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
ALERTS = AlertSettings(public_url="https://wakeful.example.com", link_key="k" * 32, environment="production")
KINDS: tuple[SinkKind, ...] = get_args(SinkKind)
PROBLEMS: dict[str, Callable[[bytes], list[str]]] = {
    "teams": teams_problems,
    "slack": slack_problems,
    "discord": discord_problems,
    "pagerduty": pagerduty_problems,
}


def text_of(rule: str, sink: SinkSettings) -> str:
    delivery = specimen_of(rule, ALERTS, Redactor(), now=NOW)
    return anyio.run(lambda: rendered(delivery, sink, name="team"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", names())
def test_each_rule_is_rendered_for_each_kind_of_sink(rule: str, kind: SinkKind) -> None:
    title = json.loads(specimen_of(rule, ALERTS, Redactor(), now=NOW).body)["data"]["title"]

    text = text_of(rule, SinkSettings(kind=kind, key=KEY))

    assert KEY not in text
    said = text.replace("\\", "").replace("&#x27;", "'")
    assert title[:60] in said
    if kind in PROBLEMS:
        assert (
            PROBLEMS[kind](json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")).encode())
            == []
        )
    if kind != "log":
        for button in ("alerts/0?t=", "alerts/0/mute?t=", "alerts/0/acknowledge?t="):
            assert f"https://wakeful.example.com/{button}" in said, button


def test_the_rules_are_all_that_there_are() -> None:
    assert {"job_dead", "job_failed", "never_finishes", *(rule.name for rule in RULES)} == set(names())


def test_teams_has_its_buttons_beside_the_body() -> None:
    (attachment,) = json.loads(text_of("job_dead", SinkSettings(kind="teams")))["attachments"]

    actions = attachment["content"]["actions"]
    assert [action["title"] for action in actions] == [
        "Open job",
        "Open group",
        "Acknowledge",
        "Mute an hour",
    ]
    assert {action["type"] for action in actions} == {"Action.OpenUrl"}


def test_a_letter_is_shown_with_its_headers_and_both_its_forms() -> None:
    sink = SinkSettings(kind="email", sender="A <a@b.example>", recipients=("c@d.example", "e@f.example"))

    text = text_of("job_dead", sink)

    assert "From: A <a@b.example>" in text and "To: c@d.example, e@f.example" in text
    assert "--- text/plain ---" in text and "--- text/html ---" in text
    assert "Mute an hour: https://wakeful.example.com/alerts/0/mute?t=" in text


def test_the_key_of_pagerduty_is_not_shown() -> None:
    event = json.loads(text_of("job_dead", SinkSettings(kind="pagerduty", key=KEY)))

    assert event["routing_key"] == HIDDEN
    assert [link["text"] for link in event["links"]][-1] == "Mute an hour"
