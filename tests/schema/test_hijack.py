"""A producer who controls its own search_path and makes its own functions and operators gains nothing by them."""

from __future__ import annotations

import pytest

from support.databases import ClonedDatabase, Connection
from support.factories import job_in

# Each would raise if one of Wakeful's functions, which run as the owner of the schema, ever found it.
TRAPS = """
create function {schema}.sprung() returns text language plpgsql as
    $$ begin raise exception 'a trap was sprung as %', current_user; end $$;
create function {schema}.now() returns timestamptz language sql as 'select {schema}.sprung()::timestamptz';
create function {schema}.clock_timestamp() returns timestamptz language sql as 'select {schema}.sprung()::timestamptz';
create function {schema}.pg_notify(text, text) returns void language sql as 'select {schema}.sprung()';
create function {schema}.jsonb_typeof(jsonb) returns text language sql as 'select {schema}.sprung()';
create function {schema}.octet_length(text) returns int language sql as 'select {schema}.sprung()::int';
create function {schema}.uuid_send(uuid) returns bytea language sql as 'select {schema}.sprung()::bytea';
create function {schema}.nextval(regclass) returns bigint language sql as 'select {schema}.sprung()::bigint';
create function {schema}.texts_equal(text, text) returns boolean language sql as 'select {schema}.sprung()::boolean';
create function {schema}.uuids_equal(uuid, uuid) returns boolean language sql as 'select {schema}.sprung()::boolean';
create operator {schema}.= (leftarg = text, rightarg = text, function = {schema}.texts_equal);
create operator {schema}.~ (leftarg = text, rightarg = text, function = {schema}.texts_equal);
create operator {schema}.= (leftarg = uuid, rightarg = uuid, function = {schema}.uuids_equal);
create type {schema}.fault as (sqlstate text, message text, hint text);
create type {schema}.batch_item as (ordinal integer);
create domain {schema}.uuid as text check ({schema}.sprung() is not null);
create domain {schema}.jsonb as text check ({schema}.sprung() is not null);
create domain {schema}.interval as text check ({schema}.sprung() is not null);
create function {schema}.coined(text, anyelement) returns text language sql as 'select {schema}.sprung()';
create function {schema}.spring(text, text, text) returns text language sql as 'select {schema}.sprung()';
create operator {schema}.|| (leftarg = text, rightarg = anyelement, function = {schema}.coined);
create aggregate {schema}.string_agg(text, text) (sfunc = {schema}.spring, stype = text);
create table {schema}.dedupe (key text, job_id uuid);
create view {schema}.jobs as select {schema}.sprung() as job_id;
create table {schema}.installation (payload_limit int, subject_paths text[]);
create table {schema}.ready (job_id uuid);
"""
CALLS = [
    """select * from wakeful.enqueue(
           'T', '{"subject": "s"}', dedupe_key => 'k', run_after => '2031-01-01', tags => '{a}')""",
    "select * from wakeful.enqueue('T')",
    """select * from wakeful.enqueue_many(
           '[{"job_type": "T", "dedupe_key": "k2", "deadline": "1h", "tags": ["a"]}]')""",
    "select wakeful.find_active('k')",
    "select * from wakeful.job((select wakeful.find_active('k')))",
    "select wakeful.backlog('default')",
    "select wakeful.alert('k', subject => 's')",
    "select wakeful.cancel('{job_id}', 'why')",
]


@pytest.mark.parametrize("place", ["schema", "temporary"])
async def test_traps_on_the_search_path_are_not_sprung(
    db: ClonedDatabase, sql: Connection, place: str
) -> None:
    login, schema = f"mallory_of_{db.name}", "mallory" if place == "schema" else "pg_temp"
    await sql.execute(
        f"create role {login} login in role wakeful_producer; create schema mallory authorization {login}"
    )
    job_id = await job_in(sql, "READY")
    mallory = await db.connect(role=login)
    await mallory.execute(TRAPS.format(schema=schema))
    if place == "schema":
        await mallory.execute("set search_path = mallory, pg_catalog")
    else:
        await mallory.execute("set search_path = pg_temp, pg_catalog")

    for call in CALLS:
        await mallory.fetch(call.replace("{job_id}", str(job_id)))

    # They are armed: her own statements fall into them.
    if place == "schema":
        with pytest.raises(Exception, match=f"a trap was sprung as {login}"):
            await mallory.fetch("select now()")


async def test_functions_with_the_owners_rights_fix_their_search_path(sql: Connection) -> None:
    rows = await sql.fetch(
        """select oid::regprocedure::text as name, proconfig
           from pg_proc where pronamespace = 'wakeful'::regnamespace and prosecdef"""
    )

    assert len(rows) >= 14
    assert {row["name"]: row["proconfig"][0] for row in rows} == {
        row["name"]: "search_path=pg_catalog, pg_temp" for row in rows
    }


async def test_every_object_of_wakefuls_is_named_with_its_schema_inside_a_function(sql: Connection) -> None:
    """With nothing on the search path but pg_catalog, each public call still works, from psql as from a driver."""
    await sql.execute("set search_path = ''")
    job_id = await job_in(sql, "DEAD")

    for call in CALLS:
        await sql.fetch(call.replace("{job_id}", str(job_id)))
    await sql.fetch("select wakeful.requeue($1)", job_id)
    await sql.fetch("select wakeful.pause('q'), wakeful.resume('q')")
    await sql.fetch("select * from wakeful.jobs")
    await sql.fetch("select wakeful.grant_roles()")
