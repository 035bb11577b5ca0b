"""Who hears of an alert, and when: the pure part, with times of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from wakeful.config import load
from wakeful.core.alert_settings import AlertSettings, RouteSettings, RuleSettings
from wakeful.core.quiet_hours import quiet_hours
from wakeful.errors import ConfigError
from wakeful.outbox.message import Composer, entries_of
from wakeful.outbox.policy import Brake, Decision, Gather, Hold, Policy, Say, Wait, decide
from wakeful.store.alerts import Looked, Notice, Story
from wakeful.telemetry.redaction import Redactor

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
SINKS = ("team", "shop", "oncall")
LOOKED = Looked(
    alert_id=1,
    dedupe_key="job_dead:COLLECT:ValueError",
    kind="job_dead",
    job_type="COLLECT",
    fingerprint="COLLECT:ValueError",
    title="COLLECT died",
    severity="error",
    subject="place 9",
    job_id=None,
    occurrences=3,
    first_seen=NOON - timedelta(minutes=1),
    last_seen=NOON,
    lasting=False,
    state="open",
    opened_at=NOON - timedelta(minutes=1),
    resolved_at=None,
    resolved_reason=None,
    queue="mail",
    job_owner=None,
    muted_until=None,
    now=NOON,
)
TOLD = Notice(told_as="opened", told_at=NOON - timedelta(minutes=1), occurrences=3, held_until=None)


def decided(
    looked: Looked = LOOKED,
    *,
    notice: Notice | None = None,
    route: RouteSettings | None = None,
    cards: int = 0,
) -> Decision:
    policy = Policy(alerts=AlertSettings(), routes={} if route is None else {"team": route})
    brake = Brake(window_from=NOON, cards=cards, waiting=0)
    return decide(policy, looked, "team", notice, brake)


@pytest.mark.parametrize(
    ("owner", "heard_by"),
    [("shop", {"team", "shop"}), ("other", {"team"}), (None, {"team", "oncall"})],
)
def test_a_sink_hears_of_the_owners_that_it_names(owner: str | None, heard_by: set[str]) -> None:
    policy = Policy(routes={"shop": RouteSettings(owners=("shop",)), "oncall": RouteSettings(owners=("-",))})
    assert set(policy.sinks_for(replace(LOOKED, job_owner=owner), SINKS)) == heard_by


def test_an_alert_whose_owner_has_no_sink_goes_to_every_one_but_below_no_floor() -> None:
    policy = Policy(
        routes={
            "team": RouteSettings(owners=("a",)),
            "shop": RouteSettings(owners=("b",), severity="critical"),
            "oncall": RouteSettings(after=900.0),
        }
    )
    assert policy.sinks_for(replace(LOOKED, job_owner="nobody"), SINKS) == ("team", "oncall")


def test_a_rule_may_name_its_sinks_its_severity_or_nobody() -> None:
    named = RuleSettings(rule="job_dead", queues=("mail",), sinks=("oncall",), severity="critical")
    policy = Policy(rules={"job_dead": RuleSettings(off=True), "mail": named})

    assert policy.sinks_for(LOOKED, SINKS) == ("oncall",)
    assert policy.severity(LOOKED) == "critical"
    assert policy.sinks_for(replace(LOOKED, queue="other"), SINKS) == ()


@pytest.mark.case("F70")
def test_a_sink_never_hears_of_its_own_failing() -> None:
    looked = replace(LOOKED, kind="sink_failing", subject="team")
    assert Policy().sinks_for(looked, SINKS) == ("shop", "oncall")
    assert Policy().sinks_for(looked, ("team",)) == ()


@pytest.mark.parametrize(
    ("changes", "notice", "decision"),
    [
        ({}, None, Say("opened", NOON + timedelta(hours=4))),
        ({"opened_at": NOON}, None, Wait(NOON + timedelta(seconds=10))),
        ({"state": "acknowledged"}, None, Wait(None)),
        ({"state": "resolved", "lasting": True}, None, Wait(None)),
        ({"state": "resolved"}, None, Say("opened", NOON)),
        ({}, TOLD, Wait(NOON + timedelta(hours=4, minutes=-1))),
        ({"occurrences": 4}, TOLD, Wait(NOON + timedelta(minutes=4))),
        ({"state": "resolved"}, TOLD, Say("resolved", None)),
        ({"state": "resolved"}, replace(TOLD, told_as="resolved"), Wait(None)),
        ({"state": "resolved"}, replace(TOLD, pending=True), Wait(NOON + timedelta(seconds=10))),
        ({"muted_until": NOON + timedelta(hours=1)}, None, Wait(NOON + timedelta(hours=1))),
        ({"muted_until": NOON + timedelta(hours=1), "state": "resolved"}, None, Wait(None)),
    ],
)
def test_what_is_said_next_follows_from_what_was_said(
    changes: dict[str, object], notice: Notice | None, decision: Decision
) -> None:
    assert decided(replace(LOOKED, **changes), notice=notice) == decision  # type: ignore[arg-type]


def test_what_is_small_waits_for_the_next_digest_and_is_in_it() -> None:
    route = RouteSettings(digest="warning")
    small = replace(LOOKED, severity="warning", now=NOON + timedelta(minutes=20))
    until = NOON + timedelta(hours=1)
    assert decided(small, route=route) == Hold(until)

    held = Notice(told_as=None, told_at=None, occurrences=0, held_until=until)
    assert decided(small, route=route, notice=held) == Hold(until)
    due = replace(small, now=until)
    assert isinstance(decided(due, route=route, notice=held), Gather)
    assert decided(replace(due, state="resolved"), route=route, notice=held) == Gather("resolved", None)
    assert isinstance(decided(replace(small, severity="error"), route=route), Say)


def test_a_brake_lets_so_many_through_in_a_window_and_counts_what_was_not_taken() -> None:
    assert decided(cards=20) == Hold(NOON + timedelta(minutes=1))
    assert isinstance(decided(cards=19), Say)
    assert isinstance(decided(cards=99, route=RouteSettings(most=0)), Say)
    full = Brake(window_from=NOON - timedelta(minutes=2), cards=20, waiting=20)
    assert full.take(RouteSettings(), NOON) == NOON + timedelta(minutes=1)
    full.waiting = 0
    assert full.take(RouteSettings(), NOON) is None


def test_in_quiet_hours_only_what_is_critical_is_told() -> None:
    route = RouteSettings(quiet_hours="11:00-13:30")
    assert decided(route=route) == Wait(NOON + timedelta(minutes=90))
    assert isinstance(decided(replace(LOOKED, severity="critical"), route=route), Say)


@pytest.mark.parametrize(
    ("span", "zone", "at", "over"),
    [
        ("22:00-07:00", "UTC", "2026-12-01T23:30", "2026-12-02T07:00"),
        ("22:00-07:00", "UTC", "2026-12-02T06:59", "2026-12-02T07:00"),
        ("22:00-07:00", "UTC", "2026-12-02T07:00", None),
        ("22:00-07:00", "Europe/Berlin", "2026-12-01T21:30", "2026-12-02T06:00"),
        ("22:00-07:00", "Europe/Berlin", "2026-07-01T20:30", "2026-07-02T05:00"),
        ("00:00-23:59", "UTC", "2026-12-01T12:00", "2026-12-01T23:59"),
        # The hour that there is twice when clocks are put back, and the one that there is not.
        ("22:00-02:30", "Europe/Berlin", "2026-10-25T00:10", "2026-10-25T01:30"),
        ("22:00-02:30", "Europe/Berlin", "2026-10-25T01:10", "2026-10-25T01:30"),
        ("22:00-02:30", "Europe/Berlin", "2026-10-25T01:30", None),
        ("22:00-02:30", "Europe/Berlin", "2026-03-29T00:50", "2026-03-29T01:30"),
    ],
)
def test_quiet_hours_go_over_midnight_and_by_the_time_of_their_zone(
    span: str, zone: str, at: str, over: str | None
) -> None:
    expected = None if over is None else datetime.fromisoformat(f"{over}+00:00")
    assert quiet_hours(span, zone).over_at(datetime.fromisoformat(f"{at}+00:00")) == expected


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        (
            {"WAKEFUL__ROUTES__LOG__QUIET_HOURS": "22-7"},
            "routes.log.quiet_hours: '22-7' is no span of the day",
        ),
        ({"WAKEFUL__ROUTES__LOG__QUIET_HOURS": "22:00-22:00"}, "is no span of the day"),
        (
            {"WAKEFUL__ROUTES__LOG__QUIET_HOURS": "22:00-07:00", "WAKEFUL__ROUTES__LOG__ZONE": "Nowhere"},
            "'Nowhere' is not a time zone",
        ),
        ({"WAKEFUL__ROUTES__TEAM__AFTER": "1m"}, "there is no sink team"),
        ({"WAKEFUL__RULES__JOB_DEAD__SINKS": "team"}, "there is no sink team"),
        ({"WAKEFUL__ALERTS__PUBLIC_URL": "wakeful.example.com"}, "alerts.public_url: must be an address"),
    ],
)
def test_settings_that_make_no_sense_are_told(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(environ=environ)

    assert any(problem in one for one in refused.value.problems), refused.value.problems


def test_a_card_has_what_people_need_and_nothing_secret() -> None:
    redactor = Redactor()
    redactor.add("s3cr3t")
    composer = Composer(
        settings=AlertSettings(
            environment="production", public_url="https://w.example.com/", link_key="k" * 32
        ),
        redactor=redactor,
    )
    story = Story(
        body_text='{"attempts": 5, "max_attempts": 5, "last_error": "ValueError: s3cr3t\\nline two"}',
        samples_text='[{"job_id": null, "subject": "s3cr3t", "error": "e"}]',
    )
    body = composer.message("alert.opened", replace(LOOKED, title="s3cr3t"), story, severity="error")

    assert "s3cr3t" not in body
    data = json.loads(body)["data"]
    assert (data["attempts"], data["error"]) == ({"made": 5, "most": 5}, "ValueError: ***")
    assert [link["url"].partition("?")[0] for link in data["links"]] == [
        "https://w.example.com/alerts/1",
        "https://w.example.com/alerts/1/acknowledge",
        "https://w.example.com/alerts/1/mute",
    ]
    assert data["environment"] == "production"
    (entry,), more = entries_of([body])
    assert (entry["alert_id"], entry["occurrences"], more) == (1, 3, 0)
