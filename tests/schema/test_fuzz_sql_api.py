"""Arbitrary arguments to every public function: accepted or refused with a documented code, and never a stuck job.

Each example is one transaction of several calls. Whatever was created in it must be a job like any other: found by its
lane, claimed, finished, its key free. With `FUZZ_EXAMPLES=20000` and `--timeout=0` it looks
longer than CI has time for.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Final

import asyncpg
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.databases import ClonedDatabase, Connection
from support.factories import claim, finish
from support.sources import TOP

EXAMPLES: Final = int(os.environ.get("FUZZ_EXAMPLES", "40"))
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CODES: Final = (TOP / "docs" / "sql-api.md").read_text()
ZERO: Final = "00000000-0000-0000-0000-000000000000"


def nested(depth: int) -> str:
    """A document of so many levels."""
    return '{"a":' * depth + "1" + "}" * depth


CHARACTERS = st.characters(codec="utf-8")  # controls, bidi marks and NUL among them
TEXTS = st.text(CHARACTERS, max_size=30)
SHORT = st.sampled_from(
    ["default", "normal", "batch", "k", "T", "", "\n", "x" * 1001, "ä" * 200, "%", "';--", "\\"]
)
NAMES = st.none() | SHORT | TEXTS
NUMBERS = st.sampled_from(
    ["0", "-1", "1", "1000", "1001", "2147483648", "1e9", "NaN", "1.5", ""]
) | st.integers().map(str)
TIMES = st.sampled_from(
    ["infinity", "-infinity", "now", "epoch", "4714-11-24 00:00:00+00 BC", "294276-12-31", "294277-01-01", "today",
     "2026-02-30", "allballs", "", "2031-01-01T00:00:00Z"]
) | st.datetimes().map(str) | TEXTS  # fmt: skip
SPANS = st.sampled_from(
    ["0", "-1 s", "1 mon -30 days", "PT10M", "178000000 years", "infinity",
     "1e400 s", "600", "30 days", "", "1 microsecond"]
) | st.timedeltas().map(str) | TEXTS  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
DOCUMENTS = (
    st.sampled_from(
        ["{}", "[]", "null", "NaN", "", "{",
         '{"n": 1e131071}', '{"n": 1e999999}', r'{"s": "\u0000"}', r'{"s": "\ud800"}',
         '{"s": "' + "x" * 70000 + '"}', '{"subject": [1], "place_id": 7}', '{"subject": "\\n", "a": {"b": 1}}',
         '{"k": 1, "k": 2}']
    )
    | st.dictionaries(TEXTS, JSON, max_size=4).map(json.dumps)
    | JSON.map(json.dumps)
    | st.integers(1, 8000).map(nested)
    | TEXTS
)  # fmt: skip
ARRAYS = (
    st.sampled_from(
        ["{}", "{NULL}", "{{a,b},{c,d}}", "{a", '{"\\n"}', "[2:3]={a,b}", "{" + ",".join("a" * 21) + "}"]
    )
    | TEXTS
)
IDS = st.sampled_from([ZERO, "", "x"]) | st.uuids().map(str)
FLAGS = st.sampled_from(["t", "f", "maybe"])
OPTIONS: Final = {
    "payload": ("jsonb", DOCUMENTS), "queue": ("text", NAMES), "priority": ("text", NAMES), "subject": ("text", NAMES),
    "dedupe_key": ("text", NAMES), "run_after": ("timestamptz", TIMES), "max_attempts": ("integer", NUMBERS),
    "deadline": ("interval", SPANS), "tags": ("text[]", ARRAYS), "meta": ("jsonb", DOCUMENTS),
    '"group"': ("text", NAMES), "limit_key": ("text", NAMES), "notify": ("boolean", FLAGS),
}  # fmt: skip
# An element of a batch has any key with any value, and now and then the right one.
ELEMENTS = st.fixed_dictionaries(
    {"job_type": st.just("T") | NAMES},
    optional={
        "payload": JSON, "queue": NAMES | JSON, "priority": NAMES, "subject": NAMES | JSON, "dedupe_key": NAMES,
        "run_after": TIMES | JSON, "max_attempts": NUMBERS | JSON, "deadline": SPANS | JSON, "tags": JSON,
        "meta": JSON, "group": NAMES, "limit_key": NAMES, "unknown": JSON,
    },
)  # fmt: skip
BATCHES = st.lists(ELEMENTS | JSON, max_size=5).map(json.dumps) | DOCUMENTS


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a public function: its arguments as text, each with the type that it is read as."""

    function: str
    arguments: tuple[tuple[str, str, str | None], ...]

    def __repr__(self) -> str:
        """Short, whatever was given: this is what a failing run prints."""
        return f"Call({self.function!r}, {str(self.arguments)[:1000]})"

    def statement(self) -> str:
        """The call with parameters: the extended protocol, where types are known before values."""
        given = (f"{name} => ${n}::text::{kind}" for n, (name, kind, _) in enumerate(self.arguments, 1))
        return f"select * from wakeful.{self.function}({', '.join(given)})"

    def script(self) -> str:
        """The call with literals: the simple protocol, as psql sends it."""
        given = (f"{name} => {_literal(value)}::{kind}" for name, kind, value in self.arguments)
        return f"select * from wakeful.{self.function}({', '.join(given)})"


def _literal(value: str | None) -> str:
    if value is None:
        return "null"
    # A NUL would end the message itself: the simple protocol can't carry one.
    escaped = value.replace("\x00", "").replace("\\", "\\\\").replace("'", "\\'")
    return f"E'{escaped}'"


