"""Looking at pictures: what a look gives, and that no file at all is a crash or costs more than it should."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFilter

from onboarding.site import drawings
from onboarding.vision import MOST_PIXELS, PictureFacts, look_at, upright_copy


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, **options)
    return output.getvalue()


def chess(size: tuple[int, int] = (200, 100), mode: str = "RGB") -> Image.Image:
    """Red on the left, blue on the right, with sharp edges."""
    image = Image.new("RGB", size, (200, 30, 30))
    ImageDraw.Draw(image).rectangle((size[0] // 2, 0, *size), fill=(20, 40, 180))
    return image.convert(mode)


def look(folder: Path, content: bytes) -> PictureFacts:
    path = folder / "picture"
    path.write_bytes(content)
    return look_at(path)


def test_a_look_gives_size_format_colours_brightness_and_sharpness(tmp_path: Path) -> None:
    facts = look(tmp_path, encoded(chess(), "PNG"))

    assert (facts.format, facts.mode, facts.width, facts.height) == ("PNG", "RGB", 200, 100)
    assert {colour.hex: round(colour.share, 1) for colour in facts.colours[:2]} == {
        "#c81e1e": 0.5,
        "#1428b4": 0.5,
    }
    assert 0.2 < facts.brightness < 0.4
    assert (facts.animated, facts.orientation, facts.problem) == (False, 1, "")


def test_a_blurred_picture_is_less_sharp(tmp_path: Path) -> None:
    content = drawings.shelves()
    with Image.open(io.BytesIO(content)) as image:
        blurred = encoded(image.filter(ImageFilter.GaussianBlur(6)), "PNG")

    assert look(tmp_path, content).sharpness > 100
    assert look(tmp_path, blurred).sharpness < 20


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F"])
def test_every_mode_of_a_picture_can_be_looked_at(tmp_path: Path, mode: str) -> None:
    kind = {"CMYK": "JPEG", "F": "TIFF"}.get(mode, "PNG")
    image = chess(mode="L").convert("I").convert(mode) if mode == "I;16" else chess(mode=mode)
    facts = look(tmp_path, encoded(image, kind))

    if mode == "F":
        assert facts.problem == "it is none of PNG, JPEG, GIF, WEBP", "TIFF is not decoded"
    else:
        assert (facts.problem, facts.width, len(facts.colours) > 0) == ("", 200, True)


def test_a_transparent_picture_is_seen_on_white(tmp_path: Path) -> None:
    facts = look(tmp_path, encoded(Image.new("RGBA", (50, 50), (0, 0, 0, 0)), "PNG"))

    assert facts.colours[0].hex == "#ffffff"


def test_a_turned_photograph_is_measured_as_it_is_meant_to_be_seen(tmp_path: Path) -> None:
    facts = look(tmp_path, drawings.gravel_bike())

    assert (facts.orientation, facts.width, facts.height) == (6, 960, 640)
    upright = upright_copy(tmp_path / "picture", (300, 300))
    assert upright is not None
    assert upright.size == (300, 200)


def test_an_animation_counts_its_frames(tmp_path: Path) -> None:
    facts = look(tmp_path, drawings.turning_wheel())

    assert (facts.format, facts.frames, facts.animated) == ("GIF", 8, True)


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2)])
def test_the_smallest_pictures_have_no_sharpness(tmp_path: Path, size: tuple[int, int]) -> None:
    facts = look(tmp_path, encoded(Image.new("RGB", size), "PNG"))

    assert (facts.problem, facts.width, facts.height) == ("", *size)


@pytest.mark.parametrize(
    "content", [b"", b"\x89PNG\r\n\x1a\n", drawings.torn(), drawings.no_picture(), drawings.poster()]
)
def test_what_is_no_whole_picture_says_so(tmp_path: Path, content: bytes) -> None:
    facts = look(tmp_path, content)

    assert facts.problem
    assert facts.bytes == len(content)
    assert upright_copy(tmp_path / "picture", (100, 100)) is None


def claims(width: int, height: int) -> bytes:
    """A PNG of some hundred bytes that claims to have these many pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("width", [8_000, 12_000, 30_000])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_small_file_that_claims_a_huge_picture_is_not_decoded(tmp_path: Path, width: int) -> None:
    assert width * width > MOST_PIXELS
    path = tmp_path / "bomb"
    path.write_bytes(claims(width, width))

    tracemalloc.start()
    facts = look_at(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "pixels" in facts.problem
    assert peak < 2_000_000
    assert upright_copy(path, (100, 100)) is None


samples = st.sampled_from(
    [
        *(encoded(chess((40, 20)), kind) for kind in ("PNG", "JPEG", "WEBP")),
        encoded(chess((40, 20), "P"), "GIF"),
        drawings.turning_wheel()[:4000],
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(samples, st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), min_size=1, max_size=12))
def test_a_damaged_picture_is_never_a_crash(
    tmp_path: Path, content: bytes, damages: list[tuple[int, int]]
) -> None:
    damaged = bytearray(content)
    for position, value in damages:
        damaged[position % len(damaged)] = value

    facts = look(tmp_path, bytes(damaged))

    assert facts.bytes == len(content)
    upright_copy(tmp_path / "picture", (32, 32))
