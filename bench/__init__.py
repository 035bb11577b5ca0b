"""Measurements of Wakeful as it ships: one daemon process, one PostgreSQL beside it, figures with how they were got."""
