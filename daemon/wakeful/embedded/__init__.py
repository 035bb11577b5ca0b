"""A private PostgreSQL for the demo, for development and for tests; never for production.

It owns one data folder, one server process and one short socket folder, and keeps this: when the process that started
the server ends, however it ends, the server shuts down cleanly and nothing of it runs on. Only the data stay. It speaks
no SQL: schema and connections are the store's.
"""

from __future__ import annotations

from wakeful.embedded.binaries import Binaries, find_binaries
from wakeful.embedded.place import Server
from wakeful.embedded.postmaster import Postmaster, StopMode, running_server

__all__ = ["Binaries", "Postmaster", "Server", "StopMode", "find_binaries", "running_server"]
