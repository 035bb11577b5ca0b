"""Publishing: the shown site is whole at every moment, newer runs stay, old releases go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from onboarding.publish import PublishBusy, publish, shown_release

EXAMPLES = Path(__file__).parents[2] / "examples"
HOLD_LOCK = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
UNTIL_KILLED = Path(__file__).with_name("publish_until_killed.py")


def make_site(folder: Path, name: str) -> Path:
    site = folder / name
    (site / "pictures").mkdir(parents=True)
    (site / "index.html").write_text(name)
    return site


def shown(public: Path) -> str:
    return (public / "current" / "index.html").read_text()


def releases(public: Path) -> list[str]:
    return sorted(path.name for path in (public / "releases").iterdir())


def test_the_first_release_is_shown(tmp_path: Path) -> None:
    public = tmp_path / "public"
    published = publish(make_site(tmp_path, "one"), public, run="r1", keep=3)

    assert shown(public) == "one"
    assert published.current == public / "current"
    assert str((public / "current").readlink()) == "releases/r1", (
        "a relative link survives a move of the folder"
    )


def test_publishing_again_is_harmless(tmp_path: Path) -> None:
    public, site = tmp_path / "public", make_site(tmp_path, "one")

    first = publish(site, public, run="r1", keep=3)
    assert publish(site, public, run="r1", keep=3) == first
    assert releases(public) == ["r1"]


def test_the_last_releases_are_kept_and_the_shown_one_among_them(tmp_path: Path) -> None:
    public = tmp_path / "public"
    removed = [
        publish(make_site(tmp_path, f"s{number}"), public, run=f"r{number}", keep=3).removed
        for number in range(1, 6)
    ]

    assert releases(public) == ["r3", "r4", "r5"]
    assert removed == [(), (), (), ("r1",), ("r2",)]
    assert shown(public) == "s5"


def test_an_older_run_that_comes_late_does_not_take_the_place(tmp_path: Path) -> None:
    public = tmp_path / "public"
    publish(make_site(tmp_path, "new"), public, run="r2", keep=3)

    late = publish(make_site(tmp_path, "old"), public, run="r1", keep=3)

    assert late.superseded_by == "r2"
    assert shown(public) == "new"
    assert releases(public) == ["r2"]


def test_what_a_crash_left_is_swept_away(tmp_path: Path) -> None:
    public = tmp_path / "public"
    publish(make_site(tmp_path, "one"), public, run="r1", keep=3)
    (public / "releases" / ".passing-r2-0a").mkdir()
    (public / ".passing-current-0b").symlink_to("releases/r2")

    publish(make_site(tmp_path, "three"), public, run="r3", keep=3)

    assert releases(public) == ["r1", "r3"]
    assert sorted(path.name for path in public.iterdir()) == [".lock", "current", "releases"]


def test_a_process_killed_at_any_moment_leaves_a_whole_site_and_no_obstacle(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, str(UNTIL_KILLED), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= 8, "it died at each of its changes of the disk"


def test_two_publishers_of_one_place_take_turns(tmp_path: Path) -> None:
    public = tmp_path / "public"
    publish(make_site(tmp_path, "one"), public, run="r1", keep=3)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_LOCK, str(public / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()

    with pytest.raises(PublishBusy):
        publish(make_site(tmp_path, "two"), public, run="r2", keep=3)
    holder.kill()
    holder.communicate()

    publish(tmp_path / "two", public, run="r2", keep=3)
    assert shown_release(public) == "r2"


def test_a_disk_that_does_not_let_it_leaves_the_old_site(tmp_path: Path) -> None:
    public = tmp_path / "public"
    publish(make_site(tmp_path, "one"), public, run="r1", keep=3)

    with pytest.raises(OSError, match="gone"):
        publish(tmp_path / "gone", public, run="r2", keep=3)

    assert shown(public) == "one"
    publish(make_site(tmp_path, "three"), public, run="r3", keep=3)
    assert releases(public) == ["r1", "r3"]
