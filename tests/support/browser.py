"""A headless Chromium for tests that look at pages: one process, driven by the DevTools protocol through two pipes.

Invariant: it gets pages as text and asks nothing of any network; its profile is a folder of its own that goes with it.
Without Chromium, or without a font for Korean, a test that asks for it is skipped and says what to install.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
LANGUAGES = ("ko", "und-zsye")  # of Hangul and of emoji
PACKAGES = "chromium fonts-nanum fonts-noto-color-emoji"
WHERE_FROM = f"needs Chromium, and fonts with Korean and with emoji: apt-get install {PACKAGES}"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
TALLEST = 6000


@dataclass(slots=True)
class Browser:
    """A browser with one page, which shows what it is given. For one thread."""

    to: BufferedWriter
    back: BufferedReader
    log: Path
    session: str = ""
    frame: str = ""
    calls: int = 0

    def show(self, page: str, *, width: int, scheme: str = "light") -> None:
        """Show a document of HTML as a phone or a window of this width does, in the scheme light or dark."""
        screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=wanted)
        self.call("Page.setDocumentContent", frameId=self.frame, html=page)
        self.evaluate("document.fonts.ready.then(() => 0)")

    def evaluate(self, expression: str) -> Any:
        """Give the value of an expression of JavaScript, awaited if it is a promise."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write the page as a PNG, up to a height that somebody would look at."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], TALLEST), "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and give its result; what Chromium tells by itself is left aside."""
        self.calls += 1
        asked = {"id": self.calls, "method": method, "params": parameters}
        self.to.write(
            json.dumps(asked | ({"sessionId": self.session} if self.session else {})).encode() + b"\0"
        )
        self.to.flush()
        while True:
            reply = json.loads(self._message())
            if reply.get("id") == self.calls:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return dict(reply["result"])

    def _message(self) -> bytes:
        found = bytearray()
        while not found.endswith(b"\0"):
            some = self.back.peek()
            assert some, f"Chromium has ended: {self.log.read_text(errors='replace')[-2000:]}"
            end = some.find(b"\0") + 1
            found += self.back.read(end or len(some))
        return bytes(found[:-1])

    def open_page(self) -> None:
        """Open the page that all is shown on."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.frame = self.call("Page.getFrameTree")["frameTree"]["frame"]["id"]


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run a browser until the block ends; skips the test where there is none."""
    program = _program_or_skip()
    with tempfile.TemporaryDirectory(prefix="wakeful-browser-", ignore_cleanup_errors=True) as folder:
        its_end, to = os.pipe()
        back, its_other_end = os.pipe()
        log = Path(folder) / "log"
        ends = (_moved(its_end), _moved(its_other_end))
        process = _started([program, *FLAGS, f"--user-data-dir={folder}/profile"], *ends, log)
        for end in ends:
            os.close(end)
        try:
            with os.fdopen(to, "wb") as writer, os.fdopen(back, "rb") as reader:
                browser = Browser(writer, reader, log)
                browser.open_page()
                yield browser
        finally:
            with suppress(ProcessLookupError):  # with all its children
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _moved(descriptor: int) -> int:
    """Give a pipe's end a number that stands in no other's way."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


def _started(command: Sequence[str], reads: int, writes: int, log: Path) -> subprocess.Popen[bytes]:
    """Start it with the two pipes where it looks for them, as its descriptors 3 and 4."""
    redirected = f'exec "$@" 3<&{reads} 4>&{writes}'
    with log.open("wb") as said:
        return subprocess.Popen(
            ["bash", "-c", redirected, "bash", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            pass_fds=(reads, writes),
            start_new_session=True,
            env={**os.environ, "HOME": str(log.parent)},
        )


def _program_or_skip() -> str:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None or not all(map(_has_face, LANGUAGES)):
        pytest.skip(WHERE_FROM)
    return program


def _has_face(language: str) -> bool:
    listing = shutil.which("fc-list")
    if listing is None:
        return False
    asked = [listing, f":lang={language}"]
    found = subprocess.run(asked, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return bool(found.stdout.strip())
