"""The demo as a process of its own, told in JSON lines, and a look for anything that it has left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from support.process import Daemon, die_with_parent

QUIET_PORT = {"WAKEFUL__HTTP__PORT": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a demo ended, and what it told."""

    code: int
    out: str
    err: str

    @property
    def told(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def events(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """The lines of one event with these fields."""
        return [
            line
            for line in self.told
            if line["event"] == event and all(line.get(key) == value for key, value in fields.items())
        ]


def demo_command(*arguments: object, data: Path) -> list[str]:
    """The command line of a demo on a data folder."""
    return [sys.executable, "-W", "error", "-m", "wakeful", "demo", "--data", str(data), *map(str, arguments)]


def run_demo(
    *arguments: object, data: Path, environ: Mapping[str, str] | None = None, timeout: float = 90.0
) -> Ended:
    """Run a demo to its end."""
    ended = subprocess.run(
        demo_command(*arguments, data=data),
        env=environment(environ),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)


@contextmanager
def running_demo(
    *arguments: object, data: Path, environ: Mapping[str, str] | None = None
) -> Iterator[Daemon]:
    """Run a demo beside the test, telling in JSON; it never outlives the block."""
    process = subprocess.Popen(
        demo_command("--json", *arguments, data=data),
        env=environment(environ),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, before anything else runs there
    )
    demo = Daemon(process)
    try:
        yield demo
    finally:
        end(process)
        demo.close()


def end(process: subprocess.Popen[str]) -> None:
    """Kill it where it still runs."""
    if process.poll() is None:
        process.kill()
    process.wait(10)


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a demo needs of this process's environment, and nothing of the caller's."""
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **QUIET_PORT, **(more or {})}


def left_by(data: Path, ready: Mapping[str, Any]) -> list[str]:
    """What is left of a demo that said `ready`, beside its data: processes, its lock, its socket."""
    left = [f"process {pid}: {name}" for pid, name in processes_of(data)]
    socket_folder = Path(parse_qs(urlsplit(str(ready["database"])).query)["host"][0])
    return left + [str(path) for path in (data / "owner", socket_folder) if path.exists()]


def processes_of(data: Path) -> list[tuple[int, str]]:
    """Processes that were started for this folder, or work in it."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                command = (
                    (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                )
                inside = str((process / "cwd").readlink()).startswith(str(data))
            except OSError:
                continue
            if inside or str(data) in command:
                found.append((int(process.name), command))
    return found
