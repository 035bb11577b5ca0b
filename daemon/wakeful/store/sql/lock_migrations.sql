-- One migration at a time in this database; let go at the end of the transaction, so that it works through any pooler.
select pg_advisory_xact_lock(hashtextextended('wakeful.migrate', 0))
