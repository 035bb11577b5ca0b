"""`wakeful alerts`: list, show, ack, resolve, mute, unmute, test, render, as processes on a real database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import factories
from support.commands import wakeful
from support.databases import ClonedDatabase, Connection
from support.dispatching import alert, composed, heard, store_of
from support.receiver import refuse, running_receiver
from wakeful.outbox.rules import RULES

NASTY = "서울 ✓ \x1b[2J\x07"


async def told(db: ClonedDatabase) -> None:
    """Fold what happened, and make its messages."""
    said = heard()
    async with store_of(db, said) as store:
        await composed(store, said, "hook")


async def test_list_shows_what_is_open_and_what_is_muted(db: ClonedDatabase, sql: Connection) -> None:
    await alert(sql, "a", times=3)
    await sql.execute("select wakeful.alert('publish_failed', dedupe_key => 'b', severity => 'critical')")
    await told(db)
    await sql.fetchval("select wakeful.resolve(alert_id) from wakeful.alert where dedupe_key = 'b'")
    await sql.fetchval("select wakeful.mute(now() + interval '1 hour', 'we know', kind => 'other')")

    ended = await wakeful("alerts", "list", db=db)

    lines = ended.out.splitlines()
    assert [line.split()[1:4] for line in lines[1:]] == [["open", "warning", "3"]]
    assert "kind other -- we know" in ended.err
    document = (await wakeful("alerts", "list", "--state", "resolved", "--json", db=db)).document()
    assert [one["kind"] for one in document["alerts"]] == ["publish_failed"]
    assert document["mutes"][0]["reason"] == "we know"
    none = (await wakeful("alerts", "list", "--type", "COLLECT", "--json", db=db)).document()
    assert none["alerts"] == []


async def test_show_tells_what_happened_last_and_what_was_sent_to_whom(
    db: ClonedDatabase, sql: Connection
) -> None:
    job_id = await factories.job_in(sql, "DEAD")
    await told(db)

    ended = await wakeful("alerts", "show", 1, db=db)
    assert "job_dead (error)" in ended.out
    assert str(job_id) in ended.out
    assert "hook  alert.opened  pending, tries: 0" in ended.out
    assert "+00:00" not in ended.out, "times are all written in one way"
    document = (await wakeful("alerts", "show", 1, "--json", db=db)).document()
    assert document["messages"][0]["sink"] == "hook"
    assert document["latest"][0]["job_id"] == str(job_id)
    missing = await wakeful("alerts", "show", 99, db=db)
    assert (missing.code, "there is no alert 99" in missing.err) == (1, True)


async def test_no_text_of_an_alert_acts_on_a_terminal(db: ClonedDatabase, sql: Connection) -> None:
    await sql.execute(
        "insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, subject, body)"
        " values ('k', $1, $1, 'error', $1, '{}')",
        NASTY,
    )
    await told(db)

    for arguments in (("list",), ("show", 1), ("list", "--json"), ("show", 1, "--json")):
        ended = await wakeful("alerts", *arguments, db=db)
        assert ended.code == 0
        assert "\x1b" not in ended.out
        assert "서울" in ended.out


async def test_ack_and_resolve_change_each_and_say_which_they_could_not(
    db: ClonedDatabase, sql: Connection
) -> None:
    for key in ("a", "b"):
        await alert(sql, key)
    await told(db)

    ended = await wakeful("alerts", "ack", 1, 99, 2, db=db)
    assert (ended.code, ended.out.splitlines()) == (
        1,
        ["alert 1: acknowledged", "alert 99: not open", "alert 2: acknowledged"],
    )
    ended = await wakeful("alerts", "resolve", 1, "--reason", "the disk was full", "--json", db=db)
    assert (ended.code, ended.document()) == (0, {"alert_id": 1, "changed": True})
    rows = await sql.fetch("select state, resolved_reason from wakeful.alert order by alert_id")
    assert [row["state"] for row in rows] == ["resolved", "acknowledged"]
    assert rows[0]["resolved_reason"].endswith(": the disk was full")
    applications = await sql.fetch("select distinct application from wakeful.audit")
    assert [row[0] for row in applications] == ["wakeful cli"]


async def test_mute_and_unmute(db: ClonedDatabase, sql: Connection) -> None:
    ended = await wakeful(
        "alerts", "mute", "--queue", "mail", "--for", "2h", "--reason", "moving", "--json", db=db
    )
    assert ended.document()["mute_id"] == 1
    row = await sql.fetchrow(
        "select queue, reason, until between now() + interval '119 min' and now() + interval '120 min' as due"
        " from wakeful.alert_mute"
    )
    assert row is not None
    assert tuple(row) == ("mail", "moving", True)
    assert (await wakeful("alerts", "unmute", 1, 7, db=db)).out.splitlines() == [
        "mute 1: taken back",
        "mute 7: not there, or over",
    ]
    refused = await wakeful("alerts", "mute", "--for", "2h", "--reason", "x", db=db)
    assert (refused.code, "name what to mute" in refused.err) == (2, True)
    refused = await wakeful("alerts", "mute", "--kind", "k", "--for", "0s", "--reason", "x", db=db)
    assert (refused.code, "WK024" in refused.err) == (1, True)


async def test_test_sends_a_real_card_and_says_that_an_answer_proves_nothing(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    async with running_receiver(otherwise=refuse(202)) as receiver:
        config = tmp_path / "config.toml"
        config.write_text(f'[sinks.team]\nkind = "webhook"\nurl = "{receiver.url}"\n')

        ended = await wakeful("alerts", "test", "team", "--config", config, db=db)

    assert (ended.code, ended.out) == (0, "team: taken: 202 Accepted\n")
    assert "proves nothing until a person has seen the card" in ended.err
    message = json.loads(receiver.received[0].body)
    assert (message["type"], message["data"]["kind"]) == ("alert.test", "test")


async def test_test_of_a_sink_that_refuses_or_is_unknown_fails_without_its_url(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    async with running_receiver(otherwise=refuse(500)) as receiver:
        config = tmp_path / "config.toml"
        config.write_text(f'[sinks.team]\nkind = "webhook"\nurl = "{receiver.url}"\n')
        ended = await wakeful("alerts", "test", "team", "--config", config, db=db)
        unknown = await wakeful("alerts", "test", "teem", "--config", config, db=db)

    assert ended.code == 1
    assert "not taken" in ended.out
    assert "SECRET" not in ended.out + ended.err
    assert (unknown.code, "there are: team" in unknown.err) == (1, True)


@pytest.mark.parametrize("rule", ["job_dead", "never_finishes", RULES[0].name])
async def test_render_prints_what_a_rule_says(db: ClonedDatabase, rule: str) -> None:
    ended = await wakeful("alerts", "render", rule, "--json", db=db)

    assert ended.code == 0
    message = json.loads(ended.out)
    assert (message["type"], message["data"]["kind"]) == ("alert.opened", rule)
    assert (await wakeful("alerts", "render", "nonsense", db=db)).code == 1


LINKS = """[alerts]
public_url = "https://wakeful.example.com"
link_key = "0123456789abcdef0123456789abcdef"
"""


async def test_render_prints_what_a_sink_would_send_and_hides_its_key(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'{LINKS}[sinks.oncall]\nkind = "pagerduty"\nkey = "R0UT1NGKEY"\n')

    ended = await wakeful("alerts", "render", "job_dead", "--sink", "oncall", "--config", config, db=db)

    assert (ended.code, ended.err) == (0, "")
    event = json.loads(ended.out)
    assert event["routing_key"] == "***"
    assert "R0UT1NGKEY" not in ended.out
    assert [link["text"] for link in event["links"]][1:] == ["Open group", "Acknowledge", "Mute an hour"]
    unknown = await wakeful("alerts", "render", "job_dead", "--sink", "team", "--config", config, db=db)
    assert (unknown.code, "there are: oncall" in unknown.err) == (1, True)
    both = await wakeful("alerts", "render", "job_dead", "--sink", "a", "--kind", "log", db=db)
    assert both.code == 2


async def test_why_there_are_no_buttons_is_said_wherever_one_would_look(
    db: ClonedDatabase, tmp_path: Path
) -> None:
    rendered = await wakeful("alerts", "render", "job_dead", "--kind", "teams", db=db)
    shown = await wakeful("config", "show", db=db)
    assert "without buttons: alerts.public_url is not set" in rendered.err
    assert "no buttons: alerts.public_url is not set" in shown.err

    config = tmp_path / "config.toml"
    config.write_text(LINKS)
    assert "have no buttons" not in (await wakeful("config", "show", "--config", config, db=db)).err
    config.write_text(LINKS + "[http]\nenabled = false\n")
    assert "http.enabled is false" in (await wakeful("config", "show", "--config", config, db=db)).err


async def test_a_test_card_has_a_link_to_try(db: ClonedDatabase, tmp_path: Path) -> None:
    async with running_receiver(otherwise=refuse(202)) as receiver:
        config = tmp_path / "config.toml"
        config.write_text(f'{LINKS}[sinks.team]\nkind = "webhook"\nurl = "{receiver.url}"\n')
        ended = await wakeful("alerts", "test", "team", "--config", config, db=db)

    assert "Try its link, too." in ended.err
    (link,) = json.loads(receiver.received[0].body)["data"]["links"]
    assert link["url"].startswith("https://wakeful.example.com/alerts/0?t=")


@pytest.mark.case("F77")
async def test_resend_sends_what_was_given_up_and_show_says_what_became_of_it(
    db: ClonedDatabase, sql: Connection
) -> None:
    for key in ("a", "b"):
        await alert(sql, key)
    await told(db)
    await sql.execute(
        "update wakeful.alert_delivery set state = 'failed', attempts = 20, last_answer = '500 Oops \x1b[2J'"
    )

    shown = await wakeful("alerts", "show", 1, db=db)
    assert "hook  alert.opened  given up, tries: 20  500 Oops" in shown.out
    assert "wakeful alerts resend 1" in shown.out
    assert "\x1b" not in shown.out
    (message,) = (await wakeful("alerts", "show", 1, "--json", db=db)).document()["messages"]
    assert (message["state"], message["attempts"]) == ("failed", 20)
    ended = await wakeful("alerts", "resend", 1, 99, db=db)
    assert ended.code == 0
    first, second = ended.out.splitlines()
    assert (first, "nothing to send" in second) == ("alert 1: 1 message will be sent", True)
    assert (await wakeful("alerts", "resend", 1, "--json", db=db)).document()["messages"] == 0
    by_sink = await wakeful("alerts", "resend", "--sink", "hook", db=db)
    assert by_sink.out == "hook: 1 message will be sent\n"
    assert (await wakeful("alerts", "resend", db=db)).code == 2
    assert await sql.fetchval(
        "select bool_and(state = 'pending' and excused = 20) from wakeful.alert_delivery"
    )


@pytest.mark.case("F77")
@pytest.mark.parametrize("status", [202, 404])
async def test_a_test_that_a_closed_sink_takes_opens_it(
    db: ClonedDatabase, sql: Connection, tmp_path: Path, status: int
) -> None:
    await sql.execute("insert into wakeful.alert_sink (sink, closed_at) values ('team', now())")
    async with running_receiver(otherwise=refuse(status)) as receiver:
        config = tmp_path / "config.toml"
        config.write_text(f'[sinks.team]\nkind = "webhook"\nurl = "{receiver.url}"\n')
        ended = await wakeful("alerts", "test", "team", "--config", config, db=db)

    closed = await sql.fetchval("select closed_at is not null from wakeful.alert_sink")
    assert (ended.code, closed, "it is open again" in ended.err) == (
        (0, False, True) if status == 202 else (1, True, False)
    )
