"""The buttons of alert cards, from a job's death to a muted alert: a real daemon, its message, its pages, a browser."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio

from support.browser import Browser, running_browser
from support.commands import wakeful
from support.databases import ClonedDatabase, Connection
from support.dispatching import make_due
from support.eventually import eventually
from support.linked import KEY, PUBLIC
from support.process import Daemon, running_daemon
from support.receiver import Receiver, refuse, running_receiver

PRESS = """(async () => {
    document.querySelector('#name').value = 'Kim';
    document.querySelector('button').click();
    return true;
})()"""


def settings(receiver: Receiver) -> dict[str, object]:
    return {
        "alerts.first_wait": "0s",
        "alerts.public_url": PUBLIC,
        "alerts.link_key": KEY,
        "alerts.environment": "staging",
        "outbox.interval": "100ms",
        "sinks.hook.kind": "webhook",
        "sinks.hook.url": receiver.url,
    }


async def death(sql: Connection, subject: str) -> None:
    await sql.fetch(
        "select * from wakeful.enqueue('probe.raise', '{\"text\": \"a pity\"}', subject => $1, max_attempts => 1)",
        subject,
    )


async def told(receiver: Receiver, *, messages: int) -> list[bytes]:
    async def bodies() -> list[bytes]:
        return [one.body for one in receiver.received]

    return await eventually(bodies, until=lambda found: len(found) >= messages, timeout=30)


def links_in(body: bytes) -> dict[str, str]:
    """The links of a message, by their labels."""
    return {link["label"]: link["url"] for link in json.loads(body)["data"]["links"]}


def here(daemon: Daemon, url: str) -> str:
    """A link, at the daemon itself and not at what stands before it."""
    parts = urlsplit(url)
    assert f"{parts.scheme}://{parts.netloc}" == PUBLIC
    return f"http://127.0.0.1:{daemon.port()}{parts.path}?{parts.query}"


async def asked(url: str, data: bytes | None = None) -> tuple[int, str]:
    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, data=data, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    return await anyio.to_thread.run_sync(ask)


async def test_the_buttons_of_a_message_open_mute_and_are_the_same_at_every_try(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    async with running_receiver() as receiver:
        receiver.replies = [refuse(500)]
        await death(sql, "place 9")
        with running_daemon(db.dsn, settings=settings(receiver), ledger=tmp_path / "ledger") as daemon:
            await told(receiver, messages=1)
            daemon.wait_for("outbox.failed")
            await make_due(sql)
            first, second = (await told(receiver, messages=2))[:2]
            assert first == second
            links = links_in(first)
            assert list(links) == ["Open job", "Open group", "Acknowledge", "Mute an hour"]

            for label in links:
                status, text = await asked(here(daemon, links[label]))
                assert (status, "a pity" in text or "<form" in text) == (200, True)
            assert await sql.fetchval("select count(*) from wakeful.audit") == 0

            status, text = await asked(here(daemon, links["Mute an hour"]), b"name=Kim")
            assert (status, "wakeful alerts unmute 1" in text) == (200, True)
            listed = (await wakeful("alerts", "list", db=db)).err
            assert "by a link in the message (Kim (link))" in listed

            status, _ = await asked(here(daemon, links["Acknowledge"]), b"")
            assert status == 200
            assert (
                await sql.fetchval("select state from wakeful.alert where kind = 'job_dead'")
                == "acknowledged"
            )
            raw = "\n".join(daemon.raw)
    assert KEY not in raw and "?t=" not in raw


def open_page(browser: Browser, url: str, *, width: int, scheme: str = "light") -> None:
    """Open an address as a phone or a window of this width does."""
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True
    )
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    answer = browser.call("Page.navigate", url=url)
    assert "errorText" not in answer, answer
    wait_for(browser, "document.readyState === 'complete' && document.querySelector('h1') !== null")


def wait_for(browser: Browser, condition: str) -> None:
    """Wait until something is so; what is asked while a page gives way to the next is asked again."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            if browser.evaluate(condition):
                return
        except AssertionError:
            pass
        time.sleep(0.02)
    raise AssertionError(f"never so: {condition}")


def pressed(mute: str, group: str, pictures: Path) -> str:
    """Mute in a browser, and look at all on the way; gives what the last page says."""
    with running_browser() as browser:
        for scheme in ("light", "dark"):
            for width in (360, 1200):
                open_page(browser, group, width=width, scheme=scheme)
                assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
                browser.picture(pictures / f"group-{scheme}-{width}.png")
        grounds = set()
        for scheme in ("light", "dark"):
            open_page(browser, mute, width=360, scheme=scheme)
            grounds.add(browser.evaluate("getComputedStyle(document.body).backgroundColor"))
            browser.picture(pictures / f"mute-{scheme}.png")
        assert (
            len(grounds) == 2 and "rgba(0, 0, 0, 0)" not in grounds
        )  # the style is in force under the policy
        browser.evaluate(PRESS)
        wait_for(browser, "document.body.innerText.includes('unmute')")
        browser.picture(pictures / "muted.png")
        return str(browser.evaluate("document.body.innerText"))


async def test_a_person_presses_the_button_in_a_browser(
    db: ClonedDatabase, sql: Connection, tmp_path: Path
) -> None:
    async with running_receiver() as receiver:
        await death(sql, "서울 강남구 place 9")
        with running_daemon(db.dsn, settings=settings(receiver), ledger=tmp_path / "ledger") as daemon:
            links = links_in((await told(receiver, messages=1))[0])
            mute, group = here(daemon, links["Mute an hour"]), here(daemon, links["Open group"])
            said = await anyio.to_thread.run_sync(partial(pressed, mute, group, tmp_path))

    assert "Kim (link)" in said and "wakeful alerts unmute 1" in said
    row = await sql.fetchrow("select kind, job_type, subject, muted_by from wakeful.alert_mute")
    assert row is not None
    assert tuple(row) == ("job_dead", "probe.raise", "서울 강남구 place 9", "Kim (link)")


async def test_without_a_key_a_daemon_has_no_such_pages(db: ClonedDatabase) -> None:
    with running_daemon(db.dsn, settings={"alerts.public_url": PUBLIC}) as daemon:
        for path in ("/alerts/1", "/alerts/1/mute", "/jobs/01980f3e-7a10-7cc0-b1f0-3d0c5a4f9e21"):
            assert (await asked(f"http://127.0.0.1:{daemon.port()}{path}"))[0] == 404
