"""Where it was measured: machine, versions and load, which belong to every figure."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

import asyncpg

from bench.stage import Cluster


async def described(cluster: Cluster) -> dict[str, str]:
    """The surroundings, each by its name."""
    connection = await asyncpg.connect(cluster.dsn("postgres"))
    server = await connection.fetchval("select current_setting('server_version')")
    buffers = await connection.fetchval("select current_setting('shared_buffers')")
    await connection.close()
    return {
        "machine": f"{platform.machine()}, {_processor()}, {os.cpu_count()} cores, {_memory():.0f} GB",
        "load": f"{os.getloadavg()[0]:.1f} at the start",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "PostgreSQL": f"{server}, shared_buffers {buffers}, fsync and synchronous_commit on",
        "asyncpg": importlib.metadata.version("asyncpg"),
        "uvloop": _uvloop(),
        "wakeful": importlib.metadata.version("wakeful"),
    }


def _uvloop() -> str:
    if importlib.util.find_spec("uvloop") is None:
        return "not installed: the daemon runs on asyncio's own loop"
    return f"{importlib.metadata.version('uvloop')}, used by the daemon"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or "processor unknown"


def _memory() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
