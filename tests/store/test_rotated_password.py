"""A password that is rotated under a running process: it is used, and no log line holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.working import telling
from wakeful.core.settings import DatabaseSettings
from wakeful.errors import StoreUnavailable
from wakeful.store.database import open_database
from wakeful.telemetry.events import DATABASE_LOST


@pytest.mark.case("F82")
async def test_a_rotated_password_is_hidden_from_its_first_use_on(tmp_path: Path) -> None:
    file = tmp_path / "dsn"
    file.write_text("postgresql://u:before@127.0.0.1:1/x")
    telemetry, recorder = telling()
    async with open_database(DatabaseSettings(dsn_file=str(file)), telemetry) as database:
        file.write_text("postgresql://u:rotated-since@127.0.0.1:1/x")
        with pytest.raises(StoreUnavailable):
            await database.fetch("identity")
        await recorder.seen(DATABASE_LOST)
    assert telemetry.redactor.text("it is rotated-since") == "it is ***"
