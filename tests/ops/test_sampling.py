"""Points and regions of images, against padded arrays, planes and loops."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.errors import BoundsError, OptionError, PromotionError, ShapeError

RNG = np.random.default_rng(4)
#: How `numpy.pad` calls the paddings, by padding and align_corners.
PADS = {
    ("zeros", False): "constant",
    ("zeros", True): "constant",
    ("border", False): "edge",
    ("border", True): "edge",
    ("reflection", False): "symmetric",
    ("reflection", True): "reflect",
}


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize(("padding", "corners"), PADS)
@pytest.mark.parametrize("sizes", [(5,), (4, 6), (3, 4, 2)])
def test_whole_positions_are_pixels(
    sizes: Any, padding: str, corners: bool, mode: str
) -> None:
    x = RNG.integers(-9, 9, (2, 3, *sizes)).astype(np.float32)
    widths = [(0, 0), (0, 0), *[(7, 8)] * len(sizes)]
    wanted = np.pad(x, widths, mode=PADS[padding, corners])  # type: ignore[call-overload]
    places = np.indices(wanted.shape[2:], np.float32) - 7
    grid = np.stack([np.moveaxis(places[::-1], 0, -1)] * 2)
    options: dict[str, Any] = {"padding_mode": padding, "align_corners": corners}
    x, points = md.asarray(x), md.asarray(np.ascontiguousarray(grid))
    found = md.grid_sample(x, points, mode=mode, normalized=False, **options)
    assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32, md.float64])
def test_linear_samples_of_a_plane(dtype: Any) -> None:
    rows, columns = np.indices((6, 9), np.float32)
    x = md.astype(md.asarray((rows * 2 - columns)[None, None]), dtype)
    points = RNG.integers(0, 40, (1, 7, 8, 2)).astype(np.float32) / 8
    grid = md.astype(md.asarray(points), dtype)
    found = md.grid_sample(x, grid, normalized=False)
    assert found.dtype is dtype
    wanted = points[..., 1] * 2 - points[..., 0]
    assert md.astype(found, md.float32)[0, 0].tolist() == wanted[0].tolist()


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_images_of_a_call_are_sampled_as_each_alone(mode: str) -> None:
    # Heads of attention are sampled as many small images at once; the second shape
    # is too large for that.
    for shape, points in (((9, 2, 5, 4), (6, 3)), ((3, 40, 4, 4), (30, 30))):
        x = md.asarray(RNG.standard_normal(shape, np.float32))
        spread = RNG.uniform(-1.3, 1.3, (shape[0], *points, 2)).astype(np.float32)
        grid = md.asarray(spread)
        found = np.asarray(md.grid_sample(x, grid, mode=mode))
        for k in range(shape[0]):
            alone = md.grid_sample(x[k : k + 1], grid[k : k + 1], mode=mode)
            assert found[k].tobytes() == np.asarray(alone).tobytes()


def test_corners_and_edges() -> None:
    x = md.reshape(md.arange(12, dtype=md.float32), (1, 1, 3, 4))
    ends = md.asarray([[[[-1.0, -1.0], [1.0, 1.0]]]])
    found = md.grid_sample(x, ends, align_corners=True)
    assert found.tolist() == [[[[0.0, 11.0]]]]
    # The outer edges are half outside of the image along both axes.
    assert md.grid_sample(x, ends).tolist() == [[[[0.0, 11 / 4]]]]
    far = md.asarray([[[[np.nan, 0.0], [3e38, 0.0], [-np.inf, 0.0]]]])
    for mode in ("nearest", "bilinear"):
        found = md.grid_sample(x, far, mode=mode)
        assert [math.isnan(n) for n in found.tolist()[0][0][0]] == [True, False, False]


def points_of(start: float, size: float, parts: int, count: int) -> Any:
    """The points of each part of an interval."""
    step = size / parts
    return [
        [start + part * step + (k + 0.5) * step / count for k in range(count)]
        for part in range(parts)
    ]


def at(image: Any, y: float, x: float) -> Any:
    """The linear sample of an image [c, h, w], and its four parts."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return np.zeros((4, len(image)))
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    i, j = int(y), int(x)
    down, right = min(i + 1, height - 1), min(j + 1, width - 1)
    weights = [(1 - y + i) * (1 - x + j), (1 - y + i) * (x - j)]
    weights += [(y - i) * (1 - x + j), (y - i) * (x - j)]
    pixels = [image[:, i, j], image[:, i, right], image[:, down, j]]
    pixels.append(image[:, down, right])
    return np.array([w * p for w, p in zip(weights, pixels, strict=True)])


