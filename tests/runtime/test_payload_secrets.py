"""What a type calls secret in its payload is in nothing that people read of an attempt, whatever is said (R12)."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from support import talkative
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import declare, enqueue
from support.running import running
from wakeful.core.settings import LogSettings
from wakeful.telemetry.events import JOB_FINISHED, JOB_RETRIED
from wakeful.telemetry.logging import configure_logging
from wakeful.telemetry.redaction import Redactor

SECRET = 'geheim-"ü"\n' * 3
NUMBER = 4_111_111_111_111_111


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    undo = configure_logging(LogSettings(format="json", level="debug"), Redactor(), stream=written)
    yield written
    undo()


@pytest.mark.parametrize("job_type", ["PAY", "PAY APART"])
@pytest.mark.parametrize("fail", [False, True])
async def test_a_secret_of_a_payload_is_in_nothing_that_people_read(
    db: ClonedDatabase, sql: Connection, stream: io.StringIO, job_type: str, fail: bool
) -> None:
    await declare(sql, job_type, secret_paths=["card.token", "pin"])
    payload = {"card": {"token": SECRET, "kind": "gift"}, "pin": NUMBER, "fail": fail}
    async with running(db, talkative.registry) as one:
        job_id = (await enqueue(sql, job_type, payload)).job_id
        await one.recorder.seen(JOB_RETRIED if fail else JOB_FINISHED, job_id=str(job_id), within=30)
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda lines: lines == 3)

    row = await sql.fetchrow("select j::text from wakeful.jobs j where job_id = $1", job_id)
    log = await sql.fetch("select l::text from wakeful.job_log l")
    alerts = await sql.fetch("select a::text from wakeful.alert_outbox a")
    told = str([*one.recorder.of(JOB_RETRIED), *one.recorder.of(JOB_FINISHED)])
    shown = str([row, *log, *alerts])
    assert "charge" in shown and "gift" in shown and ("no money" in shown) == fail
    assert "a.library" in stream.getvalue()
    for text in (shown, told, stream.getvalue()):
        assert "geheim" not in text
        assert str(NUMBER) not in text
    kept = "select payload::text from wakeful.scheduled union all select payload::text from wakeful.finished"
    assert "geheim" in await sql.fetchval(kept)
