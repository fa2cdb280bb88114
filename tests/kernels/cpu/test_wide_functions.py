"""Functions of float32 in float64, against NumPy's long doubles, rounded once."""

from typing import Any

import numpy as np
import pytest
from support.each import each
from support.plain import overflows

from mdtensor.kernels.cpu import float_calls, isa
from mdtensor.kernels.cpu.generic import wide_functions, wide_pairs

pytestmark = overflows

COUNT = 2_000 if isa.IS_JIT_DISABLED else 100_000
NUMPY = {
    **{name: getattr(np, name) for name in ("expm1", "log1p", "log2", "log10", "tan")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sinh", "cosh", "tanh")},
}
SPECIAL = np.float32(
    [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -0.5, 1e-45, -1e-45),
        *(2, 10, 100, 1000, 1e10, 88.7, 88.8, 89.4, 89.5, -104, -17, 1e-20, 3e38),
        *(0.99999994, -0.99999994, 1.0000001, 4.9e5, 5.1e5, -3e30),
    ]
)
RNG = np.random.default_rng(5)
#: Bits of float32 all over, and numbers where functions are used.
EVERY = np.concatenate(
    [
        SPECIAL,
        np.linspace(0, 2**32 - 1, COUNT).astype(np.uint32).view(np.float32),
        *(RNG.uniform(-n, n, COUNT).astype(np.float32) for n in (1, 4, 90, 6e5)),
        (1 + RNG.uniform(-1e-3, 1e-3, COUNT)).astype(np.float32),
    ]
)


def test_the_names_are_all_that_are_compiled() -> None:
    assert set(NUMPY) == set(float_calls.WIDE)


@pytest.mark.parametrize("name", NUMPY)
def test_each_function_is_rounded_once(name: str) -> None:
    out = np.empty_like(EVERY)
    getattr(wide_functions, f"{name}_f32")(EVERY.copy(), out)
    with np.errstate(all="ignore"):
        wanted = NUMPY[name](EVERY.astype(np.longdouble)).astype(np.float32)
    # Where the exact number is a tie up to 2**-40 parts, both neighbours are right.
    differs = ~((out == wanted) | (np.isnan(out) & np.isnan(wanted)))
    assert differs.sum() <= COUNT // 50_000
    near = np.abs(out[differs] - wanted[differs]) <= np.spacing(np.abs(wanted[differs]))
    assert near.all()
    is_number = ~np.isnan(wanted)
    assert (np.signbit(out) == np.signbit(wanted))[is_number].all()


PAIRS: dict[str, Any] = {
    "remainder": np.remainder,
    "floor_divide": np.floor_divide,
    "atan2": np.arctan2,
    "logaddexp": np.logaddexp,
}


@each("name", PAIRS)
def test_functions_of_two_numbers(name: str) -> None:
    table = [x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL)]
    quarters = np.round(RNG.uniform(-40, 40, COUNT)) / 4
    a = np.concatenate([table[0], EVERY, quarters.astype(np.float32)])
    turned = np.roll(quarters, 1).astype(np.float32)
    b = np.concatenate([table[1], RNG.permutation(EVERY), turned])
    out = np.empty_like(a)
    getattr(wide_pairs, f"{name}_f32")(a, b, out)
    with np.errstate(all="ignore"):
        if name in ("atan2", "logaddexp"):
            wide = PAIRS[name](a.astype(np.longdouble), b.astype(np.longdouble))
            wanted = wide.astype(np.float32)
        else:
            wanted = PAIRS[name](a, b)
    is_nan = np.isnan(wanted)
    assert (np.isnan(out) == is_nan).all()
    assert out[~is_nan].tobytes() == wanted[~is_nan].tobytes()
