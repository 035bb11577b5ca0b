"""When a daemon says that it is ready: not before the server has said which one it is."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from functools import partial

import anyio

from support.databases import ClonedDatabase
from support.eventually import eventually
from support.process import Daemon, running_daemon
from support.proxy import Keep, Proxy
from wakeful.runtime.identity import NOT_ASKED
from wakeful.store.statements import statements


async def test_while_the_server_does_not_answer_whose_it_is_a_started_daemon_is_alive_and_not_ready(
    db: ClonedDatabase, proxy: Proxy
) -> None:
    proxy.gate(statements()["read_identity"], Keep.REPLY)
    with running_daemon(proxy.dsn(db.name)) as daemon:
        daemon.wait_for("daemon.started")

        status, text = await probed(daemon, "/readyz")
        assert (status, json.loads(text)["reasons"]) == (503, {"identity": NOT_ASKED})
        assert (await probed(daemon, "/livez"))[0] == 200
        assert daemon.events("server.accepted") == []

        proxy.let_go()
        await eventually(partial(probed, daemon, "/readyz"), until=lambda answer: answer[0] == 200)
        assert len(daemon.events("server.accepted")) == 1


async def probed(daemon: Daemon, path: str) -> tuple[int, str]:
    """Ask a probe."""

    def ask() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port()}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    return await anyio.to_thread.run_sync(ask)
