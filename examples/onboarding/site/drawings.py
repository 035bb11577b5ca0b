"""The pictures of the bundled sites, painted when they are asked for: no binary file lies in the repository.

Pure and deterministic. Some are odd on purpose: turned by EXIF, animated, torn, absurdly large, no picture at all.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Final

from PIL import Image, ImageDraw

Colour = tuple[int, int, int]

_EXIF_ORIENTATION: Final = 0x0112
_TURNED_RIGHT: Final = 6


def loaves() -> bytes:
    image = _wall((246, 233, 210), (214, 178, 134))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 420, 960, 640), fill=(122, 78, 45))
    for left in (70, 360, 650):
        draw.ellipse((left, 250, left + 250, 470), fill=(168, 104, 52), outline=(110, 62, 28), width=6)
        for cut in range(3):
            start = left + 60 + cut * 55
            draw.line((start, 300, start + 35, 360), fill=(240, 214, 170), width=9)
    return _encode(image, "PNG")


def shop_front() -> bytes:
    image = _wall((206, 226, 238), (240, 226, 196))
    draw = ImageDraw.Draw(image)
    draw.rectangle((140, 170, 820, 600), fill=(151, 74, 52))
    draw.rectangle((190, 330, 520, 560), fill=(250, 226, 150), outline=(70, 40, 30), width=10)
    draw.rectangle((590, 330, 760, 600), fill=(62, 92, 84), outline=(70, 40, 30), width=10)
    for stripe in range(8):
        left = 150 + stripe * 83
        draw.rectangle((left, 230, left + 83, 310), fill=(250, 245, 235) if stripe % 2 else (186, 54, 48))
    draw.rectangle((0, 600, 960, 640), fill=(120, 116, 110))
    return _encode(image, "JPEG")


def crumb() -> bytes:
    image = Image.new("RGB", (720, 720), (232, 208, 168))
    draw = ImageDraw.Draw(image)
    for index in range(240):
        x, y = (index * 197) % 720, (index * 331) % 720
        size = 8 + (index * 7) % 34
        draw.ellipse((x, y, x + size, y + size * 0.7), fill=(206, 172, 122), outline=(186, 146, 94))
    return _encode(image, "JPEG")


def gravel_bike() -> bytes:
    """Stored lying on its side, with the EXIF note that says so, as a telephone does."""
    image = _wall((176, 98, 78), (150, 80, 64))
    draw = ImageDraw.Draw(image)
    for row in range(0, 640, 40):
        draw.line((0, row, 960, row), fill=(128, 66, 54), width=3)
    for centre in (280, 680):
        draw.ellipse((centre - 130, 340, centre + 130, 600), outline=(28, 28, 30), width=16)
        for spoke in range(12):
            end = (centre + 125 * math.cos(spoke * math.pi / 6), 470 + 125 * math.sin(spoke * math.pi / 6))
            draw.line((centre, 470, *end), fill=(190, 190, 190), width=2)
    frame = [
        (280, 470),
        (400, 280),
        (620, 280),
        (480, 470),
        (280, 470),
        (400, 280),
        (480, 470),
        (620, 280),
        (680, 470),
    ]
    draw.line(frame, fill=(45, 106, 79), width=18, joint="curve")
    draw.line([(400, 280), (385, 240), (350, 236), (425, 236)], fill=(28, 28, 30), width=14)
    draw.line([(620, 280), (610, 220), (670, 226)], fill=(28, 28, 30), width=14)
    exif = Image.Exif()
    exif[_EXIF_ORIENTATION] = _TURNED_RIGHT
    return _encode(image.transpose(Image.Transpose.ROTATE_90), "JPEG", exif=exif)


def turning_wheel() -> bytes:
    frames = [_wheel(turn * math.pi / 24) for turn in range(8)]
    output = io.BytesIO()
    frames[0].save(output, "GIF", save_all=True, append_images=frames[1:], duration=60, loop=0)
    return output.getvalue()


def tools() -> bytes:
    image = _wall((224, 208, 180), (206, 186, 150))
    draw = ImageDraw.Draw(image)
    for index in range(9):
        left = 80 + index * 92
        length = 160 + index * 34
        draw.rounded_rectangle((left, 110, left + 26, 110 + length), 12, fill=(92, 98, 108))
        draw.ellipse((left - 16, 80, left + 42, 138), outline=(92, 98, 108), width=16)
    return _encode(image, "WEBP")


def shelves() -> bytes:
    image = Image.new("RGB", (960, 640), (74, 52, 38))
    draw = ImageDraw.Draw(image)
    colours: tuple[Colour, ...] = (
        (146, 42, 40),
        (34, 74, 104),
        (206, 170, 92),
        (58, 96, 66),
        (224, 214, 190),
        (92, 60, 96),
    )
    for shelf in range(4):
        left, bottom = 24, 145 + shelf * 155
        while left < 920:
            width = 18 + (left * 7 + shelf * 13) % 26
            height = 96 + (left * 5 + shelf * 31) % 34
            draw.rectangle(
                (left, bottom - height, left + width, bottom), fill=colours[(left + shelf * 5) % 6]
            )
            draw.line(
                (left + 4, bottom - height + 16, left + width - 4, bottom - height + 16),
                fill=(240, 226, 180),
                width=3,
            )
            left += width + 3
        draw.rectangle((0, bottom, 960, bottom + 18), fill=(52, 34, 24))
    return _encode(image, "JPEG")


def torn() -> bytes:
    """A JPEG that ends in the middle."""
    whole = shelves()
    return whole[: len(whole) // 3]


def poster() -> bytes:
    """A PNG of a few bytes whose header claims 30,000 x 30,000 pixels: a decompression bomb."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(b"\0" * 4096))
        + _chunk(b"IEND", b"")
    )


