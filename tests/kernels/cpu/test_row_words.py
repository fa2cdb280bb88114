"""Products of words with int8 weights: exact integers, and equal bytes on every ISA."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from support.plain import overflows

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.program import recurrent
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.row_words import WordLinear, pack_words
from mdtensor.kernels.cpu.program.steps import F32
from mdtensor.kernels.numpy import row_words as plain
from mdtensor.kernels.reference import recurrent as reference

HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
#: Gates, states and functions of each layer.
LAYERS = {"lstm": (4, 2, 3), "gru": (3, 1, 2), "rnn": (1, 1, 1)}
NAMES = (("sigmoid", 0.0, 0.0), ("tanh", 0.0, 0.0), ("tanh", 0.0, 0.0))


def on(name: str, function: Any, *arguments: Any) -> Any:
    return kernel_set.make_on(kernel_set.kernels(name), function, *arguments)


def run(step: Any, *given_: Any) -> Any:
    """The result in a program, where other values lie next to it."""
    program = Program()
    slots = [program.input(x.shape, F32) for x in given_]
    (found,) = program.build([program.append(step, *slots)])(*given_)
    return found


def linear(w: Any, scale: Any, bias: Any, x: Any) -> Any:
    return run(WordLinear(w, scale, bias), x)


def product(x: Any, w: Any, scale: Any) -> Any:
    """The words in integers of Python, row by row; the scales in float32."""
    most = min(32767, (2**31 - 1) // (128 * max(1, x.shape[1])))
    found = np.zeros((len(x), len(w)), np.float32)
    scales = np.broadcast_to(scale, len(w))
    for i, row in enumerate(x):
        own = np.float32(max(map(abs, row)) / np.float32(most))
        words = [0] * len(row)
        if own >= 2.0**-126:
            words = [int(np.rint(np.float32(v / own))) for v in row]
        else:
            own = np.float32(1)
        assert max(map(abs, words)) <= most
        for j, weights in enumerate(w):
            total = sum(a * int(b) for a, b in zip(words, weights, strict=True))
            assert abs(total) < 2**31
            found[i, j] = np.float32(total) * np.float32(own * scales[j])
    return found


def draw(rng: Any, m: int, k: int, n: int) -> tuple[Any, ...]:
    w = rng.integers(-128, 128, (n, k)).astype(np.int8)
    scale = rng.uniform(1e-3, 1, n).astype(np.float32)
    return w, scale, rng.normal(rng.normal(), 2, (m, k)).astype(np.float32)


@settings(max_examples=20 if isa.IS_JIT_DISABLED else 100)
@given(
    st.sampled_from([1, 2, 3, 5, 13]),
    st.sampled_from([1, 3, 8, 33]),
    st.sampled_from([1, 7, 16, 50, 130]),
    st.integers(0, 99),
)
def test_products(m: int, k: int, n: int, seed: int) -> None:
    w, scale, x = draw(np.random.default_rng(seed), m, k, n)
    wanted = product(x, w, scale)
    assert plain.multiply(x, w.astype(np.float64), scale).tobytes() == wanted.tobytes()
    bias = np.arange(n, dtype=np.float32)
    for name in ISAS:
        found = on(name, linear, w, scale, bias, x)
        assert found.tobytes() == (wanted + bias).tobytes()


@pytest.mark.compiled
@pytest.mark.parametrize("k", [512, 513, 3000])
@pytest.mark.parametrize("m", [1, 2, 50])
def test_largest_sums_stay_in_int32(m: int, k: int) -> None:
    """The largest words times the smallest weights; 50 rows are several strips."""
    x = np.full((m, k), -3.5, np.float32)
    w = np.full((1100, k), -128, np.int8)
    most = min(32767, (2**31 - 1) // (128 * k))
    scale = np.float32(3.5) / np.float32(most)
    wanted = np.float32(most * k * 128) * scale
    for name in ISAS:
        found = on(name, linear, w, np.float32(1), np.zeros(1100, np.float32), x)
        assert (found == wanted).all()


ODD = [
    [0.0, 0.0, -0.0],
    [1.0, np.nan, 2.0],
    [np.inf, 1.0, 2.0],
    [-np.inf, 1.0, 0.0],
    [3e38, -3.4e38, 1.0],
    [1e-45, 0.0, 0.0],
    [3.9e-34, -3.8e-34, 1e-35],
    [1.0, 0.5 / 32767, 1.5 / 32767],
]


@overflows
@pytest.mark.parametrize("row", ODD, ids=str)
def test_odd_rows(row: Any) -> None:
    """A row that is not finite gives NaN, and no other row."""
    w = np.arange(-6, 6, dtype=np.int8).reshape(4, 3)
    x = np.array([[1.0, 2.0, 3.0], row], np.float32)
    wanted = plain.multiply(x, w.astype(np.float64), np.float32(0.5))
    assert np.isfinite(wanted[0]).all()
    assert np.isnan(wanted[1]).all() != np.isfinite(x[1]).all()
    for name in ISAS:
        found = on(name, linear, w, np.float32(0.5), np.zeros(4, np.float32), x)
        np.testing.assert_array_equal(found, wanted)


def test_packed_order() -> None:
    w = np.arange(17 * 5, dtype=np.int8).reshape(17, 5)
    packed = pack_words(w).reshape(2, 2, 16, 4)
    assert packed[0, 0, 3].tolist() == [15, 17, 16, 18]
    assert packed[0, 1, 3].tolist() == [19, 0, 0, 0]
    assert packed[1, 0, 0].tolist() == [80, 82, 81, 83]
    assert not packed[1, :, 1:].any()


@pytest.mark.parametrize("name", LAYERS)
@settings(max_examples=15 if isa.IS_JIT_DISABLED else 60)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 5)),
    st.sampled_from([1, 3, 7, 16, 33, 68]),
    st.data(),
)
def test_layers(name: str, sizes: Any, k: int, data: Any) -> None:
    """Equal on every ISA, and near the formula for the dequantized weights."""
    (t, n, i), (gates, count, functions) = sizes, LAYERS[name]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    w, r = (rng.integers(-128, 128, (gates * k, m)).astype(np.int8) for m in (i, k))
    scales = [np.float32(0.01), rng.uniform(1e-3, 4e-3, gates * k).astype(np.float32)]
    x, b = rng.normal(size=(t, n, i)), rng.normal(size=(2, gates * k))
    x, b = x.astype(np.float32), b.astype(np.float32)
    states = rng.uniform(-1, 1, (count, n, k)).astype(np.float32)
    reads, is_on = data.draw(st.booleans()), data.draw(st.booleans())
    holes = lengths = None
    if name == "lstm" and data.draw(st.booleans()):
        holes = rng.normal(size=(3, k)).astype(np.float32)
    if data.draw(st.booleans()):
        lengths = rng.integers(0, t + 1, n)

    def layer() -> Any:
        step = recurrent.Recurrent(
            *(name, w, r, b, holes, None if reads else states, lengths),
            functions=NAMES[:functions],
            flag=is_on and name != "rnn",
            reads=reads,
            scales=scales,
            has_words=True,
        )
        return run(step, x, *(states if reads else ()))

    found = [on(one, layer) for one in ISAS]
    assert all(one.tobytes() == found[0].tobytes() for one in found)
    wide = [one * np.reshape(s, (-1, 1)) for one, s in zip((w, r), scales, strict=True)]
    own = [x.astype(np.float64), *wide, b.astype(np.float64), *states]
    own += [holes] if name == "lstm" else []
    own += [lengths, NAMES[:functions], None]
    own += [] if name == "rnn" else [is_on]
    np.testing.assert_allclose(found[0], getattr(reference, name)(*own), atol=2e-3)


def test_macs_and_bytes() -> None:
    step = WordLinear(np.ones((12, 5), np.int8), np.float32(1), np.zeros(12))
    assert step.macs((7, 2, 5)) == 7 * 2 * 12 * 5
    assert step.bytes >= 12 * 5
    layer = recurrent.Recurrent(
        *("gru", np.ones((12, 5), np.int8), np.ones((12, 4), np.int8)),
        functions=NAMES[:2],
        scales=(np.float32(1), np.float32(1)),
        has_words=True,
    )
    assert [part.kernel for part in layer.parts] == ["gemm_s16s8s32"] * 2
