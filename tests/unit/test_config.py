"""Reading the configuration: the order of the sources, and all mistakes of all of them in one run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeful.config import Configuration, current_dsn, current_listen_dsn, current_url, load
from wakeful.core.decoding import Given, Origin, decode, known_paths, variable_of
from wakeful.core.rules import BOUNDS
from wakeful.core.settings import DatabaseSettings, Settings
from wakeful.errors import ConfigError

DSN = "postgresql://user:password@host/name"


@pytest.fixture(autouse=True)
def _no_file_lies_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_anything_all_is_default() -> None:
    configuration = load(environ={})

    assert configuration.settings == Settings()
    assert configuration.path is None


def test_each_source_overrides_the_one_before(tmp_path: Path) -> None:
    file = _file(
        tmp_path, "[worker]\nconcurrency = 11\nthreads = 11\nstuck_limit = 11\n[drain]\ngrace = '11s'"
    )
    environ = {"WAKEFUL__WORKER__CONCURRENCY": "12", "WAKEFUL__WORKER__THREADS": "12"}

    found = load(environ=environ, path=file, flags={"worker.concurrency": "13"})

    worker = found.settings.worker
    assert (worker.concurrency, worker.threads, worker.stuck_limit) == (13, 12, 11)
    assert found.settings.drain.grace == 11.0
    assert str(found.origins["worker.concurrency"]) == "flag"
    assert str(found.origins["worker.threads"]) == "environment WAKEFUL__WORKER__THREADS"
    assert str(found.origins["worker.stuck_limit"]) == f"file {file}"
    assert str(found.origins["lease.beat"]) == "default"


def test_a_flag_may_be_a_value_of_its_type_or_a_text() -> None:
    typed = load(environ={}, flags={"worker.queues": ("a", "b"), "http.enabled": False, "drain.grace": 2.5})
    text = load(environ={}, flags={"worker.queues": "a, b", "http.enabled": "off", "drain.grace": "2500ms"})

    assert typed.settings == text.settings
    assert text.settings.worker.queues == ("a", "b")


def test_the_file_is_the_one_told_then_the_one_of_the_variable_then_the_one_at_hand(tmp_path: Path) -> None:
    told, named = (
        _file(tmp_path, "http.port = 1", "told.toml"),
        _file(tmp_path, "http.port = 2", "named.toml"),
    )
    _file(tmp_path, "http.port = 3")

    assert load(environ={"WAKEFUL_CONFIG": str(named)}, path=told).settings.http.port == 1
    assert load(environ={"WAKEFUL_CONFIG": str(named)}).settings.http.port == 2
    assert load(environ={}).settings.http.port == 3


@pytest.mark.parametrize("dotted", [path for path in known_paths() if "NAME" not in path])
def test_every_setting_can_come_from_a_variable(dotted: str, tmp_path: Path) -> None:
    value = _other_value(dotted, tmp_path)

    found = load(environ={variable_of(dotted): value})

    assert found.origins[dotted].kind == "environment"
    assert _value_at(found, dotted) != _value_at(load(environ={}), dotted)


def test_all_mistakes_of_all_sources_are_told_at_once(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        """
        handlers = "my jobs"
        [worker]
        concurency = 5
        threads = "many"
        [leese]
        beat = 3
        [queues.mail]
        [queues.big]
        concurrency = 50
        [sinks.team]
        kind = "webhok"
        [sinks.other]
        kind = "webhook"
        [poll]
        min = "10s"
        [http]
        port = 70000
        enabled = "maybe"
        [history]
        finished = "soon"
        """,
    )
    environ = {
        "WAKEFUL__LEASE__DEFUALT": "3",
        "WAKEFUL_POLL_MAX": "3",
        "DATABASE_URL": "mysql://u:secret@h/x",
    }

    problems = _problems(environ=environ, path=file, flags={"drain.graze": "1s"})

    at = f" [file {file}]"
    duration = 'write "250ms", "30s", "5m", "1h30m", "7d" or a number of seconds'
    dsn = 'must begin with "postgresql://", as in postgresql://user:password@host:5432/name'
    cap = "50 is more than worker.concurrency (10), which caps the whole instance"
    kinds = "log, webhook, teams, slack, discord, pagerduty, email, apprise"
    defualt = "unknown setting; did you mean WAKEFUL__LEASE__DEFAULT? [environment WAKEFUL__LEASE__DEFUALT]"
    poll_max = "unknown variable; did you mean WAKEFUL__POLL__MAX? [environment WAKEFUL_POLL_MAX]"
    assert problems == {
        f"worker.concurency: unknown setting; did you mean worker.concurrency?{at}",
        f"worker.threads: 'many' is not a whole number{at}",
        f"leese.beat: unknown setting; did you mean lease.beat?{at}",
        "queues.mail.concurrency: must be given",
        f"queues.big.concurrency: {cap}{at}",
        f"sinks.team.kind: 'webhok' is not one of {kinds}{at}",
        "sinks.other.url: a webhook needs its url, or url_file that holds it",
        f"poll.min: 10s is more than poll.max (5s){at}",
        f"http.port: 70000 is more than 65535, the most that it may be{at}",
        f"http.enabled: 'maybe' is not true or false{at}",
        f"handlers: 'my jobs' is not the name of a module, such as \"myapp.jobs\"{at}",
        f"history.finished: 'soon' is not a duration: {duration}{at}",
        f"lease.defualt: {defualt}",
        f"WAKEFUL_POLL_MAX: {poll_max}",
        f"database.dsn: {dsn} [environment DATABASE_URL]",
        "drain.graze: unknown setting; did you mean drain.grace? [flag]",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[lease]\ndefault = '14s'", "lease.default: 14s is less than three times lease.beat (5s)"),
        ("[lease]\nlong = '14s'", "lease.long: 14s is less than three times lease.beat (5s)"),
        ("[lease]\nlong = '29s'", "lease.long: 29s is less than lease.default (30s)"),
        ("[lease]\nbeat = 0", "lease.beat: 0s is less than 10ms, the least that it may be"),
        ("[queues.a]\nconcurrency = 11", "queues.a.concurrency: 11 is more than worker.concurrency (10)"),
        ("[worker]\nqueues = []", "worker.queues: is empty"),
        ("[worker]\nqueues = ['a', '']", "worker.queues: ['a', ''] has an empty part"),
        ("[worker]\nqueues = ['a', 1]", "worker.queues: ['a', 1] is not a list of texts"),
        ("[worker]\nconcurrency = true", "worker.concurrency: True is not a whole number"),
        ("[worker]\nconcurrency = 1.5", "worker.concurrency: 1.5 is not a whole number"),
        ("[worker.concurrency]\nmost = 1", "worker.concurrency.most: worker.concurrency takes one value"),
        ("worker = 3", "worker: is a table of settings, not one value"),
        ("[[sinks]]\nkind = 'log'", "sinks: is a table of settings, not one value"),
        ("queues.a = 3", "queues.a: is a table of settings, not one value"),
        ("[sinks.a]\nkind = 'log'\nurl = 'https://x'", 'sinks.a.url: a sink of kind "log" has no url'),
        ("[sinks.a]\nkind = 'webhook'\nurl = 'ftp://x'", "sinks.a.url: must be an address"),
        ("[sinks.a]\nkind = 'webhook'\nurl = 'http://[x'", "sinks.a.url: must be an address"),
        ("[http]\nhost = 'http://x'", "http.host: is not a host name"),
        ("[database]\ndsn = 3", "database.dsn: the value is not a text in quotes"),
        ("[log]\nlevel = 'loud'", "log.level: 'loud' is not one of debug, info, warning, error"),
        ("colour = 'red'", "colour: unknown setting; known here: handlers, database, worker,"),
        ("[routes.log]\nmost = 1" + "0" * 400, "routes.log.most: a whole number has at most 18 digits"),
        ("[routes.log]\nmost = 1" + "0" * 5000, "config.toml: has a number of more digits than can be read"),
        ("[worker]\nprocess_memory = 99999999999", "worker.process_memory: 1e+11 is more than"),
        (
            "[routes.log]\nowners = [0x" + "f" * 5000 + "]",
            "a number of so many digits is not a list of texts",
        ),
        ("[sinks.'']\nkind = 'log'", "sinks.: its name is empty"),
        ('[sinks."a\\u0000b"]\nkind = "log"', "its name contains a control character"),
        (f"[sinks.{'x' * 201}]\nkind = 'log'", "its name is 201 bytes long; at most 200 are allowed"),
        ('[worker]\nqueues = ["a\\nb"]', "worker.queues: a queue's name contains a control character"),
        ('[rules.job_failed]\njob_types = ["\\u0000"]', "job_types: a job type contains a control character"),
        ('[routes.log]\nowners = ["a\\u0000"]', "routes.log.owners: an owner's name contains a control"),
        ('[alerts]\nenvironment = "a\\nb"', "alerts.environment: it contains a control character"),
        ("[worker\nx = 1", "config.toml: is not TOML: Expected ']' at the end of a table declaration"),
    ],
)
def test_one_mistake_is_one_problem(text: str, problem: str, tmp_path: Path) -> None:
    (found,) = _problems(path=_file(tmp_path, text))

    assert problem in found


def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes("# gr\xfc\xdfe".encode("latin-1"))

    assert _problems(path=tmp_path / "absent.toml") == {
        f"{tmp_path / 'absent.toml'}: can't be read: No such file or directory"
    }
    assert _problems(path=file) == {f"{file}: is not UTF-8 text (byte 4)"}


@pytest.mark.parametrize("dotted", ["alerts.environment", "worker.name", "worker.queues"])
def test_a_variable_that_is_not_utf8_is_a_mistake(dotted: str) -> None:
    (problem,) = _problems(environ={variable_of(dotted): b"caf\xe9".decode(errors="surrogateescape")})

    assert "is not UTF-8" in problem
    assert problem.isprintable()


def test_an_empty_variable_counts_as_not_set() -> None:
    environ = {"DATABASE_URL": "", "WAKEFUL__LOG__LEVEL": "", "WAKEFUL_CONFIG": ""}

    assert load(environ=environ).settings == Settings()


def test_a_service_that_kubernetes_links_is_not_a_setting() -> None:
    environ = {"WAKEFUL_HTTP_PORT": "tcp://10.0.0.1:8080", "WAKEFUL_SERVICE_HOST": "10.0.0.1"}

    assert load(environ=environ).settings == Settings()


def test_a_variable_finds_a_name_of_the_file_and_makes_one_without_it(tmp_path: Path) -> None:
    file = _file(tmp_path, "[queues.Slow-Mail]\nconcurrency = 1")
    environ = {"WAKEFUL__QUEUES__SLOW_MAIL__CONCURRENCY": "2", "WAKEFUL__QUEUES__FAST__CONCURRENCY": "3"}

    queues = load(environ=environ, path=file).settings.queues

    assert {name: queue.concurrency for name, queue in queues.items()} == {"Slow-Mail": 2, "fast": 3}


def test_a_variable_finds_the_names_of_routes_and_rules_as_well(tmp_path: Path) -> None:
    file = _file(
        tmp_path,
        """
        [sinks.Team-Ops]
        kind = "log"
        [routes.Team-Ops]
        severity = "error"
        [rules.Slow-Mail]
        rule = "queue_stalled"
        queues = ["mail"]
        """,
    )
    environ = {"WAKEFUL__ROUTES__TEAM_OPS__AFTER": "1m", "WAKEFUL__RULES__SLOW_MAIL__OVER": "2m"}

    settings = load(environ=environ, path=file).settings

    assert [(name, one.severity, one.after) for name, one in settings.routes.items()] == [
        ("Team-Ops", "error", 60.0)
    ]
    assert [(name, one.rule, one.over) for name, one in settings.rules.items()] == [
        ("Slow-Mail", "queue_stalled", 120.0)
    ]


def test_the_dsn_of_the_narrower_variable_wins() -> None:
    environ = {"DATABASE_URL": "postgresql://wide/x", "WAKEFUL__DATABASE__DSN": "postgresql://narrow/x"}

    assert load(environ=environ).settings.database.dsn == "postgresql://narrow/x"


def test_a_dsn_and_a_file_for_it_override_each_other_between_sources(tmp_path: Path) -> None:
    secret = _file(tmp_path, DSN, "secret")
    file = _file(tmp_path, f"[database]\ndsn_file = '{secret}'")

    by_variable = load(environ={"DATABASE_URL": "postgresql://h/x"}, path=file).settings.database
    by_file = load(
        environ={"DATABASE_URL": DSN, "WAKEFUL__DATABASE__DSN_FILE": str(secret)}
    ).settings.database

    assert (by_variable.dsn, by_variable.dsn_file) == ("postgresql://h/x", None)
    assert (by_file.dsn, by_file.dsn_file) == (None, str(secret))


def test_a_dsn_and_a_file_for_it_in_one_source_contradict_each_other(tmp_path: Path) -> None:
    secret = _file(tmp_path, DSN, "secret")

    (problem,) = _problems(environ={"DATABASE_URL": DSN, "DATABASE_URL_FILE": str(secret)})

    assert problem.startswith("database.dsn: given together with database.dsn_file")


def test_the_file_of_a_secret_is_read_anew_each_time(tmp_path: Path) -> None:
    secret = _file(tmp_path, "postgresql://u:old@h/x\n", "secret")
    settings = load(environ={"DATABASE_URL_FILE": str(secret)}).settings

    before = current_dsn(settings.database)
    secret.write_text("postgresql://u:new@h/x\n")

    assert (before, current_dsn(settings.database)) == ("postgresql://u:old@h/x", "postgresql://u:new@h/x")


def test_the_file_of_a_secret_that_cannot_be_used_is_told_at_the_start(tmp_path: Path) -> None:
    empty, url = _file(tmp_path, "\n", "empty"), tmp_path / "absent"
    environ = {
        "DATABASE_URL_FILE": str(empty),
        "WAKEFUL__SINKS__TEAM__KIND": "webhook",
        "WAKEFUL__SINKS__TEAM__URL_FILE": str(url),
    }

    assert _problems(environ=environ) == {
        f"database.dsn_file: {empty} is empty",
        f"sinks.team.url_file: can't read {url}: No such file or directory",
    }


def test_a_secret_in_a_file_may_be_wrong_and_is_still_not_shown(tmp_path: Path) -> None:
    secret = _file(tmp_path, "mysql://u:geheim@h/x", "secret")

    with pytest.raises(ConfigError) as caught:
        current_dsn(DatabaseSettings(dsn_file=str(secret)))

    assert "must begin with" in str(caught.value) and "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:sec#ret@h/x",
        "postgresql://u:sec/ret@h/x",
        "postgresql://u:sec?ret@h/x",
        "postgresql://u:sec[ret@h/x",
        "postgresql://u:secret@[::1/x",
        "postgresql://u:secret@h:99999/x",
        "postgresql://u:secret@h:0/x",
        "postgresql://u:secret@h:1,i:2a/x",
        "postgresql:///x?password=secret&port=5432x",
        "postgresql://u:secret@h/x?sslmode=on",
        "postgresql://u:secret@h/x?target_session_attrs=master",
    ],
)
def test_a_dsn_that_no_connect_can_read_is_a_mistake_that_repeats_no_secret(dsn: str, tmp_path: Path) -> None:
    (problem,) = _problems(environ={"DATABASE_URL": dsn})
    assert problem.startswith("database.dsn: ")
    assert not {"sec", "ret", "secret"} & set(re.findall(r"\w+", problem))
    file = tmp_path / "dsn"
    file.write_text(dsn)
    with pytest.raises(ConfigError, match=r"database\.dsn: "):
        current_dsn(DatabaseSettings(dsn_file=str(file)))


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://",
        "postgresql:///x",
        "postgresql://u:p%23%2F%40@h:5432/x?sslmode=require",
        "postgresql://u@a:1,b,c:3/x?target_session_attrs=primary",
        "postgresql://u@[::1]:3/x",
        "postgresql://u@/x?host=/var/run/postgresql&port=5432",
        "postgresql://u@h/x?application_name=a%23b",
        "postgresql://u:p@ss:w@h/x",
    ],
)
def test_a_dsn_of_any_other_shape_is_left_to_the_driver(dsn: str) -> None:
    assert load(environ={"DATABASE_URL": dsn}).settings.database.dsn == dsn


def test_the_dsn_as_sqlalchemy_writes_it_is_understood() -> None:
    assert current_dsn(DatabaseSettings(dsn="postgresql+asyncpg://h/x")) == "postgresql://h/x"


def test_no_dsn_at_all_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match="set DATABASE_URL"):
        current_dsn(DatabaseSettings())


def test_the_listener_uses_the_dsn_unless_it_has_its_own() -> None:
    assert current_listen_dsn(DatabaseSettings(dsn="postgresql://pool/x")) == "postgresql://pool/x"
    own = DatabaseSettings(dsn="postgresql://pool/x", listen_dsn="postgresql://direct/x")
    assert current_listen_dsn(own) == "postgresql://direct/x"


def test_the_address_of_a_sink_comes_from_its_file(tmp_path: Path) -> None:
    url = _file(tmp_path, "https://hooks.example.com/key\n", "url")
    environ = {"WAKEFUL__SINKS__TEAM__KIND": "webhook", "WAKEFUL__SINKS__TEAM__URL_FILE": str(url)}

    sink = load(environ=environ).settings.sinks["team"]

    assert current_url("team", sink) == "https://hooks.example.com/key"


def test_every_number_has_bounds_and_every_bound_a_number() -> None:
    numbers = {path for path in known_paths() if _is_number(path)}

    assert set(BOUNDS) == numbers


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_keys = st.sampled_from([part for path in known_paths() for part in path.split(".")]) | st.text(max_size=10)


@given(st.dictionaries(st.lists(_keys, min_size=1, max_size=4).map(tuple), _values, max_size=8))
def test_whatever_is_written_gives_settings_or_problems(written: dict[tuple[str, ...], object]) -> None:
    origin = Origin(kind="flag")

    decoded = decode({path: Given(value=value, origin=origin) for path, value in written.items()})

    assert decoded.problems or isinstance(decoded.settings, Settings)


def _file(folder: Path, text: str, name: str = "config.toml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def _problems(
    *,
    environ: Mapping[str, str] | None = None,
    path: Path | None = None,
    flags: Mapping[str, object] | None = None,
) -> set[str]:
    with pytest.raises(ConfigError) as caught:
        load(environ=environ or {}, path=path, flags=flags)
    assert len(set(caught.value.problems)) == len(caught.value.problems)
    return set(caught.value.problems)


_NAMED_NUMBERS = {"concurrency", "timeout", "over", "least", "after", "digest_every", "most", "window"}


def _value_at(configuration: Configuration, dotted: str) -> object:
    value: object = configuration.settings
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def _is_number(dotted: str) -> bool:
    if "NAME" in dotted:
        return dotted.rpartition(".")[2] in _NAMED_NUMBERS
    default = _value_at(load(environ={}), dotted)
    return isinstance(default, int | float) and not isinstance(default, bool)


def _other_value(dotted: str, folder: Path) -> str:
    if dotted.endswith("_file"):
        return str(_file(folder, DSN, "secret"))
    if dotted.endswith("dsn"):
        return DSN
    if dotted.endswith("url"):
        return "https://wakeful.example.com"
    default = _value_at(load(environ={}), dotted)
    choices = {
        "auto": "text" if dotted == "log.format" else "direct",
        "fail": "leave",
        "info": "debug",
        "get": "post",
        "link": "parent",
    }
    if isinstance(default, bool):
        return "no" if default else "yes"
    if isinstance(default, int):
        return str(default + 1)
    if isinstance(default, float):
        return f"{default * (0.9 if dotted in ('poll.min', 'lease.beat') else 1.1)}s"
    return choices.get(str(default), "other" * 8)  # long enough for a key
