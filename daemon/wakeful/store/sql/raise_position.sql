-- Bring the position sequence above every position in use (I4); null: it was.
select wakeful.raise_position() as raised_to
