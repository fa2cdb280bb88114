"""The demo's data: text lines of a scanned page, and the network that turns them.

Both files are in packages of the extra `demo`: the page in scikit-image, the classifier
of text direction in rapidocr-onnxruntime. The demo downloads nothing, imports neither
package, and uses no random numbers.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor.errors import ModelError

Image = npt.NDArray[np.float32]
HEIGHT, WIDTH = 48, 192
INPUT_SHAPE = (1, 3, HEIGHT, WIDTH)
#: Widths of windows by the height of their line; 192 / 48 = 4 fills the input.
ASPECTS = (4.0, 2.5)
#: Packages that the demo needs, by their import names.
PACKAGES = {
    "rapidocr_onnxruntime": "rapidocr-onnxruntime",
    "skimage": "scikit-image",
    "PIL": "Pillow",
    "onnx": "onnx",
    "onnxruntime": "onnxruntime",
    "threadpoolctl": "threadpoolctl",
}


@dataclass(frozen=True)
class Crop:
    """One window of one text line, ready for the network.

    Args:
        line: the number of the line on the page, from the top.
        left, right: the columns of the page, from left up to but not including right.
        is_turned: whether the window is turned by 180 degrees.
        pixels: float32 [1, 3, 48, 192].
    """

    line: int
    left: int
    right: int
    is_turned: bool
    pixels: Image


def classifier_path() -> Path:
    """Return the path of the ONNX classifier of text direction.

    Raises:
        ModelError: the package of the data is not installed.
    """
    folder = (
        _package("rapidocr_onnxruntime", PACKAGES["rapidocr_onnxruntime"]) / "models"
    )
    # The version of the model is part of its file name.
    found = sorted(folder.glob("*_cls_*.onnx"))
    if not found:
        raise ModelError("rapidocr-onnxruntime has no classifier of text direction")
    return found[0]


def page() -> npt.NDArray[np.uint8]:
    """Read the scanned page, one byte a pixel.

    Raises:
        ModelError: the package of the data is not installed.
    """
    path = _package("skimage", PACKAGES["skimage"]) / "data" / "page.png"
    # Pillow belongs to the extra `demo`, so it may be missing at import.
    from PIL import Image as pillow

    with pillow.open(path) as picture:
        return np.asarray(picture.convert("L"))


def check_packages() -> None:
    """Raise if a package of the demo is missing, before anything takes time.

    Raises:
        ModelError: a package is not installed.
    """
    # Names differ: users install distributions, Python imports packages.
    for name, distribution in PACKAGES.items():
        _package(name, distribution)


def _package(name: str, distribution: str) -> Path:
    try:
        # Found without an import, which would load megabytes of code for one file.
        found = importlib.util.find_spec(name)
    except ImportError:
        found = None
    if found is None or found.origin is None:
        raise ModelError(
            f"the demo needs {distribution}",
            "Install it with `pip install mdtensor[demo]`",
        )
    return Path(found.origin).parent


def text_lines(picture: npt.NDArray[np.uint8]) -> list[tuple[int, int]]:
    """Return (top, bottom) of each text line: the runs of rows with ink."""
    ink = _ink(picture).sum(axis=1)
    rows = ink > 0.03 * picture.shape[1]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], rows, [0]])))
    runs = edges.reshape(-1, 2)
    return [
        (max(int(top) - 2, 0), min(int(bottom) + 2, picture.shape[0]))
        for top, bottom in runs
        if bottom - top >= 8
    ]


def _ink(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Find pixels at least a fifth darker than the mean of the 31 x 31 around them."""
    # The paper is lit unevenly, so one threshold for the page does not work.
    reach = 15
    wide = np.pad(picture.astype(np.float64), reach + 1, mode="edge")[1:, 1:]
    # Sums of all windows at once: differences of a two-dimensional cumulative sum.
    total = np.pad(wide.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    size = 2 * reach + 1
    sums = (
        total[size:, size:]
        - total[:-size, size:]
        - total[size:, :-size]
        + total[:-size, :-size]
    )[: picture.shape[0], : picture.shape[1]]
    dark: npt.NDArray[np.bool_] = picture < 0.8 * sums / size**2
    return dark


def extent(picture: npt.NDArray[np.uint8], line: tuple[int, int]) -> tuple[int, int]:
    """Return (left, right) of the ink of a line."""
    columns = np.flatnonzero(_ink(picture)[line[0] : line[1]].sum(axis=0) > 1)
    return int(columns[0]), int(columns[-1]) + 1


def calibration_columns(
    left: int, right: int, width: int, line: int
) -> tuple[int, int]:
    """Return the columns of a line for calibration: at the left, middle or right."""
    start = left + (right - left - width) * (line % 3) // 2
    return start, start + width


def crops() -> tuple[list[Crop], list[Crop]]:
    """Return windows of every line, upright and turned: for calibration, for judging.

    No column of a line is in windows of both kinds.
    """
    picture = page()
    calibration: list[Crop] = []
    held_back: list[Crop] = []
    for number, line in enumerate(text_lines(picture)):
        left, right = extent(picture, line)
        height = line[1] - line[0]
        start, stop = calibration_columns(
            left, right, round(1.25 * ASPECTS[0] * height), number
        )
        for aspect in ASPECTS:
            width = round(aspect * height)
            own = _windows(start, stop, width)
            others = _windows(left, start, width) + _windows(stop, right, width)
            calibration += _crops(picture, number, line, own)
            held_back += _crops(picture, number, line, others)
    return calibration, held_back


def _windows(left: int, right: int, width: int) -> list[tuple[int, int]]:
    """Return windows inside [left, right), a quarter of their width apart."""
    starts = range(left, right - width + 1, max(width // 4, 1))
    return [(start, start + width) for start in starts]


def _crops(
    picture: npt.NDArray[np.uint8],
    number: int,
    line: tuple[int, int],
    windows: list[tuple[int, int]],
) -> list[Crop]:
    made = []
    for left, right in windows:
        upright = picture[line[0] : line[1], left:right]
        made.append(Crop(number, left, right, False, preprocess(upright)))
        made.append(Crop(number, left, right, True, preprocess(upright[::-1, ::-1])))
    return made


def preprocess(picture: npt.NDArray[np.uint8]) -> Image:
    """Make the input of the network: height 48, up to width 192, then zeros.

    Args:
        picture: [h, w] grey, or [h, w, 3] red, green, blue.

    Returns:
        float32 [1, 3, 48, 192], (x / 255 - 0.5) / 0.5.
    """
    colour = picture if picture.ndim == 3 else np.stack([picture] * 3, axis=-1)
    width = min(-(-HEIGHT * picture.shape[1] // picture.shape[0]), WIDTH)
    resized = resize(colour.astype(np.float32), HEIGHT, width)
    filled = np.zeros((HEIGHT, WIDTH, 3), np.float32)
    filled[:, :width] = (resized / 255 - 0.5) / 0.5
    return np.ascontiguousarray(filled.transpose(2, 0, 1)[None])


def resize(picture: Image, height: int, width: int) -> Image:
    """Resize by bilinear interpolation; pixel centers are at 0.5, edges are repeated.

    Args:
        picture: float32 [h, w, c].

    Returns:
        float32 [height, width, c].
    """
    rows, down = _taps(picture.shape[0], height)
    columns, across = _taps(picture.shape[1], width)
    down, across = down[:, None, None], across[None, :, None]
    upper, lower = picture[rows[0]], picture[rows[1]]
    between = upper + (lower - upper) * down
    first, second = between[:, columns[0]], between[:, columns[1]]
    mixed: Image = first + (second - first) * across
    return mixed


def _taps(size: int, wanted: int) -> tuple[Any, Image]:
    """Return two neighbours of each resized pixel, and its distance to the first."""
    places = (np.arange(wanted) + 0.5) * size / wanted - 0.5
    places = np.clip(places, 0, size - 1)
    first = np.floor(places).astype(int)
    fraction = (places - first).astype(np.float32)
    return (first, np.minimum(first + 1, size - 1)), fraction
