"""Kernels end somewhere: what lies behind is computed on integers, never an error."""

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import QParams, qint8, qint32, runway
from mdtensor.quant.ops import activation, arithmetic, conv, conversion, kernels, pool
from mdtensor.quant.tensor import QInt8Tensor

IMAGE = md.TensorSpec(QInt8Tensor, (1, 2, 3, 3), QParams(1e30, 3))
WEIGHTS = QInt8Tensor(np.ones((1, 2, 1, 1), np.int8), scale=0.5)
WINDOW = {"stride": 1, "padding": 0}
FLAGS = {"ceil_mode": False, "count_include_pad": False}
STEPS = {
    "add": lambda out: arithmetic.add_step(IMAGE, IMAGE, out=out),
    "mul": lambda out: arithmetic.mul_step(IMAGE, IMAGE, out=out),
    "conv": lambda out: conv.conv2d_step(
        IMAGE, WEIGHTS, None, **WINDOW, dilation=1, groups=1, out=out
    ),
    "mean": lambda out: pool.global_avg_pool2d_step(IMAGE, out=out),
    "pool": lambda out: pool.avg_pool2d_step(
        *(IMAGE,), **WINDOW, **FLAGS, kernel_size=1, out=out
    ),
}  # fmt: skip
TABLES = {
    "sigmoid": lambda out: activation.sigmoid_step(IMAGE, out=out),
    "requantize": lambda out: conversion.requantize_step(IMAGE, out=out),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_ratio_past_the_kernels_is_not_compiled(name):
    with pytest.raises(kernels.NotCompiled, match=r"is outside 2\*\*-40"):
        STEPS[name](QParams(1e-5))


@pytest.mark.parametrize("name", STEPS | TABLES)
@pytest.mark.parametrize(
    "out", [QParams(1e30, dtype=qint32), QParams([1e30, 1e30], axis=1, dtype=qint8)]
)
def test_only_one_grid_of_8_bits_is_compiled(name, out):
    with pytest.raises(kernels.NotCompiled, match="one grid of 8-bit codes"):
        (STEPS | TABLES)[name](out)


@pytest.mark.parametrize("name", [n for n in STEPS | TABLES if n != "conv"])
def test_a_step_needs_out(name):
    with pytest.raises(kernels.NotCompiled):
        (STEPS | TABLES)[name](None)


def test_other_errors_of_ours_pass():
    def fails():
        raise md.ShapeError("no")

    with pytest.raises(md.ShapeError):
        kernels.attempt(kernels.make_step, fails)
    assert kernels.attempt(kernels.make_step, lambda: int("x")) is None


def test_shapes_that_are_not_compiled():
    scalar = md.TensorSpec(QInt8Tensor, (), QParams(1))
    with pytest.raises(kernels.NotCompiled, match="equal shapes"):
        arithmetic.mul_step(scalar, scalar, out=QParams(1))
    with pytest.raises(kernels.NotCompiled, match="equal shapes"):
        arithmetic.add_step(scalar, IMAGE, out=QParams(1))


def test_equal_grids_share_a_step():
    def made(out=0.5, rule=None, scale=1e30):
        x = md.TensorSpec(QInt8Tensor, (1, 2), QParams(scale, 3))
        grid = QParams(out * scale, rounding=rule)
        return kernels.find_step(arithmetic.add_step, x, x, out=grid)

    first = made()
    assert made() is first is not None
    assert made(0.25) is not first
    assert made(rule="exact") is not first
    assert made(rule="onnx") is None
    assert made(1e-35) is None
    with runway("generic"):
        assert made().on.name == "generic"
    assert made() is first
