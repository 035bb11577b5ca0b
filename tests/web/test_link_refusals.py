"""Links that lead nowhere, and hands that are not a person's: each is refused, and costs the database nothing."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from support import factories
from support.databases import ClonedDatabase, Connection
from support.dispatching import Heard, heard, store_of
from support.linked import (
    ALERTS,
    FORM,
    PUBLIC,
    Answer,
    Linked,
    linked,
    linked_apart,
    open_alert,
    path_to,
    snapshot,
)
from support.proxy import Mode, Proxy
from wakeful.store.database import Database

PATHS = (
    *(
        "/alerts/../jobs",
        "/alerts/%2e%2e/x",
        "/alerts/1%2F..%2F2",
        "/alerts/1;x",
        "/alerts/-1",
        "/alerts/1e3",
    ),
    *(
        "/alerts/",
        "/alerts/1/resolve",
        "/jobs/1",
        "/jobs/..%5c..%5cetc",
        "/alerts/" + "9" * 40,
        "/alerts/\uff11",
    ),
    "/alerts/1\u0000",
)
FORMS: list[tuple[bytes, dict[str, str], int]] = [
    (b"name=" + b"x" * 5000, FORM, 413),
    (b"x" * 200_000, FORM, 413),
    (b'{"name": "Kim"}', {"Content_Type": "application/json"}, 415),
    (b"--b\r\n\r\n", {"Content_Type": "multipart/form-data; boundary=b"}, 415),
    (b"name=Kim", {"Content_Type": "text/plain"}, 415),
    (gzip.compress(b"name=Kim"), FORM | {"Content_Encoding": "gzip"}, 415),
]
NAMES = (b"name=%00%FF%ED%A0%80", b"&" * 4000, b"name=a&name=b", b"%", b"name=" + b"%0a" * 1000, b"\xff\xfe")
SITES: list[tuple[dict[str, str], int]] = [
    ({}, 200),
    ({"Origin": PUBLIC}, 200),
    ({"Origin": f"{PUBLIC}:443"}, 200),
    ({"Sec_Fetch_Site": "same-origin", "Origin": "http://127.0.0.1:8080"}, 200),
    ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "null"}, 403),
    ({"Origin": "http://wakeful.example.com"}, 403),
    ({"Origin": f"{PUBLIC}.evil.example"}, 403),
    ({"Origin": "https://evil.example", "Host": "evil.example"}, 403),
    ({"Sec_Fetch_Site": "cross-site", "Origin": PUBLIC}, 403),
    ({"Sec_Fetch_Site": "same-site"}, 403),
    ({"Sec_Fetch_Site": "none"}, 403),
    ({"Origin": "https://[::1"}, 403),
]


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


async def test_what_is_not_signed_gets_one_answer_whatever_exists(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    job_id = await factories.job_in(sql, "RUNNING")
    good = path_to("alert", number)
    tries = [
        f"/alerts/{number}",
        "/alerts/99",
        f"/alerts/{number}?t=",
        f"/alerts/{number}?t=1.x&t=2.y",
        good + "x",
        good.replace(f"/alerts/{number}", "/alerts/99"),
        good.replace(f"/alerts/{number}", f"/alerts/{number}/mute"),
        good + "&" + good.partition("?")[2],
        f"/jobs/{job_id}",
        "/jobs/01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21",
        path_to("alert", number, seconds=-1)[:-1] + "_",
        f"/alerts/{number}?t=" + "9" * 5000,
    ]
    before = await snapshot(sql)

    answers = [await pages.get(path) for path in tries]
    answers += [await pages.post(path) for path in tries if path.startswith("/alerts/") and "/mute" in path]

    assert {(one.status, one.text) for one in answers} == {(403, answers[0].text)}
    assert await snapshot(sql) == before


async def test_a_path_that_is_no_link_is_nothing() -> None:
    async with linked(None) as pages:
        for path in PATHS:
            answer = await pages.get(quote(path, safe="/%;"))
            assert answer.status in (400, 404), path


async def test_what_is_signed_and_can_be_the_id_of_nothing_is_nothing(pages: Linked) -> None:
    for path in (path_to("alert", "9" * 19), path_to("job", "-" * 36), path_to("job", "a" * 36)):
        assert (await pages.get(path)).status == 404
    assert (await pages.post(path_to("mute", 2**63))).status == 404


async def test_an_expired_link_says_so_and_does_nothing(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    before = await snapshot(sql)
    for purpose in ("mute", "acknowledge"):
        path = path_to(purpose, number, seconds=-1)
        answers = [await pages.get(path), await pages.post(path)]
        assert [one.status for one in answers] == [410, 410]
        assert "has expired" in answers[0].text
    assert await snapshot(sql) == before


async def test_a_good_link_to_what_was_removed_says_so(pages: Linked) -> None:
    for path in (
        path_to("alert", 99),
        path_to("job", "01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21"),
        path_to("mute", 99),
    ):
        answer = await pages.get(path)
        assert (answer.status, "past the time" in answer.text) == (404, True)
    assert (await pages.post(path_to("mute", 99))).status == 404
    assert (await pages.post(path_to("acknowledge", 99))).status == 404


async def test_only_what_a_page_is_for_is_possible(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    before = await snapshot(sql)

    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "POST"):
        assert (await pages.request(method, path_to("alert", number))).status == 405
        if method != "POST":
            assert (await pages.request(method, path_to("mute", number))).status == 405
    assert await snapshot(sql) == before


async def test_what_is_not_its_own_form_is_refused(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    for body, headers, status in FORMS:
        answer = await pages.post(path_to("mute", number), body, **headers)
        assert (answer.status, "Nothing was changed" in answer.text) == (status, True), headers
    assert await sql.fetchval("select count(*) from wakeful.alert_mute") == 0


async def test_a_body_without_a_length_is_read_no_further_than_the_form_can_be(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(50):
            yield b"name=" + b"x" * 1000

    answer = await pages.post(path_to("mute", number), chunks(), **FORM)

    assert answer.status == 413
    assert await sql.fetchval("select count(*) from wakeful.alert_mute") == 0


async def test_whatever_is_entered_is_a_name_or_none(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    for body in NAMES:
        answer = await pages.post(path_to("mute", number), body, **FORM)
        assert answer.status == 200, body
        who = await sql.fetchval("delete from wakeful.alert_mute returning muted_by")
        assert who == "link" or who.endswith(" (link)")
        assert who.isprintable() and len(who) < 90


async def test_another_site_that_holds_a_link_can_not_press_its_button(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    for headers, status in SITES:
        answer = await pages.post(path_to("mute", number), b"", **headers)
        assert answer.status == status, headers
        assert len(await sql.fetch("delete from wakeful.alert_mute returning 1")) == (status == 200)


async def test_the_host_of_a_request_is_nowhere_in_an_answer(
    sql: Connection, database: Database, said: Heard, pages: Linked
) -> None:
    number = await open_alert(sql, database, said)
    for host in ("evil.example", "evil.example:99", "[::1]:8", "a" * 300, 'x"><script>'):
        for answer in (
            await pages.get(path_to("mute", number), Host=host),
            await pages.get("/alerts/1", Host=host, X_Forwarded_Host=host),
        ):
            assert host not in answer.text + str(answer.headers)
            assert "Location" not in answer.headers


async def test_nothing_is_asked_of_the_database_before_a_link_is_found_good(
    db: ClonedDatabase, said: Heard, proxy: Proxy
) -> None:
    """A stranger who asks a thousand times costs the database nothing, not even a connection."""
    async with store_of(db, said, proxy=proxy) as database, linked(database) as pages:
        proxy.set(Mode.REFUSE)
        statuses = {(await pages.get(f"/alerts/{n}?t=1.{'x' * 43}")).status for n in range(100)}
        statuses |= {(await pages.post(f"/alerts/{n}/mute")).status for n in range(100)}
        assert statuses == {403}
        assert database.connects == 0
        assert (await pages.get(path_to("alert", 1))).status == 503


async def test_while_the_database_is_silent_the_answer_comes_in_time_and_few_wait_for_it(
    db: ClonedDatabase, said: Heard, proxy: Proxy
) -> None:
    async with store_of(db, said, proxy=proxy) as database, linked(database) as pages:
        assert (await pages.get(path_to("alert", 1))).status == 404
        proxy.set(Mode.BLACKHOLE)
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await pages.get(path_to("alert", 1)))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                for _ in range(8):
                    group.start_soon(ask)
            probe = await pages.get("/livez")
        proxy.set(Mode.PASS)
        proxy.reset()

    assert [one.status for one in answers] == [503] * 8
    assert any("can&#x27;t answer" in one.text for one in answers)  # who waited for a turn and gave up
    assert answers[0].headers["Retry-After"] == "5"
    assert probe.status == 200


async def test_before_there_is_a_database_and_where_it_is_not_ours_nothing_is_changed(
    sql: Connection, database: Database, said: Heard
) -> None:
    number = await open_alert(sql, database, said)
    async with linked(None) as early:
        assert (await early.get(path_to("alert", number))).status == 503
    async with linked(database, is_ours=lambda: False) as foreign:
        assert (await foreign.get(path_to("alert", number))).status == 200
        assert (await foreign.post(path_to("mute", number))).status == 503
        assert (await foreign.post(path_to("acknowledge", number))).status == 503
    assert await sql.fetchval("select count(*) from wakeful.audit") == 0


async def test_the_link_of_a_test_works_and_changes_nothing(sql: Connection, pages: Linked) -> None:
    answers = [await pages.get(path_to("alert", 0)), await pages.post(path_to("mute", 0))]

    assert [one.status for one in answers] == [200, 200]
    assert all("The links of this installation work" in one.text for one in answers)
    assert await snapshot(sql) == []


async def test_without_a_key_or_an_address_there_are_no_pages(database: Database) -> None:
    for alerts in (replace(ALERTS, link_key=None), replace(ALERTS, public_url=None)):
        async with linked(database, alerts=alerts) as pages:
            assert (await pages.get(path_to("alert", 1))).status == 404


async def test_a_key_that_can_not_be_read_is_nobodys_way_in(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(ALERTS.link_key or "")
    alerts = replace(ALERTS, link_key=None, link_key_file=str(file))
    async with linked(database, alerts=alerts) as pages:
        assert (await pages.get(path_to("alert", 1))).status == 404
        file.unlink()
        assert (await pages.get(path_to("alert", 1))).status == 503
        file.write_text("a-new-key-" * 4)
        assert (await pages.get(path_to("alert", 1))).status == 403
        file.write_text("a-new-key-" * 4 + f" {ALERTS.link_key}")
        assert (await pages.get(path_to("alert", 1))).status == 404
