"""The output folder: no text leads out of it, and what is there is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboarding.artefacts import (
    MissingArtefact,
    folder_name,
    new_folder,
    prune_runs,
    read_json,
    run_folder,
    write_json,
)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(st.text(alphabet=st.characters(codec=None), max_size=200))
def test_any_text_gives_a_folder_name_that_stays_inside(text: str) -> None:
    name = folder_name(text)

    assert Path(name).name == name
    assert name not in (".", "..")
    assert 0 < len(name) <= 64
    assert name == name.lower()


def test_different_texts_never_share_a_folder() -> None:
    names = {folder_name(text) for text in ("foo", "Foo", "FOO", "föö", "f/oo", "f.oo", "", " ", "../foo")}

    assert len(names) == 9


def test_harmless_ids_keep_their_name() -> None:
    assert folder_name("corner-bakery") == "corner-bakery"
    assert folder_name("0193f1a2-7c1e-7000-8000-000000000000") == "0193f1a2-7c1e-7000-8000-000000000000"


def test_a_file_that_can_not_be_written_whole_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_json(path, {"old": 1})

    with pytest.raises(TypeError):
        write_json(path, {"new": object()})

    assert read_json(path) == {"old": 1}
    assert names_in(tmp_path) == ["facts.json"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    site = tmp_path / "site"
    with new_folder(site) as folder:
        (folder / "index.html").write_text("first")

    with pytest.raises(TypeError), new_folder(site) as folder:
        (folder / "index.html").write_bytes("not bytes")  # type: ignore[arg-type]

    assert (site / "index.html").read_text() == "first"
    assert names_in(tmp_path) == ["site"]

    with new_folder(site) as folder:
        (folder / "other.html").write_text("third")
    assert names_in(site) == ["other.html"]


def test_a_missing_artefact_says_what_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(MissingArtefact, match="ONBOARDING_OUTPUT"):
        read_json(tmp_path / "facts.json")


def test_old_runs_go_and_later_ones_stay(tmp_path: Path) -> None:
    for run in ("r1", "r2", "r3", "r4", "r5", "r6"):
        run_folder(tmp_path, "shop", run)

    prune_runs(tmp_path, "shop", keep=2, run="r5")

    assert names_in(tmp_path / "shop" / "runs") == ["r4", "r5", "r6"]
