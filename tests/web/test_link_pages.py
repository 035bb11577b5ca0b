"""The pages behind the links of alerts, over real sockets on a real database: what they show, what a button does."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from itertools import product

import anyio
import pytest

from support import factories
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, composed, heard, store_of, take
from support.linked import FORM, SECRET, Answer, Linked, linked, linked_apart, open_alert, path_to, snapshot
from wakeful.core.links import Purpose
from wakeful.core.settings import DatabaseSettings
from wakeful.store.database import Database, open_database

NASTY = "<script>alert(1)</script>\u202e\"'&"
PAYLOAD = "value-of-the-payload"


@pytest.fixture
def said() -> Heard:
    return heard()


@pytest.fixture
async def database(db: ClonedDatabase, said: Heard) -> AsyncIterator[Database]:
    async with store_of(db, said) as opened:
        yield opened


@pytest.fixture
async def pages(database: Database) -> AsyncIterator[Linked]:
    async with linked_apart(database) as opened:
        yield opened


async def dead_job(sql: Connection, database: Database, said: Heard) -> str:
    """A job that died of an error, with its alert; gives its id."""
    job_id = await factories.job_in(sql, "DEAD", payload={"secret": PAYLOAD})
    await composed(database, said, "hook")
    return str(job_id)


async def test_an_alert_is_shown_with_what_is_known_and_no_value_of_a_payload(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    job_id = await dead_job(sql, database, said)

    answer = await pages.get(path_to("alert", 1))

    assert answer.status == 200
    for known in (
        "COLLECT died",
        "job_dead",
        "COLLECT",
        job_id,
        "ERROR",
        "production",
        "once",
        "hook: opened",
    ):
        assert known in answer.text, known
    assert "wakeful alerts ack 1" in answer.text
    assert PAYLOAD not in answer.text


async def test_a_job_is_shown_wherever_it_is_and_no_value_of_its_payload(
    sql: Connection, pages: Linked
) -> None:
    for state in ("READY", "SCHEDULED", "RUNNING", "DONE", "DEAD", "CANCELLED"):
        job_id = await factories.job_in(sql, state, payload={"secret": PAYLOAD})

        answer = await pages.get(path_to("job", job_id))

        assert answer.status == 200
        assert f"wakeful jobs show {job_id}" in answer.text
        assert {"READY": "PENDING", "SCHEDULED": "PENDING"}.get(state, state) in answer.text
        assert PAYLOAD not in answer.text


async def test_the_steps_of_a_job_are_shown_without_what_its_handler_says(
    sql: Connection, pages: Linked
) -> None:
    job_id = await factories.job_in(sql, "RUNNING")
    await sql.execute(
        """insert into wakeful.progress (job_id, run_no, document)
           select $1, run_no, '{"attempt": 1, "steps": [
               {"name": "crawl", "status": "running", "percent": 40, "message": "by-the-handler"},
               {"name": "look", "status": "pending", "percent": null}]}'
           from wakeful.ready where job_id = $1""",
        job_id,
    )

    text = (await pages.get(path_to("job", job_id))).text

    assert "crawl<small>running · 40 %" in text
    assert "look<small>pending" in text
    assert "by-the-handler" not in text


async def test_whatever_an_alert_says_is_shown_as_a_text(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    await sql.execute(
        "insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, subject, job_type, body)"
        " values ($1, $1, $1, 'error', $1, $1, jsonb_build_object('last_error', $1::text, 'queue', $1::text))",
        NASTY,
    )
    await composed(database, said, "hook")

    for purpose in ("alert", "mute", "acknowledge"):
        text = (await pages.get(path_to(purpose, 1))).text
        assert "<script" not in text and "\u202e" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;" in text
    answer = await pages.post(path_to("mute", 1), f"name={NASTY}".encode(), **FORM)
    assert answer.status == 200
    assert "<script" not in answer.text


async def test_no_secret_is_on_a_page(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    text = f'{SECRET} postgresql://u:pass-word-1@h {{"password": "x"}} password=\'p"{SECRET}\'' + "x" * 700
    await sql.execute(
        """insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, subject, body)
           select 'k', 'k', left($1, 200), 'error', left($1, 100), jsonb_build_object('last_error', $1::text)
           from generate_series(1, 3)""",
        text,
    )
    await composed(database, said, "hook")
    job_id = await factories.job_in(sql, "DEAD")
    await sql.execute("update wakeful.dead set last_error = $2, subject = $2 where job_id = $1", job_id, text)

    for path in (path_to("alert", 1), path_to("mute", 1), path_to("acknowledge", 1), path_to("job", job_id)):
        answer = await pages.get(path)
        assert (answer.status, "***" in answer.text) == (200, True)
        assert SECRET not in answer.text and "pass-word-1" not in answer.text
        assert len(answer.text) < 12_000


async def test_of_a_secret_that_the_end_of_a_title_cut_in_two_nothing_is_left(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    await sql.execute(
        """insert into wakeful.alert_outbox (kind, dedupe_key, title, severity, body)
           values ('k', 'k', repeat('x', 490) || left($1, 10), 'error', '{}')""",
        SECRET,
    )
    await composed(database, said, "hook")

    answer = await pages.get(path_to("alert", 1))

    assert "xxx***" in answer.text
    assert SECRET[:10] not in answer.text


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


async def test_a_page_has_no_script_loads_nothing_and_can_not_be_framed(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    answers = [
        await pages.get(path_to("alert", number)),
        await pages.get(path_to("mute", number)),
        await pages.get("/alerts/1"),
        await pages.get(path_to("alert", 99)),
        await pages.get(path_to("alert", number, seconds=-1)),
    ]

    assert [one.status for one in answers] == [200, 200, 403, 404, 410]
    for answer in answers:
        (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
        digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = set(answer.headers["Content-Security-Policy"].split("; "))
        assert policy == {
            *("default-src 'none'", f"style-src 'sha256-{digest}'", "form-action 'self'"),
            *("base-uri 'none'", "frame-ancestors 'none'"),
        }
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        page = Tags(answer.text)
        assert not page.tags & {"script", "img", "link", "iframe", "object", "a"}
        assert not [
            name
            for name in page.attributes
            if name.startswith("on") or name in ("src", "href", "style", "action")
        ]


async def test_what_follows_links_changes_nothing(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    """Scanners of mail and previews of chats ask for every link, and follow what a page leads to."""
    number = await open_alert(sql, database, said)
    before = await snapshot(sql)
    purposes: tuple[Purpose, ...] = ("alert", "mute", "acknowledge")

    for method, purpose in product(("GET", "HEAD"), purposes):
        answer = await pages.request(method, path_to(purpose, number))
        assert answer.status == 200
        assert (answer.text == "") == (method == "HEAD")
        assert ('<form method="post">' in answer.text) == (method == "GET" and purpose != "alert")

    assert await snapshot(sql) == before


async def test_mute_is_for_an_hour_of_what_is_like_it_in_a_name_and_says_how_to_take_it_back(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    await dead_job(sql, database, said)
    await sql.execute("update wakeful.alert set subject = 'place 9'")

    answer = await pages.post(path_to("mute", 1), b"name=+Kim%0A%E2%80%AE+Lee+", **FORM)

    row = await sql.fetchrow(
        """select mute_id, kind, job_type, queue, subject, reason, muted_by,
                  until between now() + interval '59 min' and now() + interval '60 min' as due
           from wakeful.alert_mute"""
    )
    assert row is not None
    assert tuple(row) == (
        1,
        "job_dead",
        "COLLECT",
        None,
        "place 9",
        "by a link in the message",
        "Kim Lee (link)",
        True,
    )
    assert answer.status == 200
    assert "alerts of kind job_dead about job type COLLECT and place 9 alone" in answer.text
    assert "wakeful alerts unmute 1" in answer.text
    entry = await sql.fetchrow("select action, object, detail ->> 'by' as who from wakeful.audit")
    assert entry is not None
    assert tuple(entry) == ("mute", "mute 1", "Kim Lee (link)")

    assert len(await take(sql)) == 1
    await sql.executemany(
        """insert into wakeful.alert_outbox (kind, dedupe_key, job_type, subject, title, severity, body)
           values ('job_dead', $1, 'COLLECT', $2, $1, 'error', '{}')""",
        [("muted", "place 9"), ("told", "place 10")],
    )
    await composed(database, said, "hook")
    assert [message["data"]["title"] for message in await take(sql)] == ["told"]


async def test_to_press_twice_or_at_once_mutes_once(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    answers: list[Answer] = []

    async def press() -> None:
        answers.append(await pages.post(path_to("mute", number)))

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(press)
    answers.append(await pages.post(path_to("mute", number), b"name=another", **FORM))

    assert [one.status for one in answers] == [200] * 7
    rows = await sql.fetch("select mute_id, muted_by from wakeful.alert_mute")
    assert [row["muted_by"] for row in rows] == ["link"]
    assert sum("It was muted already" in one.text for one in answers) == 6
    assert all(f"wakeful alerts unmute {rows[0]['mute_id']}" in one.text for one in answers)
    assert await sql.fetchval("select count(*) from wakeful.audit where action = 'mute'") == 1


async def test_a_mute_that_was_taken_back_is_made_anew(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    await pages.post(path_to("mute", number))
    await sql.execute("select wakeful.unmute(mute_id) from wakeful.alert_mute")

    await pages.post(path_to("mute", number))

    assert await sql.fetchval("select count(*) from wakeful.alert_mute where ended_at is null") == 1


async def test_an_alert_without_a_job_type_is_muted_by_its_queue(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    await sql.execute("select wakeful.alert('odd_rate', body => '{\"queue\": \"mail\"}')")
    await composed(database, said, "hook")

    asked = await pages.get(path_to("mute", 1))
    await pages.post(path_to("mute", 1))

    assert "alerts of kind odd_rate about queue mail" in asked.text
    row = await sql.fetchrow("select kind, job_type, queue, subject from wakeful.alert_mute")
    assert row is not None
    assert tuple(row) == ("odd_rate", None, "mail", None)


async def test_a_daemon_that_may_only_what_a_worker_may_shows_mutes_and_acknowledges(
    db: ClonedDatabase, sql: Connection, database: Database, said: Heard
) -> None:
    job_id = await dead_job(sql, database, said)
    await sql.execute("create role worker_of_link_test login in role wakeful_worker")
    try:
        settings = DatabaseSettings(dsn=db.dsn_as("worker_of_link_test"))
        async with open_database(settings, said.telemetry) as lesser, linked(lesser) as pages:
            answers = [
                await pages.get(path_to("alert", 1)),
                await pages.get(path_to("job", job_id)),
                await pages.post(path_to("mute", 1)),
                await pages.post(path_to("acknowledge", 1)),
            ]
    finally:
        await sql.execute("drop role worker_of_link_test")

    assert [one.status for one in answers] == [200] * 4
    assert await sql.fetchval("select state from wakeful.alert") == "acknowledged"
    assert await sql.fetchval("select count(*) from wakeful.alert_mute") == 1


async def test_acknowledge_takes_it_on_once_and_says_who_did(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)

    first = await pages.post(path_to("acknowledge", number), "name=김하나".encode(), **FORM)
    second = await pages.post(path_to("acknowledge", number), b"name=Lee", **FORM)
    asked = await pages.get(path_to("acknowledge", number))

    row = await sql.fetchrow("select state, acknowledged_by from wakeful.alert")
    assert row is not None
    assert tuple(row) == ("acknowledged", "김하나 (link)")
    assert "김하나 (link)" in first.text and f"wakeful alerts resolve {number}" in first.text
    for later in (second, asked):
        assert "Somebody has acknowledged it already" in later.text and "김하나 (link)" in later.text
        assert "<form" not in later.text
    assert await sql.fetchval("select count(*) from wakeful.audit where action = 'acknowledge'") == 1


async def test_what_is_over_is_not_acknowledged(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    await sql.execute("select wakeful.resolve($1)", number)

    answer = await pages.post(path_to("acknowledge", number))

    assert (answer.status, "It is over" in answer.text) == (200, True)
    assert await sql.fetchval("select state from wakeful.alert") == "resolved"
