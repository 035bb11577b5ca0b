"""Pages behind links as tests need them: a server with a database, alerts to look at, and links that are good."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from yarl import URL

from support.databases import Connection
from support.dispatching import Heard, alert, composed
from support.serving import Served, serving
from wakeful.config import current_signing
from wakeful.core.alert_settings import AlertSettings
from wakeful.core.links import Purpose, address
from wakeful.core.settings import Settings
from wakeful.store.database import Database
from wakeful.telemetry.redaction import Redactor
from wakeful.web.pages import LinkPages

KEY = "0123456789abcdef0123456789abcdef"
FORM = {"Content_Type": "application/x-www-form-urlencoded"}
SECRET = "s3cr3t-of-the-daemon"
PUBLIC = "https://wakeful.example.com"
ALERTS = AlertSettings(public_url=PUBLIC, link_key=KEY, environment="production")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a page gave."""

    status: int
    text: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Linked:
    """A server with pages."""

    served: Served

    async def get(self, path: str, **headers: str) -> Answer:
        """Get a page; `X_Header="…"` is a header."""
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: object = None, **headers: str) -> Answer:
        """Send the form of a page."""
        return await self.request("POST", path, body=body, **headers)

    async def request(self, method: str, path: str, *, body: object = None, **headers: str) -> Answer:
        """Send any request, its path as it is."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(f"http://127.0.0.1:{self.served.port}{path}", encoded=True)
        async with self.served.client.request(method, url, data=body, headers=named) as response:
            return Answer(status=response.status, text=await response.text(), headers=response.headers)


def path_to(purpose: Purpose, of: object, *, seconds: float = 3600, alerts: AlertSettings = ALERTS) -> str:
    """A good link, as the path that is asked of this server."""
    token = current_signing(alerts).token(purpose, str(of), expires=int(time.time() + seconds))
    return address("", purpose, str(of), token)


@asynccontextmanager
async def linked(
    database: Database | None, *, alerts: AlertSettings = ALERTS, is_ours: Callable[[], bool] = lambda: True
) -> AsyncIterator[Linked]:
    """Serve the pages of a database; without one, those of a daemon that has not got so far."""
    pages = LinkPages(replace(Settings(), alerts=alerts), Redactor([SECRET]))
    async with serving(routes=pages.routes()) as served:
        if database is None:
            yield Linked(served)
            return
        with pages.open(database, is_ours=is_ours):
            yield Linked(served)


@asynccontextmanager
async def linked_apart(database: Database) -> AsyncIterator[Linked]:
    """The same for a fixture, which begins and ends in two tasks: a server lives in one."""
    ready: asyncio.Future[Linked] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def serve() -> None:
        async with linked(database) as pages:
            ready.set_result(pages)
            await over.wait()

    serving = asyncio.create_task(serve())
    try:
        yield await ready
    finally:
        over.set()
        await serving


async def open_alert(sql: Connection, database: Database, said: Heard, *, key: str = "a") -> int:
    """An alert that people were told of; gives its number."""
    await alert(sql, key)
    await composed(database, said, "hook")
    number: int = await sql.fetchval("select max(alert_id) from wakeful.alert")
    return number


async def snapshot(sql: Connection) -> list[object]:
    """Everything that a page could have changed."""
    rows = await sql.fetch(
        """select to_jsonb(a)::text from wakeful.alert a
           union all select to_jsonb(m)::text from wakeful.alert_mute m
           union all select to_jsonb(u)::text from wakeful.audit u order by 1"""
    )
    return [row[0] for row in rows]
