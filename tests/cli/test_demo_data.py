"""The demo's crops: every line, both directions, calibration apart from the rest."""

import importlib.util
from typing import Any

import numpy as np
import pytest

from mdtensor.cli import demo_data
from mdtensor.errors import ModelError


def test_the_page_has_seven_lines() -> None:
    picture = demo_data.page()
    assert picture.shape == (191, 384)
    lines = demo_data.text_lines(picture)
    assert len(lines) == 7
    assert all(10 < bottom - top < 25 for top, bottom in lines)
    assert lines == sorted(lines)


def test_crops_cover_every_line_in_both_directions() -> None:
    calibration, held_back = demo_data.crops()
    assert len(held_back) >= 100
    for crops in (calibration, held_back):
        assert {crop.line for crop in crops} == set(range(7))
        assert sum(crop.is_turned for crop in crops) * 2 == len(crops)
    windows = {(crop.line, crop.left) for crop in held_back}
    assert all(sum(w[0] == line for w in windows) > 1 for line in range(7))


def test_no_pixel_is_in_both_sets() -> None:
    calibration, held_back = demo_data.crops()
    lines = demo_data.text_lines(demo_data.page())
    for one in calibration:
        for other in held_back:
            rows = lines[one.line], lines[other.line]
            apart = other.right <= one.left or one.right <= other.left
            over = rows[0][1] <= rows[1][0] or rows[1][1] <= rows[0][0]
            assert apart or over or one.line != other.line


def test_crops_are_the_same_each_time() -> None:
    first, second = demo_data.crops(), demo_data.crops()
    for one, other in zip(first[1], second[1], strict=True):
        assert (one.pixels == other.pixels).all()


def test_preprocess() -> None:
    grey = np.full((20, 40), 255, np.uint8)
    pixels = demo_data.preprocess(grey)
    assert pixels.shape == (1, 3, 48, 192)
    assert pixels.dtype == np.float32
    assert (pixels[..., :96] == 1).all()
    assert (pixels[..., 96:] == 0).all()
    wide = demo_data.preprocess(np.zeros((10, 90, 3), np.uint8))
    assert (wide == -1).all()


def test_turning_is_turning_the_pixels() -> None:
    picture = np.arange(48 * 192, dtype=np.uint8).reshape(48, 192)
    upright = demo_data.preprocess(picture)
    turned = demo_data.preprocess(picture[::-1, ::-1])
    assert (turned == upright[..., ::-1, ::-1]).all()


def test_resize_is_bilinear_between_centers() -> None:
    row = np.array([0, 10], np.float32).reshape(1, 2, 1)
    assert demo_data.resize(row, 1, 4).ravel().tolist() == [0.0, 2.5, 7.5, 10.0]
    assert demo_data.resize(row, 1, 1).ravel().tolist() == [5.0]
    assert (demo_data.resize(row, 1, 2) == row).all()


@pytest.mark.parametrize("call", [demo_data.page, demo_data.classifier_path])
def test_without_the_packages(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"pip install mdtensor\[demo\]"):
        call()
