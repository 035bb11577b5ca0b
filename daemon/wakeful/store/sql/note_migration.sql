-- A migration was applied, in its own transaction.   $1 version   $2 file name   $3 sha256   $4 older daemons must not run
with noted as (
    insert into wakeful.migration (version, name, checksum) values ($1::integer, $2::text, $3::text)
)
update wakeful.installation
set schema_version = greatest(schema_version, $1::integer),
    breaking_version = case when $4::boolean then greatest(breaking_version, $1::integer) else breaking_version end
