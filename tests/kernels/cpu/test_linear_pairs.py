"""Linear layers of many rows multiply pairs of codes, with the bytes of words."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.program import kinds, products
from tests.kernels.cpu.test_code_windows import ISAS, drawn, on


def made(name, takes_pairs, weight, rows):
    """Return a layer of an ISA that was packed for so many rows."""
    ratios = [Fraction(3, 900 + 7 * i) for i in range(len(weight))]
    bias = np.arange(len(weight), dtype=np.int32) * 41 - 300
    return kernel_set.make_on(
        on(name, takes_pairs),
        lambda: products.Linear(
            weight, bias, rows=rows, ratios=ratios, x_zero_point=117, zero_point=125
        ),
    )


@given(st.integers(1, 9), st.integers(4, 70), st.integers(1, 40), st.integers(0, 99))
def test_pairs_give_the_bytes_of_words(rows, depth, n, seed):
    weight = drawn((n, depth), 25, seed)
    x = np.random.default_rng(seed).integers(0, 256, (rows, depth), dtype=np.uint8)
    wanted = made("generic", False, weight, 1)(x)
    for isa in ISAS:
        assert np.array_equal(made(isa, True, weight, 1 << 10)(x), wanted)


@pytest.mark.parametrize(
    ("rows", "depth", "kind"),
    [
        (1, 4096, kinds.CONV),
        (3, 4096, kinds.CONV),
        (4, 256, kinds.WINDOWS),
        (4, 255, kinds.CONV),
        (32, 32, kinds.WINDOWS),
    ],
)
def test_few_rows_multiply_words(rows, depth, kind):
    weight = drawn((16, depth), 20, 5)
    assert made("generic", True, weight, rows).kind == kind
    assert made("generic", False, weight, rows).kind == kinds.CONV


def test_layers_take_any_number_of_rows():
    weight = drawn((24, 64), 20, 6)
    x = np.random.default_rng(7).integers(0, 256, (2, 3, 64), dtype=np.uint8)
    steps = [made("generic", True, weight, rows) for rows in (1, 64)]
    assert [step.kind for step in steps] == [kinds.CONV, kinds.WINDOWS]
    assert np.array_equal(*(step(x) for step in steps))
