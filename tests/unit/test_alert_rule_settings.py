"""What a rule may be set to: what it can go by, and nothing that would do nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wakeful.core.alert_rules import RESERVED_KINDS, TAKES, alert_problems
from wakeful.core.alert_settings import RuleSettings
from wakeful.core.settings import Settings
from wakeful.outbox import specimens
from wakeful.outbox.rules import RULES

EVENTS = {"job_dead", "job_failed", "never_finishes"}


def problems(**rules: RuleSettings) -> list[tuple[str, str]]:
    return [(paths[0], what) for paths, what in alert_problems(Settings(rules=rules))]


def test_every_rule_is_known_with_its_threshold() -> None:
    assert set(TAKES) == {rule.name for rule in RULES} | EVENTS
    assert set(specimens.names()) <= set(TAKES)
    for rule in RULES:
        assert TAKES[rule.name] & {"over", "least"} == {"over" if rule.least is None else "least"}
    assert set(TAKES) < RESERVED_KINDS


@pytest.mark.parametrize("name", sorted(TAKES))
def test_a_rule_takes_what_it_goes_by_and_says_so_of_the_rest(name: str) -> None:
    given = {"over": 60.0, "least": 5, "queues": ("q",), "job_types": ("T",)}
    for key, value in given.items():
        found = problems(**{name: RuleSettings(**{key: value})})  # type: ignore[arg-type]
        if key in TAKES[name]:
            assert found == []
        else:
            ((path, text),) = found
            assert path == f"rules.{name}.{key}"
            assert text.startswith(f"the rule {name} does not take it: it ")


def test_a_threshold_of_something_that_is_no_rule_is_a_mistake() -> None:
    ((path, text),) = problems(quue_stalled=RuleSettings(over=60.0))
    assert path == "rules.quue_stalled.over"
    assert "did you mean 'queue_stalled'?" in text
    assert problems(publish_failed=RuleSettings(severity="critical", queues=("q",), job_types=("T",))) == []


@pytest.mark.parametrize(
    "name", ["queue_stalld", "queue-stalled", "no_workers", "rescue", "job_ded", "overun"]
)
def test_a_name_that_is_nearly_a_rules_is_a_mistake(name: str) -> None:
    for rules, where in (
        ({name: RuleSettings(off=True)}, f"rules.{name}"),
        ({"mail": RuleSettings(rule=name)}, "rules.mail.rule"),
    ):
        ((path, text),) = problems(**rules)
        assert (path, "did you mean" in text) == (where, True)


def test_two_sections_about_the_same_are_a_mistake() -> None:
    mail = RuleSettings(rule="job_dead", queues=("mail", "post"), severity="critical")
    for name, first, second in (
        ("job_dead", RuleSettings(off=True), RuleSettings(rule="job_dead", severity="critical")),
        ("mail", mail, replace(mail, queues=("post", "mail"), severity=None, off=True)),
    ):
        ((path, text),) = problems(**{name: first, "other": second})
        assert path == "rules.other"
        assert "the same as rules." in text
    assert problems(job_dead=RuleSettings(off=True), mail=mail, post=replace(mail, queues=("post",))) == []


def test_what_can_be_the_kind_of_no_alert_is_a_mistake_and_ones_own_kind_is_none() -> None:
    ((path, text),) = problems(**{"The Mail": RuleSettings(severity="critical")})
    assert path == "rules.The Mail"
    assert 'rule = "' in text
    for own in ("shop.job_dead", "mail_failed", "job_late", "sink_full"):
        assert problems(**{own: RuleSettings(off=True)}) == []


@pytest.mark.parametrize("name", ["loop_blocked", "clock_skew"])
def test_what_is_never_noted_can_be_no_threshold(name: str) -> None:
    ((path, text),) = problems(mine=RuleSettings(rule=name, over=0.1))
    assert (path, "less than 500ms" in text) == ("rules.mine.over", True)
