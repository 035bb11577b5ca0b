"""The schema `wakeful` of a database as text, line by line and in order, so that two installations can be compared.

Everything that somebody could notice: columns, defaults, constraints, indexes, storage options, functions with their
bodies and settings, types, views, sequences, comments, rights, and the rows that an installation starts with.
"""

from __future__ import annotations

from typing import Final

from support.databases import Connection

_QUERIES: Final = (
    # relations
    """select format('%s %s: %s, options %s, partition %s, rights %s', c.relkind, c.relname, c.relpersistence,
                     coalesce(c.reloptions::text, '-'), coalesce(pg_get_expr(c.relpartbound, c.oid), '-'),
                     coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(c.relacl) as a), '-'))
       from pg_class c where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'p', 'v', 'S', 'c')""",
    # columns, in their order
    """select format('column %s.%s %s: %s %s %s default %s identity %s',
                     c.relname, lpad(a.attnum::text, 3, '0'), a.attname,
                     format_type(a.atttypid, a.atttypmod), case when a.attnotnull then 'not null' else 'null' end,
                     a.attstorage, coalesce(pg_get_expr(d.adbin, d.adrelid), '-'), a.attidentity)
       from pg_class c
       join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
       left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
       where c.relnamespace = 'wakeful'::regnamespace and c.relkind in ('r', 'p', 'v', 'c')""",
    """select format('constraint %s.%s: %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
       from pg_constraint where connamespace = 'wakeful'::regnamespace""",
    """select format('index %s', pg_get_indexdef(i.indexrelid))
       from pg_index i join pg_class c on c.oid = i.indexrelid where c.relnamespace = 'wakeful'::regnamespace""",
    """select format('sequence %s: %s from %s by %s, %s to %s, cache %s',
                     seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache)
       from pg_sequence where seqrelid in (select oid from pg_class where relnamespace = 'wakeful'::regnamespace)""",
    """select format('function %s rights %s', pg_get_functiondef(p.oid),
                     coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(p.proacl) as a), '-'))
       from pg_proc p where p.pronamespace = 'wakeful'::regnamespace""",
    """select format('view %s: %s', c.relname, pg_get_viewdef(c.oid))
       from pg_class c where c.relnamespace = 'wakeful'::regnamespace and c.relkind = 'v'""",
    """select format('comment on %s: %s', pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description)
       from pg_description d
       where pg_describe_object(d.classoid, d.objoid, d.objsubid) like '%wakeful%'""",
    """select format('schema %s rights %s', nspname,
                     coalesce((select string_agg(a::text, ' ' order by a::text) from unnest(nspacl) as a), '-'))
       from pg_namespace where nspname = 'wakeful'""",
    "select format('duty %s', name) from wakeful.duty",
    """select format('installation %s', to_jsonb(i) - 'installed_at' - 'system_identifier')
       from wakeful.installation i""",
)


async def catalogue(connection: Connection) -> list[str]:
    """Give the lines, sorted."""
    lines: list[str] = []
    for query in _QUERIES:
        lines += [row[0] for row in await connection.fetch(query)]
    return sorted(lines)
