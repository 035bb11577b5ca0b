"""What a type calls secret in its payload is in nothing that people read of an attempt, whatever is said (R12)."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.factories import declare, enqueue
from wakeful import JobContext, Registry, testing
from wakeful.core.settings import LogSettings
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


def talkative() -> Registry:
    """A handler that says its secret wherever it can, and then fails if it is told to."""
    registry = Registry()

    @registry.job("PAY", secret=("card.token", "pin"), steps=("charge",), backoff=lambda attempt: 60)
    async def pay(job: JobContext) -> object:
        card, pin = job.payload["card"], job.payload["pin"]
        assert isinstance(card, dict)
        token = card["token"]
        job.log.info("charging", card=card, pin=pin)
        job.log.warning("%s and %r and %s and %s", token, token, json.dumps(token), pin)
        logging.getLogger("a.library").info("POST /charge %s", token)
        async with job.step("charge"):
            await job.progress(10, f"with {token} {pin}")
        job.degrade(f"{token} was refused")
        if job.payload.get("fail"):
            raise ValueError(f"no money on {job.payload!r}")
        return {"pin": pin, "charged": 1}

    return registry


@pytest.mark.parametrize("fail", [False, True])
async def test_a_secret_of_a_payload_is_in_nothing_that_people_read(
    db: ClonedDatabase, sql: Connection, stream: io.StringIO, fail: bool
) -> None:
    await declare(sql, "PAY", secret_paths=["card.token", "pin"])
    payload = {"card": {"token": SECRET, "kind": "gift"}, "pin": NUMBER, "fail": fail}
    job_id = (await enqueue(sql, "PAY", payload)).job_id
    async with testing.instance(db, registry=talkative()) as one:
        await one.run_one()
        count = "select count(*) from wakeful.job_log"
        await eventually(lambda: sql.fetchval(count), until=lambda lines: lines == 3)

    row = await sql.fetchrow("select j::text from wakeful.jobs j where job_id = $1", job_id)
    log = await sql.fetch("select l::text from wakeful.job_log l")
    alerts = await sql.fetch("select a::text from wakeful.alert_outbox a")
    shown = str([row, *log, *alerts])
    assert "charge" in shown and "gift" in shown and ("no money" in shown) == fail
    assert "a.library" in stream.getvalue()
    for text in (shown, stream.getvalue()):
        assert "geheim" not in text
        assert str(NUMBER) not in text
    assert "geheim" in await sql.fetchval(
        "select (r.payload)::text from wakeful.scheduled r union all select payload::text from wakeful.finished"
    )