@pytest.mark.parametrize(
    ("ratio", "aligned", "mode"), [*product([0, 3], [False, True], ["avg", "max"])]
)
def test_regions_against_loops(ratio: int, aligned: bool, mode: str) -> None:
    x = RNG.standard_normal((2, 3, 7, 9))
    boxes = RNG.uniform(-3, 8, (8, 4))
    boxes[:, 2:] = boxes[:, :2] + RNG.uniform(0.1, 9, (8, 2))
    images, size, scale = RNG.integers(0, 2, 8), (2, 3), 0.75
    wanted = np.zeros((8, 3, *size))
    for k, box in enumerate(boxes):
        left, top, right, bottom = box * scale - (0.5 if aligned else 0)
        sides = [bottom - top, right - left]
        sides = sides if aligned else [max(side, 1.0) for side in sides]
        counts = [ratio or math.ceil(s / n) for s, n in zip(sides, size, strict=True)]
        rows = points_of(top, sides[0], size[0], counts[0])
        columns = points_of(left, sides[1], size[1], counts[1])
        for i, j in np.ndindex(size):
            parts = [at(x[images[k]], y, z) for y in rows[i] for z in columns[j]]
            each = np.array(parts)
            wanted[k, :, i, j] = (
                each.sum(axis=1).mean(axis=0) if mode == "avg" else each.max((0, 1))
            )
    given = (md.asarray(x), md.asarray(boxes), md.asarray(images))
    options: Any = {"spatial_scale": scale, "sampling_ratio": ratio}
    found = md.roi_align(*given, size, aligned=aligned, mode=mode, **options)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12, atol=1e-14)


def test_pooled_regions_against_loops() -> None:
    x = RNG.standard_normal((2, 3, 8, 6))
    boxes = RNG.integers(-4, 14, (12, 5)).astype(np.float64)
    boxes[:, 0] %= 2
    boxes[:, 3:] = boxes[:, 1:3] + RNG.integers(-1, 8, (12, 2))
    size = (3, 2)
    wanted = np.zeros((12, 3, *size))
    for k, (image, left, top, right, bottom) in enumerate(boxes.astype(int)):
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in np.ndindex(size):
            rows = range(i * height // 3, -(-(i + 1) * height // 3))
            columns = range(j * width // 2, -(-(j + 1) * width // 2))
            part = [
                x[image, :, top + r, left + c]
                for r in rows
                for c in columns
                if 0 <= top + r < 8 and 0 <= left + c < 6
            ]
            wanted[k, :, i, j] = np.max(part, axis=0) if part else 0
    found = md.roi_pool(md.asarray(x), md.asarray(boxes), size)
    assert found.tolist() == wanted.tolist()


def test_wrong_arguments() -> None:
    x, grid = md.astype(md.zeros((1, 2, 3, 4)), md.float32), md.zeros((1, 5, 5, 2))
    grid = md.astype(grid, md.float32)
    with pytest.raises(ShapeError, match=r"the grid has shape \(1, 5, 5, 1\)"):
        md.grid_sample(x, grid[..., :1])
    with pytest.raises(ShapeError, match=r"the image is empty: \(0, 4\)"):
        md.grid_sample(x[:, :, :0], grid)
    with pytest.raises(PromotionError, match="x is float32, and grid is float64"):
        md.grid_sample(x, md.astype(grid, md.float64))
    with pytest.raises(OptionError, match="mode"):
        md.grid_sample(x, grid, mode="linear")
    boxes, images = md.astype(md.zeros((2, 4)), md.float32), md.asarray([0, 0])
    with pytest.raises(ShapeError, match=r"images have shape \(1,\), and boxes"):
        md.roi_align(x, boxes, images[:1], 2)
    with pytest.raises(ShapeError, match=r"boxes have shape \(2, 4\)"):
        md.roi_pool(x, boxes, 2)
    with pytest.raises(BoundsError, match="box 1 is of image 1, and there are 1"):
        md.roi_align(x, boxes, md.asarray([0, 1]), 2)
    with pytest.raises(BoundsError, match=r"box 0 is \[0.0, 0.0, inf, 1.0\]"):
        md.roi_align(x, md.asarray([[0.0, 0, np.inf, 1]]), images[:1], 2)
    with pytest.raises(BoundsError, match="has 500,000 points along an axis"):
        md.roi_align(x, md.asarray([[0.0, 0, 1e6, 1]]), images[:1], 2)
    for options in ({"spatial_scale": 0}, {"sampling_ratio": -1}, {"mode": "min"}):
        with pytest.raises(OptionError):
            md.roi_align(x, boxes, images, 2, **options)
