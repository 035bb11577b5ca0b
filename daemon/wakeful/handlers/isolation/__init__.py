"""Handlers in processes of their own (`isolation = "process"`): a held interpreter, a leak or a crash costs one job.

`pool` keeps the processes and `carrying` sees one attempt through, both in the daemon; `child` is what runs on the
other side, begun by `bootstrap`. Between them go `frames`.
"""
