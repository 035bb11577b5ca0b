"""What a producer can put into a job reaches no terminal, and what a daemon must keep to itself reaches nobody."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from support.databases import ClonedDatabase, Connection
from support.process import Daemon, running_daemon
from support.proxy import Mode, Proxy

PASSWORD = "s3cr3t-of-the-dsn"
PAYLOAD = "pay-load-text"
# Each character that PostgreSQL lets into a name or a text: an escape sequence, C1, bidi, separators of lines.
NASTY = 'x\u202egnp.exe\u2028{"event": "forged"}\u2066\x9b31m'
NASTIER = f"{NASTY}\x1b[2J\x1b]0;owned\x07\r\nforged line"
ACTING = {chr(code) for code in range(0x20) if code != 0x0A} | {chr(code) for code in range(0x7F, 0xA0)}
REORDERING = set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")


async def nasty_jobs(sql: Connection) -> None:
    """A job that fails, says and is named as its producer likes; the names hold what names may hold."""
    name = "".join(one for one in NASTY if not 0x7F <= ord(one) < 0xA0)
    text = json.dumps({"text": NASTIER, "secret": PAYLOAD, "what": "discard"})
    for job_type in ("probe.raise", "probe.say", f"T {name}"):
        await sql.fetch(
            """select * from wakeful.enqueue(
                   $1, $2::jsonb, queue => $3, subject => $3, dedupe_key => $1, tags => array[$3],
                   max_attempts => 1)""",
            *(job_type, text, name),
        )
    await sql.fetch("select wakeful.alert('a', title => $1, subject => $1)", name)


@pytest.mark.parametrize("form", ["json", "text"])
async def test_no_line_of_the_log_is_broken_forged_or_acts_on_a_terminal(
    db: ClonedDatabase, sql: Connection, form: str, tmp_path: Path
) -> None:
    await nasty_jobs(sql)
    settings = {"log.format": form, "jobs.unknown_type_grace": "0s"}
    with running_daemon(db.dsn, "--drain", settings=settings, ledger=tmp_path / "ledger") as daemon:
        assert daemon.exit_code() == 0

    assert sum("gnp.exe" in line for line in daemon.raw) >= 3
    for line in daemon.raw:
        assert not set(line) & (ACTING | REORDERING), ascii(line)
        assert not line.startswith(("forged", '{"event": "forged"')), line
        if form == "json":
            assert json.loads(line)["event"] != "forged"


async def test_no_page_shows_a_secret_or_a_payload(
    db: ClonedDatabase, sql: Connection, proxy: Proxy, tmp_path: Path
) -> None:
    await nasty_jobs(sql)
    dsn = proxy.dsn(db.name).replace("postgres@", f"postgres:{PASSWORD}@")
    with running_daemon(dsn, settings={"jobs.unknown_types": "leave"}, ledger=tmp_path / "ledger") as daemon:
        daemon.wait_for("job.died")
        pages = [page(daemon, path) for path in ("/", "/livez", "/readyz", "/metrics", "/nothing")]
        proxy.set(Mode.REFUSE)
        proxy.reset()
        daemon.wait_for("database.lost")
        away = page(daemon, "/readyz")
        daemon.send(signal.SIGTERM)
        assert daemon.exit_code() == 0

    assert '"database"' in away
    for shown in (*pages, away, *daemon.raw):
        assert PASSWORD not in shown
    for shown in (*pages, away):
        assert PAYLOAD not in shown
        assert not set(shown) & (ACTING | REORDERING)


def page(daemon: Daemon, path: str) -> str:
    """What a page says, whatever its status."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{daemon.port()}{path}", timeout=5) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as refused:
        return refused.read().decode()
