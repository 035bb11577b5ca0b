"""compose.yaml: no password of its own, a daemon without privileges, and more time to stop than a drain takes."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest

from support.container import read_compose, seconds, variables
from support.secrets import credentials_in
from support.sources import TOP
from wakeful.core.settings import DrainSettings
from wakeful.stopping import FLUSH_SECONDS

TEXT = (TOP / "compose.yaml").read_text()
COMPOSE = read_compose(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ["wakeful", "migrate"]
# quiesce, flush, the outbox's last sends, the writers' end, the farewell, connections closed: each bounded by itself
WRITES_OF_A_STOP = 8 * FLUSH_SECONDS


def test_it_is_the_daemon_its_schema_and_a_server() -> None:
    assert sorted(SERVICES) == ["migrate", "postgres", "wakeful"]
    assert SERVICES["migrate"]["command"] == ["migrate"]
    assert "command" not in SERVICES["wakeful"]


def test_without_a_password_given_it_does_not_start() -> None:
    passwords = [rest for name, rest in variables(TEXT) if "PASSWORD" in name]
    assert len(passwords) == 2
    assert [rest for rest in passwords if not rest.startswith(":?")] == []


def test_no_password_is_written_down() -> None:
    assert list(credentials_in("compose.yaml", TEXT)) == []
    for service in SERVICES.values():
        environment = service["environment"]
        assert [
            name
            for name, value in environment.items()
            if any(part in name for part in ("PASSWORD", "SECRET", "TOKEN", "KEY"))
            and not value.startswith("${POSTGRES_PASSWORD:?")
        ] == []
        assert urlsplit(environment.get("DATABASE_URL", "")).password is None
        assert "env_file" not in service
    assert "POSTGRES_HOST_AUTH_METHOD" not in TEXT


@pytest.mark.parametrize("service", OURS)
def test_the_daemon_has_no_privileges_and_a_read_only_root(service: str) -> None:
    ours = SERVICES[service]
    assert ours["read_only"] is True
    assert ours["cap_drop"] == ["ALL"]
    assert ours["security_opt"] == ["no-new-privileges:true"]
    assert ours["tmpfs"] == ["/tmp"]
    assert {"user", "privileged", "network_mode", "pid", "cap_add", "entrypoint"}.isdisjoint(ours)


def test_a_drain_has_time_to_end_before_the_kill() -> None:
    drain = DrainSettings()
    stop = seconds(SERVICES["wakeful"]["stop_grace_period"])
    assert stop > drain.grace + drain.interrupt + WRITES_OF_A_STOP
    assert [name for name in SERVICES["wakeful"]["environment"] if "DRAIN" in name] == []


def test_the_schema_is_there_before_the_daemon_and_the_server_before_the_schema() -> None:
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["wakeful"]["depends_on"] == {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["restart"] == "no"


def test_health_is_looked_at() -> None:
    test = SERVICES["postgres"]["healthcheck"]["test"]
    assert test[:2] == ["CMD", "pg_isready"] and "--host=127.0.0.1" in test
    assert "healthcheck" not in SERVICES["wakeful"], "the image has one of its own"
    assert SERVICES["migrate"]["healthcheck"] == {"disable": True}


def test_nothing_is_reachable_from_other_hosts() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8080:8080"]


def test_the_data_outlive_the_containers() -> None:
    (volume,) = SERVICES["postgres"]["volumes"]
    name, _, folder = volume.partition(":")
    assert name in COMPOSE["volumes"] and folder == "/var/lib/postgresql"
