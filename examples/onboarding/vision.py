"""VISION's look at one picture, with Pillow: what it is, how large, which colours, how sharp, how bright.

Pure but for reading the file; heavy on the CPU, so callers give it a thread. Invariant: any bytes at all give a
`PictureFacts`; what can't be looked at says why in `problem`. The size is checked before a pixel is decoded, so that a
small file that claims a huge picture costs nothing.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image, ImageFilter, ImageOps, ImageStat, UnidentifiedImageError

from onboarding.facts import clean

FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
MOST_PIXELS: Final = 50_000_000
LOOKED_AT: Final = (512, 512)
"""Pixels of the reduced copy that is looked at: colours and sharpness need no more, and stay comparable."""

COLOURS: Final = 5
_ORIENTATION: Final = 0x0112
_LAPLACE: Final = ImageFilter.Kernel((3, 3), (0, 1, 0, 1, -4, 1, 0, 1, 0), scale=1, offset=128)
_UNREADABLE: Final = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    EOFError,
    KeyError,
    IndexError,
    OverflowError,
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,
)
"""What Pillow raises for broken files: most is OSError, the rest comes out of single format plugins."""


@dataclass(frozen=True, slots=True)
class Colour:
    """A dominant colour as `#rrggbb`, and the share of the picture that it covers, 0 to 1."""

    hex: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureFacts:
    """What a look at a picture gave.

    `width` and `height` are as it is meant to be seen, in pixels; `orientation` is the EXIF value, 1 where there is
    none. `sharpness` is the variance of the Laplacian (under about 20: blurred); `brightness` and `contrast` run
    from 0 to 1.
    """

    bytes: int
    format: str = ""
    mode: str = ""
    width: int = 0
    height: int = 0
    frames: int = 1
    orientation: int = 1
    colours: tuple[Colour, ...] = ()
    sharpness: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    problem: str = ""

    @property
    def animated(self) -> bool:
        return self.frames > 1


def look_at(path: Path) -> PictureFacts:
    """Look at the picture in a file. Raises OSError only when the file itself can't be read."""
    content = path.read_bytes()
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return _unseen(
                    content, image, f"it has {image.width} x {image.height} pixels, more than are decoded"
                )
            return _measure(content, image)
    except UnidentifiedImageError:
        return PictureFacts(bytes=len(content), problem=f"it is none of {', '.join(FORMATS)}")
    except _UNREADABLE as error:
        return PictureFacts(bytes=len(content), problem=f"it can't be decoded: {clean(str(error))}")


def upright_copy(path: Path, size: tuple[int, int]) -> Image.Image | None:
    """The picture, turned as it is meant to be seen, on white, within `size`; None when it can't be decoded."""
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > MOST_PIXELS:
                return None
            return _reduced(image, size)
    except _UNREADABLE:
        return None


def _measure(content: bytes, image: Image.Image) -> PictureFacts:
    kind, mode, (width, height) = image.format or "", image.mode, image.size
    orientation = _orientation(image)
    frames = int(getattr(image, "n_frames", 1))
    small = _reduced(image, LOOKED_AT)
    grey = small.convert("L")
    tone = ImageStat.Stat(grey)
    return PictureFacts(
        bytes=len(content),
        format=kind,
        mode=mode,
        width=height if orientation >= 5 else width,
        height=width if orientation >= 5 else height,
        frames=frames,
        orientation=orientation,
        colours=_dominant_colours(small),
        sharpness=round(_sharpness(grey), 1),
        brightness=round(tone.mean[0] / 255, 3),
        contrast=round(tone.stddev[0] / 127.5, 3),
    )


def _unseen(content: bytes, image: Image.Image, problem: str) -> PictureFacts:
    return PictureFacts(
        bytes=len(content),
        format=image.format or "",
        mode=image.mode,
        width=image.width,
        height=image.height,
        problem=problem,
    )


def _orientation(image: Image.Image) -> int:
    value = image.getexif().get(_ORIENTATION, 1)
    return value if isinstance(value, int) and 1 <= value <= 8 else 1


def _reduced(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    image.draft("RGB", size)  # lets JPEG decode at a fraction of its size
    upright = ImageOps.exif_transpose(image).convert("RGBA")
    upright.thumbnail(size, Image.Resampling.LANCZOS)
    paper = Image.new("RGBA", upright.size, "white")
    return Image.alpha_composite(paper, upright).convert("RGB")


def _dominant_colours(image: Image.Image) -> tuple[Colour, ...]:
    sample = image.resize((96, 96), Image.Resampling.BOX)
    few = sample.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).convert("RGB")
    counted = few.getcolors(few.width * few.height) or []
    total = few.width * few.height
    ranked = sorted(((count, _hex(colour)) for count, colour in counted), reverse=True)
    return tuple(Colour(hex=name, share=round(count / total, 3)) for count, name in ranked)


def _hex(colour: object) -> str:
    red, green, blue = colour if isinstance(colour, tuple) else (0, 0, 0)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _sharpness(grey: Image.Image) -> float:
    if min(grey.size) < 3:
        return 0.0
    # The filter leaves the outermost pixels as they were: they are no part of its answer.
    edges = grey.filter(_LAPLACE).crop((1, 1, grey.width - 1, grey.height - 1))
    return float(ImageStat.Stat(edges).var[0])