def calls_of(function: str, **kinds: tuple[str, st.SearchStrategy[str | None]]) -> st.SearchStrategy[Call]:
    """Calls with these arguments, each null now and then."""
    drawn = st.tuples(
        *(
            st.tuples(st.just(name), st.just(kind), st.none() | values)
            for name, (kind, values) in kinds.items()
        )
    )
    return drawn.map(lambda arguments: Call(function, arguments))


@st.composite
def enqueues(draw: st.DrawFn) -> Call:
    """A call of enqueue() with some of its options: each alone is refused often enough."""
    chosen = draw(st.lists(st.sampled_from(sorted(OPTIONS)), unique=True, max_size=4))
    job_type = ("job_type", "text", draw(st.just("T") | NAMES))
    return Call("enqueue", (job_type, *((name, OPTIONS[name][0], draw(OPTIONS[name][1])) for name in chosen)))


ENQUEUES = enqueues() | calls_of("enqueue_many", jobs=("jsonb", BATCHES), notify=("boolean", FLAGS))
OTHERS = st.one_of(
    calls_of("cancel", job_id=("uuid", IDS), reason=("text", NAMES)),
    calls_of("requeue", job_id=("uuid", IDS)),
    calls_of("job", job_id=("uuid", IDS)),
    calls_of("find_active", dedupe_key=("text", NAMES)),
    calls_of("backlog", queue=("text", NAMES)),
    calls_of("pause", queue=("text", NAMES), reason=("text", NAMES)),
    calls_of("resume", queue=("text", NAMES)),
    calls_of(
        "alert", kind=("text", NAMES | st.just("publish_failed")), title=("text", NAMES), dedupe_key=("text", NAMES),
        severity=("text", NAMES | st.just("error")), subject=("text", NAMES), body=("jsonb", DOCUMENTS),
        job_type=("text", NAMES), job_id=("uuid", IDS),
    ),
    calls_of("expire_finished", history=("interval", SPANS)),
    calls_of("expire_audit", age=("interval", SPANS), most=("integer", NUMBERS)),
)  # fmt: skip


@given(
    made=st.lists(ENQUEUES, min_size=1, max_size=4), others=st.lists(OTHERS, max_size=4), simple=st.booleans()
)
@example(made=[Call("enqueue", (("job_type", "text", "T"),))], others=[], simple=True)
@fuzz
async def test_whatever_is_given_is_refused_by_a_documented_code_or_becomes_a_job(
    sql: Connection, made: list[Call], others: list[Call], simple: bool
) -> None:
    transaction = sql.transaction()
    await transaction.start()
    try:
        for call in made:
            await attempt(sql, call, simple=simple)
        ids = [row["job_id"] for row in await sql.fetch("select job_id from wakeful.jobs limit 3")]
        for call in others:
            await attempt(sql, call, simple=simple)
            for job_id in ids:
                # The same function on jobs that there are.
                aimed = tuple((n, k, str(job_id) if n == "job_id" else v) for n, k, v in call.arguments)
                if aimed != call.arguments:
                    await attempt(sql, Call(call.function, aimed), simple=simple)
        await drain(sql)
    finally:
        await transaction.rollback()


async def attempt(sql: Connection, call: Call, *, simple: bool) -> None:
    """Make a call in a savepoint; what is refused has a code that producers are told of."""
    try:
        async with sql.transaction():
            if simple:
                await sql.execute(call.script())
            else:
                await sql.fetch(call.statement(), *(value for _, _, value in call.arguments))
    except asyncpg.PostgresError as error:
        said = f"{error.sqlstate}: {error}"
    except ValueError:  # the driver's own word for a NUL
        said = "22021" if any("\x00" in (value or "") for _, _, value in call.arguments) else "unreadable"
    else:
        return
    assert said[:5] in CODES, said
    assert not said.startswith("XX"), said


async def drain(sql: Connection) -> None:
    """Claim and finish every job there is; nothing of them may be left."""
    await sql.execute("update wakeful.queue set paused_at = null")
    for table in ("ready", "scheduled"):
        lost = f"""select j.job_id from wakeful.{table} j
                   where j.lane_id <> wakeful.lane_id(j.queue, j.priority, j.job_type, j.limit_key, false)
                      or not exists (select from wakeful.lane_seen s where s.lane_id = j.lane_id)"""
        assert await sql.fetch(lost) == [], f"a daemon would not find the lane of a job in {table}"
    await sql.execute(
        """with gone as (delete from wakeful.scheduled s returning s)
           insert into wakeful.ready
           select (jsonb_populate_record(
               null::wakeful.ready, to_jsonb(g.s) || jsonb_build_object('pos', nextval('wakeful.position')))).*
           from gone g"""
    )
    waiting = await sql.fetch("select job_id, queue from wakeful.ready")
    assert await sql.fetchval("select wakeful.backlog()") == len(waiting)
    for row in waiting:
        assert await sql.fetchval("select status from wakeful.job($1)", row["job_id"]) == "PENDING"
        assert await claim(sql, row["job_id"]) == 4711
        await finish(sql, row["job_id"])
        assert (
            await sql.fetchval("select status from wakeful.jobs where job_id = $1", row["job_id"]) == "DONE"
        )
    for table in ("ready", "scheduled", "dedupe"):
        assert await sql.fetchval(f"select count(*) from wakeful.{table}") == 0, (
            f"something is left in {table}"
        )


async def test_every_function_that_producers_may_call_is_fuzzed(db: ClonedDatabase, sql: Connection) -> None:
    callable_ones = await sql.fetch(
        """select proname from pg_proc
           where pronamespace = 'wakeful'::regnamespace
             and has_function_privilege('wakeful_producer', oid, 'execute')"""
    )
    source = (TOP / "tests" / "schema" / "test_fuzz_sql_api.py").read_text()

    assert [row["proname"] for row in callable_ones if f'"{row["proname"]}"' not in source] == []
