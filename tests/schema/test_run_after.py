"""Times from many clients: a time means the same in every zone, past means now, and nothing is out of range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from support.databases import Connection
from support.factories import declare, enqueue

ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Kiritimati"]


async def test_a_job_for_later_waits_in_scheduled_until_then(sql: Connection) -> None:
    later = datetime.now(UTC) + timedelta(hours=3)

    made = await enqueue(sql, run_after=later)

    job = await sql.fetchrow("select status, run_after from wakeful.jobs where job_id = $1", made.job_id)
    assert job is not None
    assert (job["status"], job["run_after"]) == ("PENDING", later)
    assert await sql.fetchval("select count(*) from wakeful.ready") == 0
    assert await sql.fetchval("select run_after from wakeful.scheduled") == later


@pytest.mark.case("F54")
@pytest.mark.parametrize(
    "past", ["now()", "now() - interval '1 microsecond'", "'epoch'", "'4713-01-01 BC'", "'0001-01-01'"]
)
async def test_a_past_time_means_now(sql: Connection, past: str) -> None:
    await sql.execute(f"select * from wakeful.enqueue('COLLECT', run_after => {past})")

    waited = await sql.fetchval("select clock_timestamp() - run_after from wakeful.ready")
    assert timedelta(0) <= waited < timedelta(minutes=1)


async def test_null_means_now(sql: Connection) -> None:
    await sql.execute("select * from wakeful.enqueue('COLLECT', run_after => null)")

    assert await sql.fetchval("select count(*) from wakeful.ready") == 1


@pytest.mark.case("F54")
@pytest.mark.parametrize("zone", ZONES)
async def test_a_time_with_its_zone_does_not_shift_with_the_sessions(sql: Connection, zone: str) -> None:
    await sql.execute(f"set timezone to '{zone}'")

    await sql.execute(
        """select * from wakeful.enqueue('COLLECT', run_after => '2031-03-30T02:30:00+02:00');
           select * from wakeful.enqueue_many(
               '[{"job_type": "COLLECT", "run_after": "2031-03-30T02:30:00+02:00"}]')"""
    )

    found = await sql.fetch("select run_after from wakeful.scheduled")
    assert [row[0] for row in found] == [datetime(2031, 3, 30, 0, 30, tzinfo=UTC)] * 2


@pytest.mark.case("F54")
@pytest.mark.parametrize("zone", ZONES)
async def test_a_time_without_a_zone_is_in_the_sessions_zone_in_both_calls(
    sql: Connection, zone: str
) -> None:
    await sql.execute(f"set timezone to '{zone}'")

    await sql.execute(
        """select * from wakeful.enqueue('COLLECT', run_after => '2031-01-01 12:00');
           select * from wakeful.enqueue_many('[{"job_type": "COLLECT", "run_after": "2031-01-01 12:00"}]')"""
    )

    right = await sql.fetchval(f"select timestamp '2031-01-01 12:00' at time zone '{zone}'")
    found = await sql.fetch("select run_after from wakeful.scheduled")
    assert [row[0] for row in found] == [right] * 2


async def test_a_transaction_that_takes_long_does_not_make_a_time_late(sql: Connection) -> None:
    async with sql.transaction():
        await sql.execute("select now()")
        soon = await sql.fetchval("select clock_timestamp() + interval '2 milliseconds'")
        await sql.execute("select pg_sleep(0.005)")
        await enqueue(sql, run_after=soon)

    assert await sql.fetchval("select count(*) from wakeful.ready") == 1


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("90", "90 seconds"),
        ("999999999.000000001", "999999999 seconds"),
        ("1 day", "1 day"),
        ("999999 hours", "999999 hours"),
        ("9 days ago", "-9 days"),
        ("0.25", "250 milliseconds"),
        ("10 minutes", "10 minutes"),
        ("PT1H", "1 hour"),
        ("1:30", "90 minutes"),
        ("long", "-1 second"),
        ("1.2.3", "-1 second"),
        ("", "-1 second"),
    ],
)
async def test_a_span_is_read_from_text_or_seconds(sql: Connection, text: str, interval: str) -> None:
    assert await sql.fetchval(f"select wakeful.interval_of($1) = interval '{interval}'", text) is True


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00Z",
        "2026-12-31 23:59:59.999999-14:59",
        "2028-02-29T00:00:00+01:00",
        "2026-02-28T12:00:00+00:00",
        "2026-04-30T01:02:03.5Z",
        "2026-01-31T12:00",
        "31 January 2026 12:00 UTC",
        "tomorrow",
        "-infinity",
    ],
)
async def test_a_time_is_read_as_postgresql_reads_it(sql: Connection, text: str) -> None:
    assert await sql.fetchval("select wakeful.timestamp_of($1) = $1::text::timestamptz", text) is True


@pytest.mark.parametrize(
    "text",
    ["2026-02-29T12:00:00Z", "2026-04-31T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01T24:30:00Z", ""],
)
async def test_a_time_that_is_none_is_told_from_all_others(sql: Connection, text: str) -> None:
    assert await sql.fetchval("select wakeful.timestamp_of($1) = 'infinity'", text) is True


async def test_a_deadline_is_kept_in_every_style_of_intervals(sql: Connection) -> None:
    await declare(sql, "COLLECT", deadline=timedelta(minutes=3))
    for style in ("postgres", "postgres_verbose", "iso_8601", "sql_standard"):
        await sql.execute(f"set intervalstyle to {style}")
        made = await enqueue(sql, deadline=timedelta(days=1, hours=2, seconds=3.5))
        await sql.fetchval("select wakeful.cancel($1)", made.job_id)
        await sql.fetchval("select wakeful.requeue($1)", made.job_id)

    found = await sql.fetch("select deadline from wakeful.ready")
    assert {row[0] for row in found} == {timedelta(days=1, hours=2, seconds=3.5)}
