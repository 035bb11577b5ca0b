"""The pages behind the links of messages: who may see one, and what its one button does.

Invariant: nothing is asked of the database before a token is found good, and what is not good gets one answer, whatever
exists. A GET changes nothing, since scanners of mail and previews of chats follow links; a POST changes what its token
is for, once. Never is more than `AT_ONCE` statements under way, and none where this database is not ours.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import anyio
from aiohttp import web

from wakeful.config import current_signing
from wakeful.core import jsontext
from wakeful.core.alert_settings import HOUR
from wakeful.core.links import PARAMETER, PATHS, SPECIMEN, Purpose, linked
from wakeful.core.settings import Settings
from wakeful.errors import ConfigError, SchemaMismatch, StoreUnavailable
from wakeful.store import link_pages as store
from wakeful.store.database import Database
from wakeful.store.link_pages import PageRow
from wakeful.telemetry.redaction import Redactor
from wakeful.web import views
from wakeful.web.forms import is_from_here, read_name
from wakeful.web.refusals import away, expired, forged, from_elsewhere, gone, only_a_specimen

REASON: Final = "by a link in the message"
NOBODY: Final = "link"
AT_ONCE: Final = 2
TURN_SECONDS: Final = 1.0

_JSON: Final = ("latest", "told", "steps")
# Only what the database takes as a number, or as a UUID.
_IDS: Final = {"alert": "{id:[0-9]{1,18}}", "job": "{id:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}}"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Ask = Callable[[Database], Awaitable[PageRow | None]]


class LinkPages:
    """The pages of one process. There are none where messages have no links."""

    def __init__(self, settings: Settings, redactor: Redactor) -> None:
        self._redactor = redactor
        self._alerts = linked(settings)
        self._environment = self._alerts.environment or ""
        self._database: Database | None = None
        self._is_ours: Callable[[], bool] = lambda: False
        self._turns = anyio.Semaphore(AT_ONCE)

    @contextmanager
    def open(self, database: Database, *, is_ours: Callable[[], bool]) -> Iterator[None]:
        """Answer from a database while the block runs, and change something where `is_ours`."""
        self._database, self._is_ours = database, is_ours
        try:
            yield
        finally:
            self._database = None

    def routes(self) -> tuple[web.RouteDef, ...]:
        """Give the routes of this module."""
        if self._alerts.public_url is None:
            return ()
        return (
            web.get(_path("alert"), self._guarded("alert", self._show_alert)),
            web.get(_path("job"), self._guarded("job", self._show_job)),
            web.get(_path("acknowledge"), self._guarded("acknowledge", self._ask_to_acknowledge)),
            web.post(_path("acknowledge"), self._guarded("acknowledge", self._acknowledge)),
            web.get(_path("mute"), self._guarded("mute", self._ask_to_mute)),
            web.post(_path("mute"), self._guarded("mute", self._mute)),
        )

    def _guarded(self, purpose: Purpose, handler: Handler) -> Handler:
        """Let through what bears a good token for this purpose and this id."""

        async def guarded(request: web.Request) -> web.StreamResponse:
            of, tokens = request.match_info["id"], request.query.getall(PARAMETER, [])
            try:
                signing = current_signing(self._alerts)
            except ConfigError:
                return away("The key that links are signed with can't be read just now.")
            verdict = signing.judge(tokens[0] if len(tokens) == 1 else "", purpose, of, now=time.time())
            if verdict == "forged":
                return forged()
            if verdict == "expired":
                return expired()
            return only_a_specimen(self._environment) if of == SPECIMEN else await handler(request)

        return guarded

    async def _show_alert(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(_reading(request), lambda row: views.alert_page(row, self._environment))

    async def _show_job(self, request: web.Request) -> web.StreamResponse:
        job_id = UUID(request.match_info["id"])
        return await self._answered(
            lambda database: store.read_job(database, job_id),
            lambda row: views.job_page(row, self._environment),
        )

    async def _ask_to_acknowledge(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(
            _reading(request), lambda row: views.ask_to_acknowledge(row, self._environment)
        )

    async def _ask_to_mute(self, request: web.Request) -> web.StreamResponse:
        return await self._answered(_reading(request), lambda row: views.ask_to_mute(row, self._environment))

    async def _acknowledge(self, request: web.Request) -> web.StreamResponse:
        alert_id = _alert_id(request)
        return await self._changed(
            request,
            lambda database, who: store.acknowledge(database, alert_id, who=who),
            lambda row: views.acknowledged(row, alert_id, self._environment),
        )

    async def _mute(self, request: web.Request) -> web.StreamResponse:
        alert_id = _alert_id(request)
        return await self._changed(
            request,
            lambda database, who: store.mute(database, alert_id, seconds=HOUR, reason=REASON, who=who),
            lambda row: views.muted(row, self._environment),
        )

    async def _changed(
        self,
        request: web.Request,
        change: Callable[[Database, str], Awaitable[PageRow | None]],
        show: Callable[[PageRow], web.Response],
    ) -> web.StreamResponse:
        """Change something in the name of who asks, if this comes from our own form."""
        if not is_from_here(request, self._alerts.public_url or ""):
            return from_elsewhere()
        name = await read_name(request)
        if isinstance(name, web.Response):
            return name
        if not self._is_ours():
            return away("This instance may not change anything just now.")
        return await self._answered(lambda database: change(database, _signed_by(name)), show)

    async def _answered(self, ask: Ask, show: Callable[[PageRow], web.Response]) -> web.Response:
        """Ask the database, a few at a time, and show the row; or say that it is gone, or can't be asked now."""
        row: PageRow | None = None
        turn = False
        try:
            with anyio.move_on_after(TURN_SECONDS):
                await self._turns.acquire()
                turn = True
            if not turn or self._database is None:
                return away("Wakeful can't answer just now.")
            row = await ask(self._database)
        except (StoreUnavailable, SchemaMismatch):
            return away("The database can't be reached just now.")
        finally:
            if turn:
                self._turns.release()
        return gone() if row is None else show(self._shown(row))

    def _shown(self, row: PageRow) -> PageRow:
        """Give a row without secrets; its JSON is read first, since what is hidden in its text could break it."""
        read = {name: jsontext.loads(row[name]) for name in _JSON if name in row}
        return {name: self._hidden(value) for name, value in {**row, **read}.items()}

    def _hidden(self, value: object) -> object:
        if isinstance(value, str):
            return self._redactor.stored(value)
        if isinstance(value, list):
            return [self._hidden(one) for one in value]
        if isinstance(value, Mapping):
            return {name: self._hidden(one) for name, one in value.items()}
        return value


def _path(purpose: Purpose) -> str:
    return PATHS[purpose].format(id=_IDS["job" if purpose == "job" else "alert"])


def _alert_id(request: web.Request) -> int:
    return int(request.match_info["id"])


def _reading(request: web.Request) -> Ask:
    alert_id = _alert_id(request)
    return lambda database: store.read_alert(database, alert_id)


def _signed_by(name: str) -> str:
    """Anybody who has the link can give any name: so it is kept as what it is."""
    return f"{name} ({NOBODY})" if name else NOBODY
