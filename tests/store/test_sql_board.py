"""The board on plain SQL: each panel's query runs for a role that may only look, and gives what the panel shows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from support.boards import SQL_BOARD, board, panels, with_variables
from support.databases import ClonedDatabase, Connection
from support.dispatching import heard, store_of
from support.factories import enqueue, job_in
from support.owners import register
from wakeful.store.lanes import fold_lanes

BOARD = board(SQL_BOARD.name)
VARIABLES = {one["name"]: one["query"] for one in BOARD["templating"]["list"] if one["type"] == "query"}
QUOTED = 'it\'s "quoted"\\'


@pytest.fixture
async def observer(db: ClonedDatabase, sql: Connection) -> AsyncIterator[Connection]:
    """A connection of somebody who may only look."""
    role = f"board_{uuid4().hex[:8]}"
    await sql.execute(f"create role {role} login in role wakeful_observer")
    try:
        yield await db.connect(role=role)
    finally:
        await db.close()
        owner = await db.connect()
        await owner.execute(f"drop role {role}")


async def fill(db: ClonedDatabase, sql: Connection) -> None:
    """Jobs in every state, an alert, a message, an instance."""
    for state in ("READY", "SCHEDULED", "RUNNING", "DONE", "DEAD", "CANCELLED"):
        await job_in(sql, state)
    await enqueue(sql, queue=QUOTED)
    async with store_of(db, heard()) as database:
        await register(database)
        await fold_lanes(database, 1000)
    await sql.execute("select wakeful.pause('held')")
    await sql.execute(
        """insert into wakeful.alert (dedupe_key, kind, title, severity, body, occurrences, first_seen, last_seen)
           values ('k', 'job_dead', 'a job is dead', 'error', '{}', 1, now(), now())"""
    )
    await sql.execute("insert into wakeful.alert_sink (sink) values ('shop')")
    await sql.execute(
        """insert into wakeful.alert_delivery (delivery_id, sink, body, attempts, last_answer)
           values (gen_random_uuid(), 'shop', '{}', 1, '503')"""
    )


async def options(observer: Connection) -> dict[str, list[str]]:
    """What the variables offer, all of it chosen."""
    return {name: [str(row[0]) for row in await observer.fetch(query)] for name, query in VARIABLES.items()}


async def test_each_panel_gives_what_it_shows(
    db: ClonedDatabase, sql: Connection, observer: Connection
) -> None:
    await fill(db, sql)
    chosen = await options(observer)
    assert QUOTED in chosen["queue"] and "held" in chosen["queue"]

    for panel in panels(BOARD):
        (target,) = panel["targets"]
        rows = await observer.fetch(with_variables(target["rawSql"], **chosen))
        # Of transactions a mere observer is shown none of others.
        assert rows or panel["title"] == "Open transactions", panel["title"]
        assert target["format"] == ("time_series" if panel["type"] == "timeseries" else "table")
        if rows:
            assert_shown(panel, [dict(row) for row in rows])


def assert_shown(panel: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """The rows are of the form that the kind of panel takes."""
    columns, title = list(rows[0]), panel["title"]
    match panel["type"]:
        case "stat":
            assert len(rows) == 1 and len(columns) == 1, title
            assert isinstance(rows[0][columns[0]], int | float), title
        case "timeseries":
            assert columns[0] == "time", title
            assert [row["time"] for row in rows] == sorted(row["time"] for row in rows), title
            numbers = [row[name] for row in rows for name in columns[1:] if name != "metric"]
            assert numbers and all(isinstance(number, float) for number in numbers), title
        case _:
            named = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
            assert named <= set(columns), title
            assert not any(isinstance(cell, Decimal) for row in rows for cell in row.values()), title


@pytest.mark.parametrize("chosen", [{"queue": [], "job_type": []}, {"queue": ["no'thing"], "job_type": [""]}])
async def test_with_nothing_there_and_nothing_chosen_each_panel_still_answers(
    observer: Connection, chosen: dict[str, list[str]]
) -> None:
    for panel in panels(BOARD):
        for target in panel["targets"]:
            await observer.fetch(with_variables(target["rawSql"], **chosen))


async def test_the_figures_are_those_of_the_database(
    db: ClonedDatabase, sql: Connection, observer: Connection
) -> None:
    await fill(db, sql)
    await sql.execute(
        """update wakeful.ready
           set run_after = now() - case queue when 'default' then interval '1 hour' else interval '2 days' end
           where owner is null"""
    )
    await sql.execute("select wakeful.pause($1)", QUOTED)
    chosen = await options(observer)

    found = await figures(observer, chosen)
    await sql.execute("delete from wakeful.ready where owner is null")
    later = await figures(observer, chosen)

    assert 3600 <= found.pop("Oldest due job") < 3700
    assert (later["Oldest due job"], later["Due now"]) == (0, 0), "what is due in an hour does not wait"
    assert found == {
        "Died in 24 hours": 1,
        "Running now": 1,
        "Due now": 1,
        "Instances alive": 1,
        "Open alerts": 1,
    }


async def figures(observer: Connection, chosen: dict[str, list[str]]) -> dict[str, float]:
    """What the top row says, by title."""
    found = {}
    for panel in panels(BOARD):
        if panel["type"] == "stat":
            rows = await observer.fetch(with_variables(panel["targets"][0]["rawSql"], **chosen))
            found[panel["title"]] = rows[0][0]
    return found
