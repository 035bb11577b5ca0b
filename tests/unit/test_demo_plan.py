"""What a run of the demo is to do: its folder, its settings, and which database it never uses."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.sources import TOP
from wakeful.cli.demo import plan as planning
from wakeful.cli.demo.location import server_shown
from wakeful.cli.demo.plan import exported_note, plan_from
from wakeful.errors import ConfigError


def arguments(**given: Any) -> argparse.Namespace:
    usual: dict[str, Any] = {
        "database": None,
        "config": None,
        "data": None,
        "once": False,
        "every": 5.0,
        "site": None,
    }
    return argparse.Namespace(**{**usual, **given})


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the package was installed from a wheel."""
    monkeypatch.setattr(planning, "checkout", lambda: None)


def test_in_a_checkout_the_data_lie_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert plan_from(arguments(), {}).data == TOP / ".wakeful" / "demo"


@pytest.mark.usefixtures("installed")
def test_elsewhere_they_lie_with_the_users_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert plan_from(arguments(), {}).data == Path("/home/somebody/.local/share/wakeful/demo")
    given = {"XDG_DATA_HOME": "/data"}
    assert plan_from(arguments(), given).data == Path("/data/wakeful/demo")
    somebodys = arguments(database="postgresql:///x")
    assert plan_from(somebodys, given).data == Path("/data/wakeful/demo-elsewhere")


def test_a_relative_folder_is_one_of_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert plan_from(arguments(data=Path("mine")), {}).data == tmp_path / "mine"


@pytest.mark.parametrize(
    "environ",
    [
        {"DATABASE_URL": "postgresql://production/db"},
        {"DATABASE_URL_FILE": "/run/secrets/database"},
        {"WAKEFUL__DATABASE__DSN": "postgresql://production/db"},
        {"WAKEFUL__DATABASE__LISTEN_DSN": "postgresql://production/db"},
    ],
)
def test_an_exported_database_is_never_used(environ: Mapping[str, str]) -> None:
    for given in (arguments(), arguments(database="postgresql:///mine")):
        plan = plan_from(given, environ)
        database = plan.settings.database
        assert (database.dsn, database.dsn_file) == (given.database, None)
        assert (database.listen_dsn, database.listen_dsn_file) == (None, None)
        assert plan.exported == tuple(environ)


def test_a_database_that_the_command_names_is_not_said_to_be_unused() -> None:
    """make exports what was given to it on its command line."""
    mine = "postgresql:///mine"
    assert plan_from(arguments(database=mine), {"DATABASE_URL": mine}).exported == ()


def test_the_note_says_what_would_use_it() -> None:
    assert exported_note(["DATABASE_URL"]) == (
        "DATABASE_URL is set and not used; to use such a database: make run DATABASE_URL=..."
    )
    assert "are set" in exported_note(["DATABASE_URL", "WAKEFUL__DATABASE__DSN"])


@pytest.mark.usefixtures("installed")
def test_the_note_names_the_option_where_there_is_no_make() -> None:
    assert exported_note(["DATABASE_URL"]).endswith("wakeful demo --database ...")


def test_a_configuration_that_happens_to_lie_here_is_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(
        '[sinks.people]\nkind = "webhook"\nurl = "https://people.example/hook"\n'
    )
    monkeypatch.chdir(tmp_path)
    assert set(plan_from(arguments(), {}).settings.sinks) == {"log"}
    assert set(plan_from(arguments(config=tmp_path / "config.toml"), {}).settings.sinks) == {"log", "people"}


def test_other_settings_come_from_the_environment_over_the_demos_own() -> None:
    plan = plan_from(arguments(), {"WAKEFUL__HTTP__PORT": "9000", "WAKEFUL__LEASE__DEFAULT": "20s"})
    assert (plan.settings.http.port, plan.settings.lease.default) == (9000, 20.0)
    assert plan_from(arguments(), {}).settings.lease.default == 6.0


def test_only_queue_demo_is_served_in_somebodys_database() -> None:
    plan = plan_from(arguments(database="postgresql:///theirs"), {"WAKEFUL__WORKER__QUEUES": "*"})
    assert plan.settings.worker.queues == ("demo",)
    assert (plan.queue, plan.served) == ("demo", ("demo",))
    ours = plan_from(arguments(), {})
    assert (ours.queue, ours.served, ours.settings.worker.queues) == (None, (), ("*",))


def test_a_mistake_in_the_environment_is_said() -> None:
    with pytest.raises(ConfigError, match="concurrency"):
        plan_from(arguments(), {"WAKEFUL__WORKER__CONCURRENCY": "many"})


@pytest.mark.parametrize(
    ("dsn", "environ", "shown"),
    [
        ("postgresql://me:secret@db.example:5433/shop", {}, "shop on db.example:5433"),
        ("postgresql://me:secret@a:1,b:2/shop", {}, "shop on a:1,b:2"),
        ("postgresql:///shop?host=/run/pg", {}, "shop on /run/pg"),
        ("postgresql://me@/?password=secret", {"PGHOST": "db"}, "me on db"),
        ("postgresql://", {"PGDATABASE": "x"}, "x on a local socket"),
    ],
)
def test_host_and_database_are_shown_without_the_password(
    dsn: str, environ: Mapping[str, str], shown: str
) -> None:
    assert server_shown(dsn, environ) == shown
