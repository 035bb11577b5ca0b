"""Fixtures of all tests: one private server a session, one fresh database a test. What is exported is never used.

With pytest-xdist each worker has a server of its own. `--pg=14,15` runs what needs a server on each of these majors.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import pytest

from support.cluster import Cluster, make_template, running_cluster
from support.databases import ClonedDatabase, Connection, cloned_database
from support.majors import DEFAULT, MajorMissing, binaries_of
from support.proxy import Proxy, running_proxy
from support.scratch import scratch_folder

_FOREIGN = ("DATABASE_URL", "WAKEFUL", "PG")
_LONGEST = {"soak": 0, "faults": 1, "e2e": 2}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of majors."""
    parser.addoption(
        "--pg", default=DEFAULT, help="majors of PostgreSQL, such as 14,15; see tests/support/majors.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Forget what the caller's environment says about databases and about Wakeful, and that it ignores Ctrl-C.

    A shell's background job does, and so would the processes that the tests interrupt. Examples may take as long as
    they take: speed is never asserted.
    """
    hypothesis.settings.register_profile("untimed", deadline=None)
    hypothesis.settings.load_profile("untimed")
    for name in list(os.environ):
        if name.startswith(_FOREIGN):
            del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where workers share the tests, begin with the files that take longest, so that none is left for one alone."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: _LONGEST.get(item.nodeid.split("/")[1], len(_LONGEST)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that needs a server once a major."""
    majors = metafunc.config.getoption("--pg").split(",")
    if "major" in metafunc.fixturenames and majors != [DEFAULT]:
        metafunc.parametrize("major", majors, scope="session")


@pytest.fixture(scope="session")
def major() -> str:
    """The major version that the server is of."""
    return DEFAULT


@pytest.fixture(scope="session")
def cluster(major: str) -> Iterator[Cluster]:
    """The session's server, with the template database and the three roles."""
    with (
        scratch_folder() as folder,
        running_cluster(folder / "data", binaries=_binaries_or_skip(major)) as cluster,
    ):
        asyncio.run(make_template(cluster))
        yield cluster


@pytest.fixture
def own_cluster(major: str) -> Iterator[Cluster]:
    """A second server, for this test alone: to stop, to kill, to fail over to. No template and no roles."""
    with (
        scratch_folder() as folder,
        running_cluster(folder / "data", binaries=_binaries_or_skip(major)) as cluster,
    ):
        yield cluster


@pytest.fixture
async def db(cluster: Cluster) -> AsyncIterator[ClonedDatabase]:
    """A fresh install in a database of its own."""
    async with cloned_database(cluster) as database:
        yield database


@pytest.fixture
async def sql(db: ClonedDatabase) -> Connection:
    """A connection to `db` as its owner."""
    return await db.connect()


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A TCP proxy in front of the session's server."""
    with running_proxy(cluster.socket) as proxy:
        yield proxy


def _binaries_or_skip(major: str) -> Path | None:
    try:
        return binaries_of(major)
    except MajorMissing as reason:
        pytest.skip(str(reason))
