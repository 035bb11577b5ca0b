"""What holds for the whole schema: comments, names, grants, indexes, the shape that a claim stands on."""

from __future__ import annotations

import re

from support.cluster import SCHEMA
from support.databases import Connection

TEXT = SCHEMA.read_text()
STATEMENTS = SCHEMA.parent / "daemon/wakeful/store/sql"
PUBLIC = {
    "enqueue",
    "enqueue_many",
    "find_active",
    "cancel",
    "requeue",
    "job",
    "backlog",
    "pause",
    "resume",
    "alert",
}
# What a claim writes; in an index it would make each claim more than a HOT update.
CLAIM_COLUMNS = {
    "owner",
    "claim",
    "attempts",
    "run_no",
    "started_at",
    "deadline_at",
    "cancel_requested_at",
    "moved_by",
}


async def test_everything_has_a_comment(sql: Connection) -> None:
    silent = await sql.fetch(
        """select 'schema ' || nspname as what from pg_namespace
           where nspname = 'wakeful' and obj_description(oid, 'pg_namespace') is null
           union all
           select 'relation ' || relname from pg_class
           where relnamespace = 'wakeful'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'c')
             and obj_description(oid, 'pg_class') is null
             and obj_description(reltype, 'pg_type') is null
           union all
           select 'sequence ' || c.relname from pg_class c
           where c.relnamespace = 'wakeful'::regnamespace and c.relkind = 'S'
             and obj_description(c.oid, 'pg_class') is null
             and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'i')
           union all
           select 'column ' || c.relname || '.' || a.attname from pg_class c join pg_attribute a on a.attrelid = c.oid
           where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'p', 'v') and not c.relispartition
             and a.attnum > 0 and not a.attisdropped and col_description(c.oid, a.attnum) is null
           union all
           select 'function ' || oid::regprocedure::text from pg_proc
           where pronamespace = 'wakeful'::regnamespace and obj_description(oid, 'pg_proc') is null"""
    )

    assert [row["what"] for row in silent] == []


async def test_a_comment_fits_on_a_screen(sql: Connection) -> None:
    long = await sql.fetch(
        """select left(description, 60) from pg_description
           where (objoid in (select oid from pg_class where relnamespace = 'wakeful'::regnamespace)
                  or objoid in (select oid from pg_proc where pronamespace = 'wakeful'::regnamespace))
             and (length(description) > 350 or description ~ '\\.$|^\\s|\\n')"""
    )

    assert [row[0] for row in long] == []


async def test_each_public_function_has_one_signature(sql: Connection) -> None:
    found = await sql.fetch(
        "select proname, count(*) from pg_proc where pronamespace = 'wakeful'::regnamespace group by proname"
    )

    counted = {row[0]: row[1] for row in found}
    assert set(counted) >= PUBLIC
    assert set(counted.values()) == {1}


async def test_nothing_is_granted_to_public(sql: Connection) -> None:
    granted = await sql.fetch(
        """with grants (what, acl) as (
               select 'schema ' || nspname, coalesce(nspacl, acldefault('n', nspowner)) from pg_namespace
               where nspname = 'wakeful'
               union all
               select relname,
                      coalesce(relacl, acldefault(case relkind when 'S' then 's' else 'r' end::"char", relowner))
               from pg_class where relnamespace = 'wakeful'::regnamespace and relkind in ('r', 'p', 'v', 'S')
               union all
               select oid::regprocedure::text, coalesce(proacl, acldefault('f', proowner)) from pg_proc
               where pronamespace = 'wakeful'::regnamespace)
           select what, a.privilege_type from grants cross join aclexplode(acl) as a where a.grantee = 0"""
    )

    assert [tuple(row) for row in granted] == []


async def test_nothing_is_granted_to_public_before_the_roles_are_there_either(sql: Connection) -> None:
    await sql.execute("drop schema wakeful cascade")
    async with sql.transaction():
        await sql.execute(TEXT)

    await test_nothing_is_granted_to_public(sql)


