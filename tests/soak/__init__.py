"""The soak: real daemons under load and random faults, and a judge with a ledger outside of the database."""
