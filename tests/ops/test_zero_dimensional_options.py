"""0-d tensors and arrays as sizes, axes, bounds and numbers: as Python's numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

import mdtensor as md

M = md.reshape(md.arange(9, dtype=md.float32), (3, 3))
V = md.asarray([3.0, 1.0, 2.0])
IMAGE = md.reshape(md.arange(2 * 4 * 4 * 4, dtype=md.float32), (2, 4, 4, 4)) / 50
WINDOW = md.ones((1, 4, 2, 2))

#: A call with one number, and two numbers with different results.
INTEGERS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "arange": (lambda k: md.arange(k, 9, k), 2, 3),
    "argmax": (lambda k: md.argmax(M, axis=k), 0, 1),
    "broadcast": (lambda k: md.broadcast_to(V, (k, 3)), 1, 2),
    "concat": (lambda k: md.concat([M, M], axis=k), 0, 1),
    "conv2d": (lambda k: md.conv2d(IMAGE, WINDOW, stride=k, padding=k), 1, 2),
    "diagonal": (lambda k: md.linalg.diagonal(M, offset=k), 0, 1),
    "diff": (lambda k: md.diff(V, n=k), 1, 2),
    "eye": (lambda k: md.eye(k, k=k), 1, 2),
    "fft": (lambda k: md.fft.rfft(M, n=2, axis=k), 0, 1),
    "fftfreq": (lambda k: md.fft.fftfreq(k), 2, 3),
    "full": (lambda k: md.full((k, 2), 1), 1, 2),
    "glu": (lambda k: md.glu(IMAGE, axis=k), 1, 2),
    "interpolate": (lambda k: md.interpolate(IMAGE, scale_factor=k), 1, 2),
    "layer_norm": (lambda k: md.layer_norm(M, normalized_shape=3, eps=k), 1, 2),
    "linspace": (lambda k: md.linspace(k, 9, k), 2, 3),
    "max_pool2d": (lambda k: md.max_pool2d(IMAGE, k), 1, 2),
    "one_hot": (lambda k: md.one_hot(md.asarray([0, 1]), num_classes=k), 2, 3),
    "pad": (lambda k: md.pad(V, ((k, 0),)), 1, 2),
    "pixel_shuffle": (lambda k: md.pixel_shuffle(IMAGE, k), 1, 2),
    "repeat": (lambda k: md.repeat(V, k), 1, 2),
    "reshape": (lambda k: md.reshape(md.arange(6), (k, -1)), 2, 3),
    "roll": (lambda k: md.roll(V, k), 1, 2),
    "softmax": (lambda k: md.softmax(M, axis=k), 0, 1),
    "stack": (lambda k: md.stack([M, M], axis=k), 0, 1),
    "sum": (lambda k: md.sum(M, axis=k), 0, 1),
    "take": (lambda k: md.take(M, md.asarray([0, 2]), axis=k), 0, 1),
    "tensordot": (lambda k: md.tensordot(M, M, axes=k), 0, 1),
    "tile": (lambda k: md.tile(V, (k, 1)), 1, 2),
    "trace": (lambda k: md.linalg.trace(M, offset=k), 0, 1),
    "tril": (lambda k: md.tril(M, k=k), 0, 1),
    "var": (lambda k: md.var(V, correction=k), 0, 1),
    "x.reshape": (lambda k: md.arange(6).reshape(k, -1), 2, 3),
    "x.sum": (lambda k: M.sum(k), 0, 1),
    "zeros": (lambda k: md.zeros(k), 1, 2),
}
FLOATS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "arange": (lambda k: md.arange(k, 3.0, k), 0.5, 0.25),
    "attention": (
        lambda k: md.scaled_dot_product_attention(IMAGE, IMAGE, IMAGE, scale=k),
        *(0.5, 1.0),
    ),
    "elu": (lambda k: md.elu(-V, alpha=k), 0.5, 2.0),
    "hardtanh": (lambda k: md.hardtanh(V, max_val=k), 1.5, 2.0),
    "interpolate": (lambda k: md.interpolate(IMAGE, scale_factor=k), 0.5, 1.5),
    "leaky_relu": (lambda k: md.leaky_relu(-V, negative_slope=k), 0.5, 0.25),
    "linspace": (lambda k: md.linspace(k, 2.5, 3), 0.5, 1.5),
    "rms_norm": (lambda k: md.rms_norm(M, normalized_shape=(3,), eps=k), 0.5, 1.0),
    "softplus": (lambda k: md.softplus(V, beta=k), 1.5, 2.0),
    "vector_norm": (lambda k: md.linalg.vector_norm(M, ord=k), 1.0, 3.0),
}


def same(found: md.Tensor, wanted: md.Tensor) -> bool:
    if type(found) is not type(wanted):
        return False
    return np.array_equal(np.asarray(found), np.asarray(wanted), equal_nan=True)


@each("name", INTEGERS)
@each("make", [md.asarray, np.asarray, lambda k: md.asarray(k, dtype=md.int8)])
def test_integers(name: str, make: Callable[[int], Any]) -> None:
    call, *numbers = INTEGERS[name]
    # The second number must not get the result that is cached for the first.
    for number in (*numbers, *reversed(numbers)):
        assert same(call(make(number)), call(number))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("make", [md.asarray, np.asarray])
def test_floats(name: str, make: Callable[[float], Any]) -> None:
    call, *numbers = FLOATS[name]
    for number in (*numbers, *reversed(numbers)):
        assert same(call(make(number)), call(number))


@pytest.mark.parametrize(
    "wrong", [md.asarray(1.5), md.asarray(True), md.asarray([1]), md.asarray(1j)]
)
def test_other_tensors_are_no_sizes(wrong: md.Tensor) -> None:
    for call in (
        lambda: md.zeros((wrong, 2)),
        lambda: md.sum(M, axis=wrong),
        lambda: md.linspace(0, 1, wrong),
    ):
        with pytest.raises(md.OptionError, match=r"(shape|axis|num) is"):
            call()


@pytest.mark.parametrize("wrong", [md.asarray([1.0]), "a", md.asarray([1j])])
def test_bounds_are_numbers(wrong: Any) -> None:
    kind = type(wrong).__name__
    for call in (lambda: md.linspace(wrong, 1, 3), lambda: md.arange(0, wrong)):
        with pytest.raises(md.OptionError, match=f"a bound is a {kind}. Give a number"):
            call()


HUGE = [2**31, 2**40, 2**47]


@pytest.mark.parametrize("size", HUGE)
def test_sizes_beyond_31_bits(size: int) -> None:
    assert md.broadcast_to(md.ones((1,)), (size,)).shape == (size,)
    assert md.reshape(md.broadcast_to(md.ones((1,)), (size, 1)), (size,)).size == size
    for call in (
        lambda: md.linalg.diagonal(M, offset=size),
        lambda: md.diff(V, n=size),
    ):
        assert call().shape == (0,)
    assert md.roll(V, size).tolist() == np.roll(np.asarray(V), size).tolist()


@pytest.mark.parametrize("size", [2**45, 2**47, 2**48, 2**62, 2**63 - 1, 2**64])
def test_sizes_beyond_memory_are_errors(size: int) -> None:
    for call in (
        lambda: md.zeros((size, 64)),
        lambda: md.empty(size * 8),
        lambda: md.full((size, 64), 1),
        lambda: md.eye(size),
        lambda: md.linspace(0, 1, size * 8),
        lambda: md.arange(min(size * 8, 2**63) - 1),
        lambda: md.one_hot(md.asarray([1] * 64), num_classes=size),
        lambda: md.fft.fftfreq(size * 8),
        lambda: md.tile(V, size * 8),
        lambda: md.repeat(V, size * 8),
    ):
        with pytest.raises(md.MdtensorError):
            call()


def test_an_ordinary_tensor_of_2_to_the_31_bytes() -> None:
    x = md.zeros((2**31,), dtype=md.int8)
    assert (x.shape, x.nbytes) == ((2**31,), 2**31)
    x[2**31 - 1] = 7
    assert x[-1].tolist() == 7
