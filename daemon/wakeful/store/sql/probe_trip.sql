-- There and back: what any statement costs at least.
select 1
