"""A program that tries sinks over TLS: reads [kind, url] in JSON, and writes what became of each.

It is a process of its own, since whose certificates are trusted is settled when the sinks' HTTP client is imported.
"""

from __future__ import annotations

import json
import sys

import anyio

from support.vendors import outcome, sink_of, tried


async def try_all() -> None:
    """Try each once."""
    answers = [await tried(sink_of(kind, url)) for kind, url in json.load(sys.stdin)]
    json.dump([[outcome(answer), str(answer)] for answer in answers], sys.stdout)


if __name__ == "__main__":
    anyio.run(try_all)