def no_picture() -> bytes:
    return b"<!doctype html><title>404</title><p>This page calls itself a picture, as error pages do.</p>"


def teapot() -> bytes:
    image = _wall((232, 224, 240), (210, 198, 224))
    draw = ImageDraw.Draw(image)
    draw.ellipse((300, 220, 660, 520), fill=(94, 84, 142), outline=(56, 48, 92), width=8)
    draw.polygon([(640, 330), (800, 230), (820, 262), (660, 420)], fill=(94, 84, 142))
    draw.arc((190, 270, 360, 460), 70, 290, fill=(56, 48, 92), width=22)
    draw.ellipse((440, 180, 520, 240), fill=(56, 48, 92))
    return _encode(image.rotate(-9, fillcolor=(220, 210, 232)), "PNG")


DRAWINGS: Final[Mapping[tuple[str, str], tuple[str, Callable[[], bytes]]]] = {
    ("corner-bakery", "/pictures/loaves.png"): ("image/png", loaves),
    ("corner-bakery", "/pictures/shop-front.jpg"): ("image/jpeg", shop_front),
    ("corner-bakery", "/pictures/crumb.jpg"): ("image/jpeg", crumb),
    ("spoke-and-chain", "/pictures/gravel-bike.jpg"): ("image/jpeg", gravel_bike),
    ("spoke-and-chain", "/pictures/turning-wheel.gif"): ("image/gif", turning_wheel),
    ("spoke-and-chain", "/pictures/tools.webp"): ("image/webp", tools),
    ("lantern-books", "/pictures/shelves.jpg"): ("image/jpeg", shelves),
    ("lantern-books", "/pictures/torn.jpg"): ("image/jpeg", torn),
    ("lantern-books", "/pictures/poster.png"): ("image/png", poster),
    ("lantern-books", "/pictures/not-a-picture.png"): ("image/png", no_picture),
    ("crooked-teapot", "/pictures/teapot.png"): ("image/png", teapot),
}
"""(place, path) -> content type and painter."""


def _wall(top: Colour, bottom: Colour) -> Image.Image:
    """A background of 960 x 640 that goes from one colour to the other."""
    shade = Image.linear_gradient("L").resize((960, 640))
    return Image.composite(Image.new("RGB", (960, 640), bottom), Image.new("RGB", (960, 640), top), shade)


def _wheel(angle: float) -> Image.Image:
    image = Image.new("RGB", (320, 320), (240, 240, 236))
    draw = ImageDraw.Draw(image)
    draw.ellipse((20, 20, 300, 300), outline=(30, 30, 32), width=14)
    for spoke in range(10):
        turned = angle + spoke * math.pi / 5
        draw.line(
            (160, 160, 160 + 132 * math.cos(turned), 160 + 132 * math.sin(turned)),
            fill=(120, 124, 130),
            width=3,
        )
    return image


def _encode(image: Image.Image, kind: str, exif: Image.Exif | None = None) -> bytes:
    output = io.BytesIO()
    image.save(output, kind, quality=88, exif=exif or Image.Exif())
    return output.getvalue()


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
