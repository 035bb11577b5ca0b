"""Rules and boards: they can be read, name metrics, labels and sections that exist, and no panel lies on another."""

from __future__ import annotations

import re
import shutil
import subprocess
from itertools import combinations

import pytest

from support.boards import FOLDER, PROMETHEUS_BOARD, RULES, SQL_BOARD, Query, board, panels, queries, rules
from support.promql import Expression, Malformed, read
from support.sources import TOP
from wakeful.telemetry.meters import METERS, Histogram

ADDED = {"job", "instance"}  # by Prometheus, to all that it scrapes
LABELS = {meter.name: {*meter.labels, *ADDED} for meter in METERS if not isinstance(meter, Histogram)} | {
    f"{meter.name}{part}": {*meter.labels, *ADDED, *(["le"] if part == "_bucket" else [])}
    for meter in METERS
    if isinstance(meter, Histogram)
    for part in ("_bucket", "_sum", "_count")
}
BOARDS = [PROMETHEUS_BOARD.name, SQL_BOARD.name]
SHOWN = list(queries(board(PROMETHEUS_BOARD.name)))
RECORDED = {rule["record"]: read(rule["expr"]) for rule in rules() if "record" in rule}
ALERTS = [rule for rule in rules() if "alert" in rule]
each_board = pytest.mark.parametrize("name", BOARDS)
each_rule = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
each_alert = pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])


def labels_of(metric: str) -> set[str]:
    return RECORDED[metric].grouped - {"le"} if metric in RECORDED else LABELS[metric]


def check(found: Expression) -> None:
    """What an expression names is there: metrics, labels that are asked for, and labels that are kept."""
    assert found.selectors
    unknown = [one.metric for one in found.selectors if one.metric not in RECORDED.keys() | LABELS.keys()]
    assert unknown == []
    for one in found.selectors:
        assert {label for label, _, _ in one.matchers} <= labels_of(one.metric), one
    assert found.grouped <= set().union(*(labels_of(one.metric) for one in found.selectors))


@each_rule
def test_a_rule_names_what_exists(rule: dict[str, str]) -> None:
    check(read(rule["expr"]))


@pytest.mark.parametrize("query", SHOWN, ids=lambda query: query.panel)
def test_a_panel_names_what_exists(query: Query) -> None:
    check(read(query.text))


@each_alert
def test_an_alert_says_what_is_wrong_and_where_it_is_written_what_to_do(rule: dict[str, object]) -> None:
    annotations = rule["annotations"]
    assert isinstance(annotations, dict)
    assert set(annotations) == {"summary", "description", "runbook_url"}
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"})
    assert re.fullmatch(r"\d+[smh]", str(rule.get("for", "1m")))
    file, anchor = annotations["runbook_url"].split("#")
    headings = re.findall(r"^#+ (.+)$", (TOP / file).read_text(), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
    asked = read(str(rule["expr"]))
    kept = set().union(*(labels_of(one.metric) for one in asked.selectors))
    assert set(re.findall(r"\$labels\.(\w+)", annotations["summary"])) <= (asked.grouped or kept)


def test_what_was_asked_for_has_an_alert_and_the_page_tells_of_each() -> None:
    names = [rule["alert"] for rule in ALERTS]
    table = re.findall(r"^\| `(Wakeful\w+)` \|", (TOP / "docs" / "monitoring.md").read_text(), re.MULTILINE)

    assert len(set(names)) == len(names)
    assert sorted(table) == sorted(names)


@each_board
def test_a_board_is_laid_out_without_overlap_in_rows_of_full_width(name: str) -> None:
    one = board(name)
    places = [panel["gridPos"] for panel in one["panels"]]

    assert len({panel["id"] for panel in one["panels"]}) == len(places)
    assert len({panel["title"] for panel in panels(one)}) == len(panels(one))
    for first, second in combinations(places, 2):
        apart = first["x"] + first["w"] <= second["x"] or second["x"] + second["w"] <= first["x"]
        above = first["y"] + first["h"] <= second["y"] or second["y"] + second["h"] <= first["y"]
        assert apart or above, (first, second)
    width = {y: sum(place["w"] for place in places if place["y"] == y) for y in {one["y"] for one in places}}
    assert set(width.values()) == {24}


@each_board
def test_a_board_takes_its_data_source_queue_and_type_from_variables(name: str) -> None:
    one = board(name)
    names = [variable["name"] for variable in one["templating"]["list"]]

    assert {"datasource", "queue", "job_type"} <= set(names)
    assert "id" not in one, "it is given where it is imported"
    asked = [variable["datasource"] for variable in one["templating"]["list"] if "datasource" in variable]
    assert {source["uid"] for source in [*asked, *(panel["datasource"] for panel in panels(one))]} == {
        "${datasource}"
    }
    for query in queries(one):
        used = set(re.findall(r"\$\{?(\w+)", query.text)) - {"__rate_interval", "__interval"}
        assert {word for word in used if not word.startswith("__time")} <= set(names), query


@each_board
def test_a_board_begins_with_whether_it_is_well(name: str) -> None:
    top = [panel for panel in panels(board(name)) if panel["gridPos"]["y"] == 0]

    assert {panel["type"] for panel in top} == {"stat"}
    assert [panel["title"] for panel in top][:3] == ["Oldest due job", "Died in 24 hours", "Running now"]


@pytest.mark.parametrize("path", [RULES, PROMETHEUS_BOARD, SQL_BOARD], ids=lambda path: path.name)
def test_the_files_stay_small_and_can_be_read_in_a_diff(path: object) -> None:
    text = (FOLDER / str(path)).read_text()

    assert len(text) < 48_000
    assert len(text.splitlines()) > 100


def test_prometheus_own_tool_agrees_where_it_is_installed() -> None:
    """Nobody has to have it: `support/promql.py` reads the rules everywhere, less well."""
    promtool = shutil.which("promtool")
    if promtool is not None:
        checked = subprocess.run(
            [promtool, "check", "rules", str(RULES)], check=False, capture_output=True, text=True
        )
        assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "text",
    [
        *("", "sum(", "x)", "x y", "x >", "and x", "x and", "x[5]", 'x{a="b"', "x{a=b}", 'x{a=="b"}', '"a'),
        *("rate(x)", "sum(x[5m])", "rate(x[5m]) + x[5m]", "nothing(x)", "sum by a (x)", "sum by (a, (x)"),
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        read(text)


def test_the_names_in_an_expression_are_found() -> None:
    found = read('sum by (a) (rate(x_total{b="1",c=~"$q"}[5m] offset 1h)) / on (a) group_left vector(1) > y')

    assert [(one.metric, one.matchers) for one in found.selectors] == [
        ("x_total", (("b", "=", "1"), ("c", "=~", "$q"))),
        ("y", ()),
    ]
    assert found.grouped == {"a"}
