"""A pytest plugin for CI: a skipped test, a skipped module and an expected failure are failures.

``python -m pytest -p tests.support.no_skips`` (`.ci/run` asks for it through PYTEST_ADDOPTS), so that a machine that
lacks what a test needs shows it, rather than showing green.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

REFUSED = "not run, which CI does not accept: "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn the report of a skip into a failure that names the skip's reason."""
    report = yield
    if report.skipped:
        reason = vars(report).pop("wasxfail", "") or _reason(
            report
        )  # its presence would keep the exit code 0
        report.outcome = "failed"
        report.longrepr = REFUSED + reason
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the report of a module that skips itself into an error."""
    report = yield
    if report.skipped:
        report.outcome = "failed"
        report.longrepr = REFUSED + _reason(report)
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
