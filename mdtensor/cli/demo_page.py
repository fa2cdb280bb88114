"""The demo's page for OCR: what it says, pages to calibrate on, and the error rate.

The page is the scan of `demo_data`, enlarged twice: its letters are 8 pixels high.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mdtensor.cli import demo_data

#: What the page says.
TEXT = """Region-based segmentation Let us first determine markers of the coins and the
background. These markers are pixels that we can label unambiguously as either object or
background. Here, the markers are found at the two extreme parts of the histogram of
grey values: >>> markers = np.zeros_like(coins)"""
#: Width and height of all pages.
SIZE = (768, 382)
#: Printable characters, with many blanks among them.
CHARACTERS = [*range(33, 127), *[32] * 20]


def enlarged_page() -> Any:
    """Return the page as a picture of Pillow."""
    from PIL import Image

    picture = Image.fromarray(demo_data.page())
    return picture.resize(SIZE, Image.Resampling.BICUBIC)


def page_of_characters(number: int) -> Any:
    """Return a page for calibration: random characters in several sizes."""
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(number)
    page = Image.new("L", SIZE, int(rng.integers(170, 250)))
    pen, top = ImageDraw.Draw(page), 12
    while top < 320:
        size = int(rng.integers(22, 40))
        words = "".join(map(chr, rng.choice(CHARACTERS, 30)))
        pen.text((16, top), words, 30, font=ImageFont.load_default(size))
        top += size + 12
    return page


def with_boxes(page: Any, boxes: Iterable[Any]) -> Any:
    """Return a page with boxes around its lines, each box of four corners."""
    from PIL import ImageDraw

    picture = page.convert("RGB")
    for box in boxes:
        corners = [tuple(corner) for corner in box]
        ImageDraw.Draw(picture).polygon(corners, outline="red")
    return picture


def error_rate(text: str) -> float:
    """Return the share of wrong characters: edits of the text by its length.

    Blanks do not count.

    Example:
        >>> error_rate(TEXT), error_rate(TEXT.replace("=", ""))
        (0.0, 0.003952569169960474)
    """
    given, wanted = "".join(text.split()), "".join(TEXT.split())
    row: list[int] = [*range(len(given) + 1)]
    for i, c in enumerate(wanted, 1):
        before, row = row, [i]
        for j, d in enumerate(given):
            row.append(min(before[j] + (c != d), before[j + 1] + 1, row[j] + 1))
    return row[-1] / len(wanted)