async def test_the_tables_of_jobs_share_their_columns_in_order(sql: Connection) -> None:
    columns = {
        table: [
            (row["attname"], row["type"], row["attnotnull"])
            for row in await sql.fetch(
                """select attname, format_type(atttypid, atttypmod) as type, attnotnull from pg_attribute
                   where attrelid = $1::text::regclass and attnum > 0 and attname not in ('pos', 'slot')
                   order by attnum""",
                f"wakeful.{table}",
            )
        ]
        for table in ("ready", "scheduled", "dead", "finished")
    }

    common = [column[0] for column in columns["ready"]].index("moved_by") + 1
    assert columns["scheduled"][:common] == columns["ready"][:common]
    # What has ended differs in what may be null: nothing in `dead`, in history whatever nearly every job has.
    for table in ("dead", "finished"):
        assert [one[:2] for one in columns[table][:common]] == [one[:2] for one in columns["ready"][:common]]


async def test_no_claim_column_is_in_an_index_of_ready(sql: Connection) -> None:
    indexes = await sql.fetch(
        "select pg_get_indexdef(indexrelid) from pg_index where indrelid = 'wakeful.ready'::regclass"
    )

    definitions = [row[0] for row in indexes]
    assert len(definitions) == 2
    for definition in definitions:
        assert not CLAIM_COLUMNS & set(re.findall(r"\w+", definition.partition(" USING ")[2])), definition


async def test_a_claim_is_a_hot_update(sql: Connection) -> None:
    await sql.execute(
        """select * from wakeful.enqueue_many((
               select jsonb_agg('{"job_type": "T"}'::jsonb) from generate_series(1, 200)))"""
    )

    async with sql.transaction():
        await sql.execute(
            """update wakeful.ready set owner = 1, claim = 2, attempts = 1, run_no = 1, started_at = now(),
                                        deadline_at = now() + deadline"""
        )
        counted = await sql.fetchrow(
            """select pg_stat_get_xact_tuples_updated(oid), pg_stat_get_xact_tuples_hot_updated(oid)
               from pg_class where oid = 'wakeful.ready'::regclass"""
        )

    assert counted is not None
    assert tuple(counted) == (200, 200)


async def test_sequences_hand_out_one_value_at_a_time(sql: Connection) -> None:
    cached = await sql.fetch(
        "select seqrelid::regclass::text, seqcache from pg_sequence where seqrelid::regclass::text like 'wakeful.%'"
    )

    assert {row["seqcache"] for row in cached} == {1}


async def test_every_constraint_is_named_after_its_table(sql: Connection) -> None:
    named = await sql.fetch(
        """select c.conrelid::regclass::text as relation, c.conname
           from pg_constraint c join pg_class r on r.oid = c.conrelid
           where r.relnamespace = 'wakeful'::regnamespace and not r.relispartition and c.contype <> 'n'"""
    )

    for row in named:
        table = row["relation"].removeprefix("wakeful.")
        assert row["conname"].startswith(f"{table}_"), tuple(row)
        assert f"constraint {row['conname']} " in TEXT, tuple(row)


def test_every_index_has_the_statement_that_it_serves() -> None:
    lines = TEXT.splitlines()
    indexes = [number for number, line in enumerate(lines) if re.match(r"create (unique )?index", line)]
    assert len(indexes) >= 7

    for number in indexes:
        comment = lines[number - 1]
        assert comment.startswith("-- Serves "), lines[number]
        named = re.findall(r"\w+\.sql|\w+\(\)", comment)
        assert named, comment
        for name in named:
            there = (
                (STATEMENTS / name).exists()
                if name.endswith(".sql")
                else f"create function wakeful.{name[:-2]}(" in TEXT
            )
            assert there, f"{comment}: there is no {name}"


def test_the_file_tells_its_story_in_order() -> None:
    """Tables before functions before views before roles; one comment line of why for each, none for what."""
    assert TEXT.startswith("-- Wakeful: the whole database")
    order = [
        TEXT.index(part)
        for part in (
            "create table wakeful.ready",
            "create function wakeful.enqueue(",
            "create view wakeful.jobs",
            "create function wakeful.grant_roles",
        )
    ]
    assert order == sorted(order)
    assert max(len(line) for line in TEXT.splitlines()) < 400
