"""The peers: how each is driven, when it has nothing left, and what to know about the comparison."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
NODE_MODULES = HERE / "node_modules"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One other queue. `gone` is true when all of its jobs are done; `jobs` is how many it is given to drain."""

    name: str
    package: str
    driver: str
    gone: str
    settings: str
    jobs: int

    @property
    def command(self) -> Sequence[str]:
        """How its driver is started."""
        if self.driver.endswith(".mjs"):
            return ["node", str(HERE / self.driver)]
        return [str(PYTHON), "-m", f"bench.peers.{self.driver}"]

    @property
    def told(self) -> str:
        """Its name and the version that is installed, with that of Node.js where it runs there."""
        if not self.driver.endswith(".mjs"):
            (folder,) = PYTHON.parents[1].glob(f"lib/*/site-packages/{self.package}*.dist-info")
            return f"{self.name} {folder.name.removesuffix('.dist-info').rpartition('-')[2]}"
        version = json.loads((NODE_MODULES / self.package / "package.json").read_text())["version"]
        node = subprocess.run(
            ["node", "--version"], capture_output=True, text=True, check=True
        ).stdout.strip()
        return f"{self.name} {version} (Node.js {node})"

    def missing(self) -> str | None:
        """Why it can't be measured here; None: it can."""
        if self.driver.endswith(".mjs"):
            if shutil.which("node") is None:
                return "node is not on PATH"
            return (
                None
                if (NODE_MODULES / self.package).is_dir()
                else "run `make bench-peers`, which installs it"
            )
        if not PYTHON.exists():
            return "run `make bench-peers`, which installs it"
        folders = list(PYTHON.parents[1].glob(f"lib/*/site-packages/{self.package}"))
        return None if folders else "its package does not install on this Python"


PEERS: Sequence[Peer] = (
    Peer(
        name="PgQueuer",
        package="pgqueuer",
        driver="drive_pgqueuer",
        gone="select not exists (select from pgqueuer)",
        settings="asyncpg, uvloop, batches of 500; deletes jobs, keeps a log row for each change",
        jobs=50_000,
    ),
    Peer(
        name="graphile-worker",
        package="graphile-worker",
        driver="drive_graphile.mjs",
        gone="select not exists (select from graphile_worker._private_jobs)",
        settings="24 at once, local queue of 500, batched completion; deletes jobs, keeps no history",
        jobs=100_000,
    ),
    Peer(
        name="pg-boss",
        package="pg-boss",
        driver="drive_pgboss.mjs",
        gone="select not exists (select from pgboss.job where name = 'noop' and state < 'completed')",
        settings="batches of 1,000, a whole batch completed at once; keeps finished jobs",
        jobs=50_000,
    ),
    Peer(
        name="Chancy",
        package="chancy",
        driver="drive_chancy",
        gone="select not exists (select from chancy_jobs where state not in ('succeeded', 'failed'))",
        settings="asyncio executor, 100 at once, eager polling; keeps finished jobs",
        jobs=10_000,
    ),
    Peer(
        name="awa",
        package="awa",
        driver="drive_awa",
        gone="select not exists (select from awa.jobs where state not in ('completed', 'failed'))",
        settings="Rust engine, Python handlers, 100 workers; keeps finished jobs",
        jobs=10_000,
    ),
    Peer(
        name="Oban",
        package="oban",
        driver="drive_oban",
        gone="select not exists (select from oban_jobs where state not in ('completed', 'discarded'))",
        settings="100 at once; keeps finished jobs",
        jobs=10_000,
    ),
    Peer(
        name="SAQ",
        package="saq",
        driver="drive_saq",
        gone="select not exists (select from saq_jobs where status in ('new', 'queued', 'active'))",
        settings="100 at once over 20 connections; keeps finished jobs ten minutes",
        jobs=3_000,
    ),
    Peer(
        name="procrastinate",
        package="procrastinate",
        driver="drive_procrastinate",
        gone="select not exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        settings="100 at once over 20 connections, one claim a job; keeps finished jobs and events",
        jobs=3_000,
    ),
)
