"""The accent colour of a page: the place's own where it has one, made dark enough for white text on it.

Pure. Invariant: only `#rrggbb` leaves, so that it may stand in a style sheet, with a contrast of at least 4.5 to white
(WCAG 2, level AA).
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Iterable
from typing import Final

FALLBACK: Final = "#3a5a78"
_COLOUR: Final = re.compile(r"#[0-9a-f]{6}")
_ENOUGH_CONTRAST: Final = 4.5
_ENOUGH_SATURATION: Final = 0.25


def accent(theme: str, seen: Iterable[str]) -> str:
    """The theme colour, else the first of `seen` that is colourful, else a calm blue; darkened as needed."""
    candidates = [theme, *(colour for colour in seen if _is_colourful(colour)), FALLBACK]
    return _darkened(next(colour for colour in candidates if _COLOUR.fullmatch(colour)))


def contrast_to_white(colour: str) -> float:
    """The contrast ratio of WCAG 2, from 1 (white itself) to 21 (black)."""
    red, green, blue = (_linear(part) for part in _parts(colour))
    return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)


def _darkened(colour: str) -> str:
    hue, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    while contrast_to_white(colour) < _ENOUGH_CONTRAST:
        lightness *= 0.93
        red, green, blue = (round(part * 255) for part in colorsys.hls_to_rgb(hue, lightness, saturation))
        colour = f"#{red:02x}{green:02x}{blue:02x}"
    return colour


def _is_colourful(colour: str) -> bool:
    if not _COLOUR.fullmatch(colour):
        return False
    _, lightness, saturation = colorsys.rgb_to_hls(*_parts(colour))
    return saturation >= _ENOUGH_SATURATION and 0.15 <= lightness <= 0.75


def _parts(colour: str) -> tuple[float, float, float]:
    return int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
