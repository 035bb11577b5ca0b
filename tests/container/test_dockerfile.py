"""The Dockerfile, held to what an operator may count on: small, fixed, unprivileged, and stopped the right way."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tomllib

import anyio.to_thread
import pytest

from support.container import Instruction, named, pairs, read_dockerfile, seconds
from support.serving import serving
from support.sources import TOP
from wakeful import config

DOCKERFILE = read_dockerfile((TOP / "Dockerfile").read_text())
BUILD, FINAL = DOCKERFILE.stages[0], DOCKERFILE.final
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text())
SECRET = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|KEY|DSN|DATABASE_URL")


def only(instructions: tuple[Instruction, ...], name: str) -> Instruction:
    (one,) = named(instructions, name)
    return one


def commands(instructions: tuple[Instruction, ...]) -> list[str]:
    """Give each single command that the RUN instructions of a stage carry out."""
    runs = (run.text for run in named(instructions, "RUN"))
    return [" ".join(command.split()) for run in runs for command in re.split(r"&&|\|\||;|\|", run)]


def probe() -> list[str]:
    words = only(FINAL, "HEALTHCHECK").text.partition("CMD ")[2]
    assert words.startswith("["), "the probe needs no shell"
    return Instruction("CMD", words).words


def test_the_base_image_is_an_argument_of_every_stage() -> None:
    assert pairs(DOCKERFILE.before, "ARG") == {"BASE": "python:3.12-slim"}
    assert [stage[0].words[0] for stage in DOCKERFILE.stages] == ["${BASE}", "${BASE}"]


def test_every_package_is_checked_against_the_lock_and_nothing_else_is_fetched() -> None:
    pip = [command for command in commands(BUILD) if "/pip " in command]
    fetching = [command for command in pip if "--no-index" not in command]
    assert len(fetching) == 1 and "--require-hashes" in fetching[0] and "requirements.lock" in fetching[0]
    assert len(pip) == 4
    assert [one.text for one in DOCKERFILE.every if one.name == "ADD" or "http://" in one.text] == []


def test_the_lock_holds_all_that_the_image_is_made_of() -> None:
    locked = set(re.findall(r"^([\w.-]+)==", (TOP / "requirements.lock").read_text(), re.MULTILINE))
    wanted = PROJECT["project"]["dependencies"] + PROJECT["build-system"]["requires"]
    assert {re.split(r"[^\w.-]", requirement)[0] for requirement in wanted} <= locked


def test_the_image_gets_the_environment_and_neither_build_tools_nor_caches() -> None:
    copied = [(one.flags.get("from"), one.arguments) for one in named(FINAL, "COPY")]
    assert copied == [("build", ["/opt/wakeful", "/opt/wakeful"])]
    assert {command.split()[0] for command in commands(FINAL)} == {"groupadd", "useradd"}
    assert any("--without-pip /opt/wakeful" in command for command in commands(BUILD))


def test_it_runs_as_a_fixed_user_who_is_not_root() -> None:
    (user,) = only(FINAL, "USER").words
    uid, gid = (int(number) for number in user.split(":"))
    assert uid > 1000 and gid > 1000
    assert any(f"useradd --uid {uid} --gid {gid} " in command for command in commands(FINAL))


def test_nothing_has_to_be_written_to_its_root_file_system() -> None:
    assert pairs(FINAL, "ENV")["PYTHONDONTWRITEBYTECODE"] == "1"
    assert named(FINAL, "VOLUME") == []


def test_the_daemon_itself_is_the_first_process_and_gets_its_stop_signal() -> None:
    entry, command = only(FINAL, "ENTRYPOINT"), only(FINAL, "CMD")
    assert entry.is_exec_form and entry.words == ["wakeful"]
    assert command.is_exec_form and command.words == ["run"]
    assert only(FINAL, "STOPSIGNAL").words == ["SIGTERM"]


def test_http_is_reachable_from_outside_of_the_container() -> None:
    environment = pairs(FINAL, "ENV")
    http = config.load(environ=environment | {"DATABASE_URL": "postgresql://db/wakeful"}).settings.http
    assert (http.enabled, http.host, http.port) == (True, "0.0.0.0", 8080)
    assert only(FINAL, "EXPOSE").words == ["8080"]


def test_the_labels_say_what_it_is() -> None:
    labels = pairs(FINAL, "LABEL")
    arguments = pairs(FINAL, "ARG")
    assert {name.removeprefix("org.opencontainers.image.") for name in labels} == {
        "title",
        "description",
        "licenses",
        "version",
        "revision",
        "base.name",
    }
    assert labels["org.opencontainers.image.description"] == PROJECT["project"]["description"]
    assert labels["org.opencontainers.image.licenses"] == PROJECT["project"]["license"]
    assert labels["org.opencontainers.image.version"] == "${VERSION}"
    assert arguments["VERSION"] == PROJECT["project"]["version"]


def test_no_secret_is_an_argument_or_a_variable_of_the_image() -> None:
    names = {**pairs(DOCKERFILE.every, "ENV"), **pairs(DOCKERFILE.every, "ARG")}
    assert [name for name in names if SECRET.search(name)] == []


def test_the_probe_needs_no_program_but_python() -> None:
    assert probe()[0] == "python"
    assert not re.search(r"\b(curl|wget|nc)\b", (TOP / "Dockerfile").read_text())


def test_a_probe_gives_up_before_it_is_given_up() -> None:
    flags = only(FINAL, "HEALTHCHECK").flags
    (timeout,) = (float(number) for number in re.findall(r"timeout=(\d+)\)", probe()[-1]))
    assert timeout < seconds(flags["timeout"]) < seconds(flags["interval"])


async def run_probe(port: int) -> int:
    # a proxy in the container's environment has nothing to do with its own probe
    proxies = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    environment = {**os.environ, **proxies, "WAKEFUL__HTTP__PORT": str(port)}
    command = [sys.executable, *probe()[1:]]
    finished = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, env=environment, capture_output=True, check=False)
    )
    return finished.returncode


async def test_the_probe_tells_a_live_process_from_a_stuck_one() -> None:
    async with serving() as served:
        served.health.enter("serve")
        alive = await run_probe(served.port)
        with served.health.loop("claimer", bound=0.0):
            stuck = await run_probe(served.port)
    assert alive == 0
    assert stuck != 0


async def test_the_probe_fails_where_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert await run_probe(free.getsockname()[1]) != 0


@pytest.mark.parametrize("stage", DOCKERFILE.stages, ids=["build", "final"])
def test_each_file_that_is_copied_from_the_folder_is_there(stage: tuple[Instruction, ...]) -> None:
    copied = [one.arguments[:-1] for one in named(stage, "COPY") if "from" not in one.flags]
    assert [path for paths in copied for path in paths if not (TOP / path).exists()] == []
