"""What a daemon shows after jobs of every outcome: well formed in both forms, and all that rules and boards ask for."""

from __future__ import annotations

import urllib.request

from support.boards import PROMETHEUS_BOARD, board, queries, rules
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.exposition import Family, parse, value
from support.factories import claim, enqueue, job_in
from support.process import Daemon, running_daemon
from support.promql import Selector, read
from wakeful.telemetry.exposition import OPENMETRICS
from wakeful.telemetry.meters import METERS

OUTCOMES = {"succeeded", "retried", "dead", "cancelled", "snoozed"}
SETTINGS = {"sinks.log.kind": "log", "alerts.first_wait": "0s", "poll.min": "50ms", "poll.max": "200ms"}
ADDED = {"job", "instance"}  # by Prometheus, to all that it scrapes
# What this test does not make happen: it is described, and its labels are those of the catalogue.
UNSEEN = {"wakeful_leases_lost_total"}


async def test_all_that_rules_and_boards_name_is_there_after_jobs_of_every_outcome(
    db: ClonedDatabase, sql: Connection
) -> None:
    await prepare(sql)
    holder = await db.connect()
    async with holder.transaction(isolation="repeatable_read"):
        await holder.fetch("select * from wakeful.installation")
        with running_daemon(db.dsn, settings=SETTINGS) as daemon:

            async def complete() -> bool:
                families = scraped(daemon, openmetrics=True)
                ended = families["wakeful_jobs_finished"].samples
                return {dict(labels)["outcome"] for _, labels in ended} >= OUTCOMES and all(
                    has_samples(families, name) for name in asked_for() - UNSEEN
                )

            await eventually(complete, timeout=60.0)
            daemon.wait_for("job.overlapped")
            ours, plain = scraped(daemon, openmetrics=True), scraped(daemon, openmetrics=False)

    assert {name.removesuffix("_total") for name in plain} == set(ours)
    for selector in selectors():
        assert_answers(plain, selector)
    assert value(plain, "wakeful_queue_paused", queue="held") == 1
    assert value(plain, "wakeful_job_failures_total", job_type="probe.raise", error_type="RuntimeError")
    build = {dict(labels)["schema"] for _, labels in plain["wakeful_build_info"].samples}
    assert build == {str(await sql.fetchval("select max(schema_version) from wakeful.installation"))}


async def test_the_age_of_the_heartbeat_begins_anew_with_each_beat(db: ClonedDatabase) -> None:
    ages: list[float] = []
    with running_daemon(db.dsn, settings={"lease.beat": "200ms"}) as daemon:

        async def younger_than_before() -> bool:
            age = value(scraped(daemon, openmetrics=False), "wakeful_beat_age_seconds")
            assert age is not None
            ages.append(age)
            return age < max(ages)

        await eventually(younger_than_before)


async def prepare(sql: Connection) -> None:
    """A job for each outcome, one whose owner is gone, and what only gauges of the whole database tell."""
    for what in ("retry", "snooze", "fail", "discard"):
        await enqueue(sql, "probe.say", {"what": what, "seconds": 3600})
    await enqueue(sql, "probe.ok")
    await enqueue(sql, "probe.raise")
    await enqueue(sql, "probe.ok", queue="held")
    await sql.execute("select wakeful.pause('held')")
    await sql.execute(
        "select wakeful.enqueue('probe.deaf', '{\"seconds\": 60}', deadline => '1s', max_attempts => 1)"
    )
    await claim(sql, (await enqueue(sql)).job_id, owner=999)
    await job_in(sql, "SCHEDULED")
    await job_in(sql, "DEAD")
    await sql.execute("insert into wakeful.alert_sink (sink, closed_at) values ('shop', now())")
    await sql.execute(
        """insert into wakeful.alert_delivery (delivery_id, sink, body, attempts, last_answer)
           values (gen_random_uuid(), 'shop', '{}', 1, '503')"""
    )
    await sql.execute("select wakeful.alert('publish_failed')")


def scraped(daemon: Daemon, *, openmetrics: bool) -> dict[str, Family]:
    """The metrics, in the form that is asked for."""
    headers = {"Accept": "application/openmetrics-text;version=1.0.0"} if openmetrics else {}
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.port()}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert (answer.headers["Content-Type"] == OPENMETRICS.content_type) is openmetrics
        return parse(answer.read().decode(), openmetrics=openmetrics)


def selectors() -> list[Selector]:
    """All that rules and boards ask of the metrics themselves."""
    texts = [rule["expr"] for rule in rules()]
    texts += [query.text for query in queries(board(PROMETHEUS_BOARD.name))]
    return [one for text in texts for one in read(text).selectors if ":" not in one.metric]


def asked_for() -> set[str]:
    return {one.metric for one in selectors()}


def has_samples(families: dict[str, Family], sample: str) -> bool:
    return any(name == sample for family in families.values() for name, _ in family.samples)


def assert_answers(families: dict[str, Family], selector: Selector) -> None:
    """A metric has a sample with the labels and the values that are asked of it, variables and counts apart."""
    found = [
        {**dict(labels), **dict.fromkeys(ADDED, "")}
        for family in families.values()
        for name, labels in family.samples
        if name == selector.metric
    ]
    if not found:
        (meter,) = (one for one in METERS if one.name == selector.metric)
        assert meter.name in UNSEEN and meter.name in families
        found = [dict.fromkeys({*meter.labels, *ADDED}, "")]
    assert all(label in labels for labels in found for label, _, _ in selector.matchers), selector
    wanted = [(label, text) for label, operator, text in selector.matchers if operator == "="]
    assert any(all(labels[label] == text for label, text in wanted) for labels in found), selector
