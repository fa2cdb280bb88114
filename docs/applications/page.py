"""A scanned page, what it says, and pages of characters to calibrate on."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from skimage import data

SCAN = Image.open(Path(data.__file__).with_name("page.png"))
#: Twice the size of the scan, whose letters are 8 pixels high.
PAGE = SCAN.resize((2 * SCAN.width, 2 * SCAN.height), Image.Resampling.BICUBIC)
#: What the page says.
TEXT = """Region-based segmentation Let us first determine markers of the coins and the
background. These markers are pixels that we can label unambiguously as either object or
background. Here, the markers are found at the two extreme parts of the histogram of
grey values: >>> markers = np.zeros_like(coins)"""


def page_of_characters(seed: int) -> Image.Image:
    """Return a page for calibration: printable characters in several sizes."""
    rng = np.random.default_rng(seed)
    page = Image.new("L", PAGE.size, int(rng.integers(170, 250)))
    pen, top = ImageDraw.Draw(page), 12
    while top < 320:
        size = int(rng.integers(22, 40))
        words = "".join(map(chr, rng.choice([*range(33, 127), *[32] * 20], 30)))
        pen.text((16, top), words, 30, font=ImageFont.load_default(size))
        top += size + 12
    return page


def error_rate(text):
    """Return the character error rate, without spaces: edits by characters."""
    given, wanted = "".join(text.split()), "".join(TEXT.split())
    row = [*range(len(given) + 1)]
    for i, c in enumerate(wanted, 1):
        before, row = row, [i]
        for j, d in enumerate(given):
            row.append(min(before[j] + (c != d), before[j + 1] + 1, row[j] + 1))
    return row[-1] / len(wanted)


def fitted(batch, shape):
    """Yield the pictures of a batch, with zeros on the right up to the width."""
    for one in batch:
        room = shape[-1] - one.shape[-1]
        yield np.pad(one[None], ((0, 0), (0, 0), (0, 0), (0, room)))


def with_boxes(page, boxes):
    """Return a page with boxes around lines, each box of four corners."""
    picture = page.convert("RGB")
    for box in boxes:
        corners = [tuple(corner) for corner in box]
        ImageDraw.Draw(picture).polygon(corners, outline="red")
    return picture


def read(engine, page):
    """Return the boxes and the text that RapidOCR finds on a page."""
    found, _ = engine(np.asarray(page.convert("RGB")))
    return [box for box, _, _ in found], " ".join(text for _, text, _ in found)
