"""Writing lines into pipes: a full one holds nobody up for long, a slow reader gets every line."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

from wakeful.telemetry.writing import PATIENCE_SECONDS, LineWriter

LONG = "x" * 5000
Pipe = tuple[int, TextIO]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """A pipe: the descriptor to read from, the stream to write to."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        yield reading, stream
        os.close(reading)


def fill(writer: LineWriter) -> int:
    """Write until a line is dropped; gives how many were not."""
    written = 0
    while writer.write(LONG):
        written += 1
    return written


def test_a_full_pipe_costs_one_wait_and_then_none(pipe: Pipe) -> None:
    _, stream = pipe
    writer = LineWriter(stream)
    fill(writer)
    began = time.monotonic()

    assert not any(writer.write(LONG) for _ in range(1000))
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert writer.dropped == 1001


def test_when_the_reader_is_back_lines_are_whole_again(pipe: Pipe) -> None:
    reading, stream = pipe
    writer = LineWriter(stream)
    fill(writer)
    os.read(reading, 1 << 20)

    assert writer.write("after")
    assert os.read(reading, 1 << 20).decode().splitlines()[-1] == "after"


def test_a_slow_reader_gets_every_line(pipe: Pipe) -> None:
    reading, stream = pipe
    writer, got = LineWriter(stream), bytearray()

    def read() -> None:
        while len(got) < 100 * (len(LONG) + 1):
            got.extend(os.read(reading, 4096))

    reader = threading.Thread(target=read)
    reader.start()
    assert all(writer.write(LONG) for _ in range(100))
    reader.join()
    assert writer.dropped == 0
    assert got.decode().splitlines() == [LONG] * 100
