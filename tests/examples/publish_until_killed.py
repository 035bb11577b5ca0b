"""A process that publishes a second release over and over, dying at one call to the system after the other.

Run as `python publish_until_killed.py FOLDER`. After each death it checks that `current` leads to a whole release, and
that publishing again gets through. Prints how many deaths there were. Each child is a fork that ends itself at its n-th
change of the disk, as if by kill -9: no `finally`, no clean-up.
"""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from pathlib import Path

from onboarding.publish import publish, shown_release

CHANGES = ("os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "shutil.rmtree", "shutil.copytree")


def make_site(folder: Path, text: str) -> Path:
    (folder / "pictures").mkdir(parents=True)
    (folder / "index.html").write_text(text)
    (folder / "pictures" / "01.jpg").write_text(text)
    return folder


def is_whole(release: Path, text: str) -> bool:
    return {path.read_text() for path in (release / "index.html", release / "pictures" / "01.jpg")} == {text}


def die_at(number: int, site: Path, public: Path) -> bool:
    """Publish run r2 in a child that dies at its `number`-th change; whether it did."""
    child = os.fork()
    if child == 0:
        left = iter(range(number - 1, -1, -1))

        def on_event(event: str, arguments: tuple[object, ...]) -> None:
            writes = event == "open" and "w" in str(arguments[1])
            if (writes or event in CHANGES) and next(left) == 0:
                os._exit(9)

        sys.addaudithook(on_event)
        publish(site, public, run="r2", keep=1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def main(folder: Path) -> None:
    first, second = make_site(folder / "one", "one"), make_site(folder / "two", "two")
    for number in itertools.count(1):
        public = folder / "public"
        publish(first, public, run="r1", keep=1)
        died = die_at(number, second, public)
        shown = shown_release(public)
        assert is_whole(public / "current", {"r1": "one", "r2": "two"}[shown or ""]), (
            f"torn at change {number}"
        )
        publish(second, public, run="r2", keep=1)
        assert is_whole(public / "current", "two")
        assert sorted(path.name for path in public.iterdir()) == [".lock", "current", "releases"]
        assert [path.name for path in (public / "releases").iterdir()] == ["r2"]
        shutil.rmtree(public)
        if not died:
            print(number - 1)
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]))
