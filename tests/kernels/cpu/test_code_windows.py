"""Products of pairs in 16 bits are exact, and give the bytes of products of words."""

from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.generic.pair_packing import MOST_PAIR, pack_pairs
from mdtensor.kernels.cpu.program import kinds, products

ISAS = sorted({"generic", "avx2"} & {"generic", kernel_set.HOST.name})
#: (input, weights, options), with a name.
CONVOLUTIONS = {
    "3x3": ((1, 7, 9, 8), (20, 8, 3, 3), {"padding": (1,) * 4}),
    "few channels, stride 2": (
        *((2, 9, 11, 3), (16, 3, 3, 3)),
        {"padding": (1, 0, 1, 2), "stride": (2, 2)},
    ),
    "dilated": (
        *((1, 9, 9, 7), (24, 7, 2, 3)),
        {"dilation": (2, 3), "padding": (1, 3, 0, 2)},
    ),
    "lines of several images": ((5, 1, 9, 6), (9, 6, 1, 4), {"padding": (0, 2, 0, 1)}),
    "no padding": ((2, 6, 8, 4), (40, 4, 2, 3), {"stride": (1, 2)}),
    "pixels": ((2, 4, 5, 23), (33, 23, 1, 1), {}),
    "every other pixel": ((1, 7, 8, 12), (8, 12, 1, 1), {"stride": (2, 2)}),
}


def drawn(weights, spread, seed):
    """Return weights of a normal distribution, limited to int8."""
    rng = np.random.default_rng(seed)
    found = np.rint(rng.standard_normal(weights) * spread)
    return found.clip(-128, 127).astype(np.int8)


def on(name, takes_pairs):
    """Return the kernels of an ISA, with products of pairs or without."""
    own = vars(kernel_set.kernels(name))
    return SimpleNamespace(**own | {"MULTIPLIES_PAIRS": takes_pairs})


def made(name, takes_pairs, weight, options):
    """Return a convolution of an ISA whose results use all codes."""
    depth, n = weight[0].size, len(weight)
    ratio = Fraction(1, max(1, int(depth**0.5 * 25)))
    bias = np.arange(n, dtype=np.int32) * 37 - 99
    rules = {"ratios": [ratio] * n, "zero_point": 120, "x_zero_point": 131}
    return kernel_set.make_on(
        on(name, takes_pairs),
        lambda: products.Conv2d(weight, bias, **rules, **options),
    )


@given(
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(4, 40),
    st.sampled_from((5, 30, 60, 500)),
    st.integers(0, 99),
)
def test_groups_have_each_weight_once_and_safe_pairs(n, runs, length, spread, seed):
    weight = drawn((n, 2, runs, length), spread, seed)
    starts, entries, packed = pack_pairs(weight)
    assert len(entries) == len(packed) == starts[-1] and starts[0] == 0
    pairs = packed.reshape(-1, 2).astype(np.int64)
    for sign in (1, -1):
        assert np.maximum(sign * pairs, 0).sum(axis=1).max() <= MOST_PAIR
    total = np.zeros((-(-n // 16) * 16, *weight.shape[1:]), np.int64)
    for panel, (first, end) in enumerate(pairwise(starts)):
        for i in range(first, end):
            line, run, at = entries[i]
            assert 0 <= at <= length - 4
            own = total[16 * panel : 16 * panel + 16, line, run, at : at + 4]
            # A weight is in one group, and 0 in the others.
            assert not (own * packed[i]).any()
            own += packed[i]
    assert np.array_equal(total[:n], weight) and not total[n:].any()


@pytest.mark.parametrize("spread", [9, 30])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_give_the_bytes_of_words(name, spread):
    shape, weights, options = CONVOLUTIONS[name]
    weight = drawn(weights, spread, 1)
    x = np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8)
    wanted = made("generic", False, weight, options)(x)
    for isa in ISAS:
        step = made(isa, True, weight, options)
        assert step.kind == kinds.WINDOWS
        assert np.array_equal(step(x), wanted)


# 65,536 sums and ties of every kind: many results lie next to a tie.
@pytest.mark.compiled
def test_results_next_to_ties():
    x = np.random.default_rng(3).integers(0, 256, (1, 64, 64, 16), dtype=np.uint8)
    weight = drawn((24, 16, 1, 1), 30, 4)
    rules = {"ratios": [Fraction(1, 200)] * 24, "zero_point": 128}
    steps = [
        kernel_set.make_on(on(isa, is_pair), lambda: products.Conv2d(weight, **rules))
        for isa, is_pair in (("generic", False), (ISAS[0], True))
    ]
    assert [step.kind for step in steps] == [kinds.CONV, kinds.WINDOWS]
    assert np.array_equal(*(step(x) for step in steps))


def test_the_largest_codes_and_weights_do_not_saturate():
    weight = np.full((16, 8, 3, 3), -128, np.int8)
    weight[::2] = 127
    x = np.full((1, 5, 5, 8), 255, np.uint8)
    # Each pair is unsafe, so a group has two weights: words take their place.
    assert made("generic", True, weight, {}).kind == kinds.CONV
    mixed = weight.copy()
    mixed[:, 1::2] = 0
    step = made("generic", True, mixed, {"padding": (1,) * 4})
    assert step.kind == kinds.WINDOWS
    wanted = made("generic", False, mixed, {"padding": (1,) * 4})(x)
    for isa in ISAS:
        found = made(isa, True, mixed, {"padding": (1,) * 4})(x)
        assert np.array_equal(found, wanted)
