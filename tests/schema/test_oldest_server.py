"""Nothing newer than PostgreSQL 14 is used in schema.sql or in a statement; `pytest --pg=14` asks a real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.cluster import SCHEMA

STATEMENTS = sorted((SCHEMA.parent / "daemon/wakeful/store").glob("**/*.sql"))

# The first major that knows it, and how it looks in SQL.
NEWER = {
    "15": [
        r"\bmerge\s+into\b", r"\bnulls\s+not\s+distinct\b", r"\bsecurity_invoker\b",
        r"\bregexp_(count|instr|like|substr)\(",
        r"\bstrategy\s+(wal_log|file_copy)\b", r"\bon\s+delete\s+set\s+(null|default)\s*\(",
        r"\bpg_database_collation_actual_version\(",
    ],
    "16": [
        r"\bany_value\(", r"\bis\s+(not\s+)?json\b", r"\bjson_(array|arrayagg|object|objectagg)\(", r"\bsystem_user\b",
        r"\bpg_input_(is_valid|error_info)\(", r"\barray_(sample|shuffle)\(", r"\bdate_(add|subtract)\(",
        r"\brandom_normal\(", r"\b0x[0-9a-f]+\b", r"\b\d+_\d{3}\b", r"\berfc?\(",
    ],
    "17": [
        r"\bjson_(table|exists|query|value|scalar|serialize)\(", r"\bmerge_action\(", r"\bto_(bin|oct)\(",
        r"\buuid_extract_\w+\(", r"\bxmltext\(", r"\brandom\(\s*[^)\s]", r"\btransaction_timeout\b", r"\bon_error\b",
        r"\bpg_basetype\(", r"interval '-?infinity'",
    ],
    "18": [
        r"\buuidv[47]\(", r"\bwithout\s+overlaps\b", r"\breturning\b[^;]*\b(old|new)\.", r"\bvirtual\b",
        r"\bnot\s+enforced\b",
        r"\bcasefold\(", r"\barray_(sort|reverse)\(", r"\bcrc32c?\(", r"\bl?gamma\(", r"\breverse\(\s*\w*bytea",
    ],
}  # fmt: skip


@pytest.mark.parametrize("path", [SCHEMA, *STATEMENTS], ids=lambda path: path.name)
def test_nothing_newer_than_14_is_used(path: Path) -> None:
    text = _code(path.read_text())

    found = [
        f"{path.name}: {match[0]!r} came with PostgreSQL {major}"
        for major, patterns in NEWER.items()
        for pattern in patterns
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]

    assert found == []


@pytest.mark.parametrize(
    "statement",
    [
        "merge into t using s on true when matched then delete",
        "select uuidv7()",
        "select any_value(x) from t",
        "update t set a = 1 returning old.a",
        "select random(1, 6)",
        "create unique index on t (a) nulls not distinct",
        "select 1_000",
    ],
)
def test_the_patterns_know_what_is_newer(statement: str) -> None:
    assert any(
        re.search(pattern, statement, re.IGNORECASE) for patterns in NEWER.values() for pattern in patterns
    )


def _code(text: str) -> str:
    """Leave out comments, and the texts of `comment on`."""
    without_comments = re.sub(r"--[^\n]*", "", text)
    return re.sub(r"(?im)^\s*comment on .*?;\s*$", "", without_comments, flags=re.DOTALL)
