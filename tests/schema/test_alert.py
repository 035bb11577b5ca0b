"""wakeful.alert(): an event of the producer's, in its own transaction."""

from __future__ import annotations

import json
import re
from uuid import uuid4

import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.refusals import refused
from wakeful.core.alert_rules import RESERVED_KINDS
from wakeful.handlers.buffer import alert_request


async def test_the_shortest_call_has_defaults_for_all_the_rest(sql: Connection) -> None:
    number = await sql.fetchval("select wakeful.alert('disk_full')")

    row = await sql.fetchrow("select * from wakeful.alert_outbox")
    assert row is not None
    assert row["outbox_id"] == number
    assert (row["kind"], row["title"], row["severity"], row["body"]) == (
        "disk_full",
        "disk_full",
        "warning",
        "{}",
    )
    assert (row["dedupe_key"], row["fingerprint"]) == ("disk_full:", "disk_full")
    assert row["subject"] is row["job_type"] is row["job_id"] is row["alert_id"] is None


async def test_every_option_is_kept(sql: Connection) -> None:
    job_id = uuid4()

    await sql.fetchval(
        """select wakeful.alert('publish_failed', title => 'Can''t publish', dedupe_key => 'k', severity => 'critical',
               subject => 'shop 1', body => '{"n": 12345678901234567890}', job_type => 'PUBLISH', job_id => $1)""",
        job_id,
    )

    row = await sql.fetchrow("select * from wakeful.alert_outbox")
    assert row is not None
    assert (row["title"], row["dedupe_key"], row["severity"]) == ("Can't publish", "k", "critical")
    assert (row["subject"], row["job_type"], row["job_id"]) == ("shop 1", "PUBLISH", job_id)
    assert (row["body"], row["fingerprint"]) == ('{"n": 12345678901234567890}', "PUBLISH:publish_failed")


async def test_without_a_key_occurrences_are_told_apart_by_subject_else_by_job(sql: Connection) -> None:
    job_id = uuid4()

    await sql.fetchval("select wakeful.alert('k', subject => 's', job_id => $1)", job_id)
    await sql.fetchval("select wakeful.alert('k', job_id => $1)", job_id)

    keys = [
        row[0] for row in await sql.fetch("select dedupe_key from wakeful.alert_outbox order by outbox_id")
    ]
    assert keys == ["k:s", f"k:{job_id}"]


async def test_an_alert_is_rolled_back_with_its_transaction(sql: Connection) -> None:
    transaction = sql.transaction()
    await transaction.start()
    await sql.fetchval("select wakeful.alert('k')")
    await transaction.rollback()

    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


@pytest.mark.case("I21")
async def test_alerts_with_one_key_never_wait_for_one_another(db: ClonedDatabase, sql: Connection) -> None:
    sessions = [await db.connect() for _ in range(5)]
    for session in sessions:
        await session.execute("begin")
        await session.fetchval("select wakeful.alert('k')")
    for session in sessions:
        await session.execute("commit")

    assert await eventually(lambda: sql.fetchval("select count(*) from wakeful.alert_outbox")) == 5


