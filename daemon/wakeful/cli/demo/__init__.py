"""The demo: a daemon on a PostgreSQL of its own, with the example's handlers, told live in the terminal.

Read `session` first: it is the run from its first line to its last. What is seen of the jobs is `story`, how it is
read `watching`; how it looks `frame`, `changes`, `summary` and `words`, on a `screen`. The example itself
(`onboarding`) is imported by `surroundings` only, and late, since it needs the libraries of the extra `demo`.
"""
