"""What is shown of the configuration: `config.toml`, the table of the documents, and `config show`, without secrets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.config import effective, hidden_in, load
from wakeful.core.alert_settings import RouteSettings, RuleSettings
from wakeful.core.decoding import known_paths, variable_of
from wakeful.core.effective import NOT_SET
from wakeful.core.resources import config_toml
from wakeful.core.secrets import hidden_values, shown
from wakeful.core.settings import Settings, SinkSettings

TOP = Path(__file__).parents[2]
DSN = "postgresql://bob:p%40ss:w@host:5432/name?sslpassword=zzzz&application_name=x"
NO_DEFAULT = "\N{EN DASH}"
URL = "https://hooks.example.com/services/T000/B000/geheim"


@pytest.fixture(autouse=True)
def _no_file_lies_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_config_toml_lists_each_setting_that_has_a_default_at_it() -> None:
    rows = {row.path: row.value for row in effective(Settings(), {})}
    listed = _flat(tomllib.loads(config_toml()))

    assert set(listed) == {path for path, value in rows.items() if value != "(not set)"}
    assert load(environ={}, path=TOP / "config.toml").settings == Settings()


def test_config_toml_shows_an_example_of_every_other_setting(tmp_path: Path) -> None:
    everything = re.sub(r"^#(?=[\w\[])", "", config_toml(), flags=re.MULTILINE)
    listed = {
        re.sub(r"^(queues|sinks|routes|rules)\.\w+", r"\1.NAME", path)
        for path in _flat(tomllib.loads(everything))
    }
    one_of_two = re.sub(
        r"^(?:dsn|listen_dsn|url|key|link_key)_file = .*\n", "", everything, flags=re.MULTILINE
    )
    (tmp_path / "all.toml").write_text(one_of_two)

    assert listed == set(known_paths())
    assert load(environ={}, path=tmp_path / "all.toml").settings.sinks["team"].kind == "webhook"


def test_the_page_on_configuration_has_each_setting_with_its_default_and_its_variable() -> None:
    page = (TOP / "docs" / "configuration.md").read_text()
    named = Settings(
        sinks={"NAME": SinkSettings(kind="log")},
        routes={"NAME": RouteSettings()},
        rules={"NAME": RuleSettings()},
    )
    rows = {row.path: row.value.strip('"') for row in effective(named, {})}
    shown_as = {
        path: f"`{rows[path]}`" if rows.get(path, NOT_SET) != NOT_SET else NO_DEFAULT
        for path in known_paths()
    }

    for path, default in (shown_as | {"sinks.NAME.kind": NO_DEFAULT}).items():
        assert re.search(rf"^\| `{path}` \| {re.escape(default)} \| \S", page, re.MULTILINE), path
    assert variable_of("worker.concurrency") in page


def test_each_row_says_where_its_value_comes_from_and_none_holds_a_secret() -> None:
    environ = {
        "DATABASE_URL": DSN,
        "WAKEFUL__SINKS__TEAM__KIND": "webhook",
        "WAKEFUL__SINKS__TEAM__URL": URL,
        "WAKEFUL__DRAIN__GRACE": "90s",
    }
    found = load(environ=environ)

    rows = {row.path: (row.value, str(row.origin)) for row in effective(found.settings, found.origins)}

    dsn = '"postgresql://bob:***@host:5432/name?sslpassword=***&application_name=x"'
    assert rows["database.dsn"] == (dsn, "environment DATABASE_URL")
    assert rows["drain.grace"] == ('"90s"', "environment WAKEFUL__DRAIN__GRACE")
    assert rows["worker.queues"] == ('["*"]', "default")
    assert rows["sinks.team.url"][0].startswith('"https://hooks.example.com/*** (')
    assert not [value for value, _ in rows.values() if "geheim" in value or "p%40" in value]


def test_the_settings_do_not_print_their_secrets() -> None:
    environ = {
        "DATABASE_URL": DSN,
        "WAKEFUL__SINKS__T__KIND": "webhook",
        "WAKEFUL__SINKS__T__URL": URL,
    }

    text = repr(load(environ=environ))

    assert "geheim" not in text and "p%40" not in text


def test_what_must_be_hidden_is_the_password_in_every_spelling_and_the_key_of_a_webhook(
    tmp_path: Path,
) -> None:
    (tmp_path / "url").write_text(URL)
    environ = {
        "DATABASE_URL": DSN,
        "WAKEFUL__SINKS__TEAM__KIND": "webhook",
        "WAKEFUL__SINKS__TEAM__URL_FILE": str(tmp_path / "url"),
    }

    hidden = hidden_in(load(environ=environ).settings)

    assert {"p@ss:w", "p%40ss:w", "p%40ss%3Aw", "zzzz", URL, "/services/T000/B000/geheim"} == hidden


def test_two_webhooks_of_one_host_can_be_told_apart() -> None:
    assert shown(URL) != shown(URL + "x")


_secret = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="/?#&@%=+"), min_size=8
).map("~".__add__)  # no part of what surrounds it


@given(_secret)
def test_no_password_comes_through(password: str) -> None:
    dsn = f"postgresql://bob:{password}@host/name?sslpassword={password}"

    assert password not in shown(dsn)
    assert password in hidden_values(dsn)


@given(_secret)
def test_no_key_of_a_webhook_comes_through(key: str) -> None:
    assert key not in shown(f"https://host.example.com/{key}")


def _flat(table: dict[str, object], above: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{above}{key}.")
        else:
            found[above + key] = value
    return found