REFUSALS = [
    ("null", "WK020", 'alert kind "null" is not a name', "small letters"),
    ("''", "WK020", 'alert kind "" is not a name', "small letters"),
    ("'Publish Failed'", "WK020", "is not a name", "publish_failed"),
    ("'1st'", "WK020", "is not a name", "small letters"),
    (r"E'a\nb'", "WK020", "is not a name", "small letters"),
    ("repeat('a', 101)", "WK020", "is not a name", "small letters"),
    ("'k', severity => 'fatal'", "WK021", 'unknown severity "fatal"', "info, warning, error or critical"),
    ("'k', severity => null", "WK021", 'unknown severity "null"', "info, warning, error or critical"),
    ("'k', body => null", "WK022", "not a JSON object", "link"),
    ("'k', body => '[]'", "WK022", "not a JSON object", "link"),
    ("'k', body => jsonb_build_object('x', repeat('x', 65536))", "WK022", "at most 65536 bytes", "link"),
    ("'k', dedupe_key => ''", "WK001", "dedupe_key is empty", "leave the option out"),
    ("'k', dedupe_key => repeat('x', 1001)", "WK001", "dedupe_key is 1001 bytes", "Shorten"),
    ("'k', subject => ''", "WK001", "subject is empty", "leave the option out"),
    (r"'k', title => E'a\nb'", "WK001", "title contains a control character", "line breaks"),
    ("'k', title => repeat('x', 1001)", "WK001", "title is 1001 bytes", "Shorten"),
    ("'k', job_type => repeat('x', 201)", "WK001", "job_type is 201 bytes", "Shorten"),
    ("'job_dead'", "WK025", 'alert kind "job_dead" is one of Wakeful\'s own', "shop.job_dead"),
    (
        "'k', dedupe_key => 'queue_stalled:mail:SEND'",
        "WK025",
        'own alerts do: "queue_stalled:"',
        "leave it out",
    ),
    ("'k', dedupe_key => 'job_dead:'", "WK025", 'own alerts do: "job_dead:"', "leave it out"),
]


@pytest.mark.parametrize(("arguments", "sqlstate", "message", "hint"), REFUSALS)
async def test_bad_input_is_refused_with_its_code_and_a_hint(
    sql: Connection, arguments: str, sqlstate: str, message: str, hint: str
) -> None:
    with refused(sqlstate, message, hint=hint):
        await sql.execute(f"select wakeful.alert({arguments})")

    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 0


@pytest.mark.parametrize("kind", sorted(RESERVED_KINDS))
async def test_no_producer_makes_keeps_up_or_ends_an_alert_of_wakefuls_own(
    sql: Connection, kind: str
) -> None:
    with refused("WK025", "is one of Wakeful's own"):
        await sql.execute("select wakeful.alert($1)", kind)
    with refused("WK025", "dedupe_key begins as those of Wakeful's own alerts do"):
        await sql.execute("select wakeful.alert('mine', dedupe_key => $1)", f"{kind}:mail")
    with pytest.raises(ValueError, match="one of Wakeful's own"):
        alert_request(kind, title="t", severity="error", dedupe_key=None, subject=None, body={})
    with pytest.raises(ValueError, match="as those of Wakeful's own"):
        alert_request("mine", title="t", severity="error", dedupe_key=f"{kind}:", subject=None, body={})


async def test_names_that_only_look_like_wakefuls_own_are_taken(sql: Connection) -> None:
    for kind, key in (("shop.job_dead", "shop.job_dead:1"), ("job_deaf", "job_dead"), ("k", "a:job_dead:x")):
        await sql.execute("select wakeful.alert($1, dedupe_key => $2)", kind, key)

    assert await sql.fetchval("select count(*) from wakeful.alert_outbox") == 3


async def test_the_kinds_that_are_reserved_are_those_that_the_daemon_knows(sql: Connection) -> None:
    asked = [*sorted(RESERVED_KINDS), "publish_failed", "job_dead.x", ""]
    reserved = await sql.fetch(
        "select k from unnest($1::text[]) as k where wakeful.is_reserved_kind(k)", asked
    )
    named = await sql.fetchval("select prosrc from pg_proc where proname = 'is_reserved_kind'")

    assert {row["k"] for row in reserved} == RESERVED_KINDS
    assert set(re.findall(r"'(\w+)'", named)) == RESERVED_KINDS


async def test_a_body_may_hold_anything_that_json_can(sql: Connection) -> None:
    body = {"s": "</script>'\"; --", "n": [1, None, {"a": True}]}

    await sql.fetchval("select wakeful.alert('k', body => $1)", json.dumps(body))

    assert json.loads(await sql.fetchval("select body from wakeful.alert_outbox")) == body
