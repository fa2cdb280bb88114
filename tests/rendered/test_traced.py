"""Kernels of arrays as loops: the types that NumPy gives, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import rendered_device
from support.on_device import gpu, there

import mdtensor as md
from mdtensor import extend
from mdtensor.errors import NoMethodError, RegistrationError

WHY = rendered_device.missing(gpu)
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
TYPES = [md.int8, md.uint16, md.int64, md.float16, md.bfloat16, md.float32, md.float64]


def ran(kernel: Callable[..., Any], *given: Any, rule: Any = extend.arithmetic) -> Any:
    """Run a kernel of two arrays as an operation, which is forgotten afterwards."""
    with md.registry.restored():

        @md.generic(deduce=rule)
        def mixed(x1: Any, x2: Any, /) -> Any: ...

        @md.method(mixed, anywhere=True)
        def mixed(x1: extend.Number, x2: extend.Number, /) -> md.Tensor:
            return extend.compute(mixed, kernel, x1, x2)

        return mixed(*given)


#: Kernels whose functions IEEE 754 or integers decide.
KERNELS: dict[str, Callable[..., Any]] = {
    "operators": lambda a, b: (a - b) * a + b * 2,
    "reflected": lambda a, b: 3 - a + b,
    "quotient": lambda a, b: a / (abs(b) + 1),
    "choice": lambda a, b: np.where(a >= b, a, np.where(a != 2, 7, b)),
    "bounds": lambda a, b: np.minimum(np.maximum(a, b), np.square(b)),
    "tests": lambda a, b: np.where((a < b) | ~(b > 3) & np.logical_not(a == b), a, b),
    "roots": lambda a, b: np.sqrt(np.abs(a)) + np.rint(b / 3),
    "strong": lambda a, b: a * np.float32(0.1) + b * np.float64(0.1),
    "unequal": lambda a, b: a + (b * np.int8(2) < 1000.5),
}


def test_kernels_have_the_bytes_of_the_host() -> None:
    """For all types; with numbers, for one of each kind."""
    rng, pairs = np.random.default_rng(8), []
    for dtype in TYPES:
        x, y = (
            md.astype(md.asarray(rng.integers(0, 9, shape)), dtype)
            for shape in ((3, 5), (5,))
        )
        with_numbers = [(x.T, 4), (2, y)] if dtype in (md.int8, md.float32) else []
        for name, kernel in KERNELS.items():
            for given in ((x, y), *with_numbers):
                wanted, found = ran(kernel, *given), ran(kernel, *map(there, given))
                assert found.device is gpu and found.dtype is wanted.dtype
                pairs.append((name, wanted, found))
    # Read at the end, so that one run of the compiler has all kernels.
    for name, wanted, found in pairs:
        here = np.asarray(found.to("cpu"))
        assert here.tobytes() == np.asarray(wanted).tobytes(), (name, wanted.dtype)


def branch(a: Any, b: Any) -> Any:
    return a if (a > b) else b


def in_place(a: Any, b: Any) -> Any:
    a += b
    return a


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "branch": (branch, "uses a condition on elements, for which np.where is there"),
    "index": (lambda a, b: a[0] + b, "uses an index"),
    "sum": (lambda a, b: np.sum(a) + b, r"uses np\.sum"),
    "fold": (lambda a, b: np.add.reduce(a) + b, r"uses add\.reduce"),
    "method": (lambda a, b: a.sum() + b, r"uses array\.sum"),
    "in place": (in_place, "uses add with out="),
    "unknown": (lambda a, b: np.cbrt(a) + b, r"uses np\.cbrt of float32"),
    "number": (lambda a, b: float(a) + b, "uses the elements as Python numbers"),
    "array": (lambda a, b: a + b + np.ones(3), "which is no number"),
    "constant": (lambda a, b: 1.0, "uses 1.0 as a result, which is no array"),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_loop_computes_is_refused_by_name(name: str) -> None:
    kernel, words = REFUSED[name]
    x = there(md.asarray([1.0, 2.0]))
    with pytest.raises(NoMethodError, match=words) as caught:
        ran(kernel, x, x)
    assert str(gpu) in str(caught.value) and 'to("cpu")' in str(caught.value)


def test_divisors_of_integers_are_refused() -> None:
    """NumPy gives 0 for a divisor of 0 and warns; a device does neither."""
    x = there(md.asarray([1, 2]))
    with pytest.raises(NoMethodError, match=r"np\.floor_divide of int64"):
        ran(lambda a, b: a // b, x, x)


def test_a_kernel_that_leaves_out_an_operand_has_another_shape() -> None:
    x, y = there(md.ones((2, 3))), there(md.ones(3))
    with pytest.raises(RegistrationError, match=r"returned shape \(3,\).*\(2, 3\)"):
        ran(lambda a, b: b * 2, x, y)
