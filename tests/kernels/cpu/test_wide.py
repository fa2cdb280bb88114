"""Numbers of 106 bits: against fractions, and decimals of 60 digits."""

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from mdtensor.errors import OptionError
from mdtensor.kernels.cpu.jit import kernel
from mdtensor.kernels.cpu.user.pairs import two_prod, two_sum
from mdtensor.wide import Wide, exp, log, log1p

PRECISE = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
NORMAL = st.floats(allow_nan=False, allow_infinity=False)
MIDDLE = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)
FACTORS = st.floats(0.5, 2.0) | st.floats(-2.0, -0.5)


@kernel
def each_exp(x, out):
    for i in range(x.size):
        out[i] = float(exp(x[i]))


@kernel
def each_log(x, out):
    for i in range(x.size):
        out[i] = float(log(x[i]))


@kernel
def each_log1p(x, out):
    for i in range(x.size):
        out[i] = float(log1p(x[i]))


@kernel
def each_formula(x, y, out):
    """Every operator, with a float on either side."""
    for i in range(x.size):
        a, b = Wide(x[i]), Wide(y[i])
        c = (a * b - 3.0) / (1.0 + a * a)
        d = (2.0 * -a + b) / b - (1.0 - c)
        d += a
        d *= 2.0
        d -= x[i]
        d /= b
        out[i] = float(d) if c > d or c > 0.5 else float(c + d)


def run(function: Any, *arrays: Any) -> Any:
    out = np.empty(arrays[0].size)
    function(*arrays, out)
    return out


def value(x: Wide) -> Fraction:
    power = Fraction(2) ** x.exponent if x.hi else 0  # of 0 it is a trillion
    return (Fraction(x.hi) + Fraction(x.lo)) * power


def distance(found: float, want: Decimal) -> float:
    """In units of the last place at `want`."""
    with localcontext(PRECISE):
        exponent = math.frexp(max(abs(float(want)), 2.0**-1022))[1]
        return float(abs(Decimal(found) - want) / Decimal(2) ** (exponent - 53))


def exact_exp(x: float) -> Decimal:
    return PRECISE.exp(Decimal(x))


def exact_log(x: float) -> Decimal:
    return PRECISE.ln(Decimal(x))


def exact_log1p(x: float) -> Decimal:
    with localcontext(PRECISE):
        t = Decimal(x)
        series = t - t * t / 2 + t * t * t / 3
        return series if abs(t) < Decimal("1e-20") else (1 + t).ln()


Case = tuple[Any, Callable[[float], Decimal], Any, Any]
CASES: dict[str, Case] = {
    "exp": (each_exp, exact_exp, (-745.2, 709.7827), (-745.2, -708.0)),
    "log": (each_log, exact_log, (0.0, 1e6), (0.98, 1.02)),
    "log1p": (each_log1p, exact_log1p, (-1 + 2.0**-53, 1e6), (-0.02, 0.02)),
}


@pytest.mark.parametrize("name", CASES)
def test_half_a_unit_everywhere(name: str) -> None:
    """A dense sweep: the whole range, and where results are tiny."""
    function, exact, *ranges = CASES[name]
    x = np.concatenate([np.linspace(*span, 3001) for span in ranges])
    x = x[1:] if name == "log" else x
    found = run(function, x).tolist()
    worst = max(map(distance, found, map(exact, x.tolist())))
    assert 0.49 < worst < 0.501


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
def test_half_a_unit_of_any_number(name: str, data: Any) -> None:
    function, exact, (low, high), _ = CASES[name]
    high = high if name == "exp" else sys.float_info.max
    low = max(low, 5e-324) if name == "log" else low
    x = data.draw(st.lists(st.floats(low, high), min_size=1))
    found = run(function, np.array(x)).tolist()
    assert max(map(distance, found, map(exact, x))) < 0.501


@pytest.mark.parametrize("function", [exp, log, log1p])
@settings(max_examples=300)
@given(x=FACTORS, error=st.floats(-1, 1), power=st.integers(-300, 18))
def test_the_lower_half_counts(function: Any, x: float, error: float, power: int):
    """Of a Wide all 106 bits are read, and more than 53 given."""
    wide = Wide(abs(x) if function is log else x) * 2.0**power
    wide = wide + wide * (error * 2.0**-54)
    assume(function is not log1p or value(wide) > -1)
    with localcontext(PRECISE):
        exact = Decimal(wide.hi) + Decimal(wide.lo)
        exact *= Decimal(2) ** wide.exponent
        if function is exp:
            want = exact.exp()
        elif function is log or abs(exact) > Decimal("1e-20"):
            want = (exact + (function is log1p)).ln()
        else:
            want = exact - exact * exact / 2 + exact**3 / 3
        found = function(wide)
        shown = (Decimal(found.hi) + Decimal(found.lo)) * Decimal(2) ** found.exponent
        assert abs(shown - want) <= abs(want) * Decimal(2) ** -67


def test_infinities_zeros_and_nan() -> None:
    inf, nan = math.inf, math.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, -1.0, -2.0, 2.0**20, -(2.0**20), 1e308])
    wants = {
        each_exp: [1, 1, inf, 0, nan, 1 / math.e, math.exp(-2), inf, 0, inf],
        each_log1p: [0, -0.0, inf, nan, nan, -inf, nan, math.log1p(2.0**20), nan, ...],
        each_log: [-inf, -inf, inf, nan, nan, nan, nan, math.log(2.0**20), nan, ...],
    }
    for function, want in wants.items():
        want[-1] = math.log(1e308) if want[-1] is ... else want[-1]
        found = run(function, x)
        assert np.array_equal(found, np.array(want, float), equal_nan=True)
        assert np.array_equal(np.signbit(found[:2]), np.signbit(want[:2]))


# --- arithmetic -----------------------------------------------------------------------


@given(MIDDLE, MIDDLE)
def test_sums_and_products_without_error(a: float, b: float) -> None:
    total, error = two_sum(a, b)
    assert total == a + b
    assert Fraction(total) + Fraction(error) == Fraction(a) + Fraction(b)
    product, error = two_prod(a, b)
    assert product == a * b
    assert Fraction(product) + Fraction(error) == Fraction(a) * Fraction(b)


@given(NORMAL, NORMAL, NORMAL)
def test_arithmetic_of_any_size(a: float, b: float, c: float) -> None:
    """Products of the largest and the smallest; 2**-100 of the result."""
    x = Wide(a) * b
    for found, want in (
        (x, Fraction(a) * Fraction(b)),
        (x + c, value(x) + Fraction(c)),
        (c - x, Fraction(c) - value(x)),
        (x * x, value(x) ** 2),
        (-x, -value(x)),
    ):
        assert abs(value(found) - want) <= abs(want) / 2**100
        assert found.hi == 0 or 1 <= abs(found.hi) < 2
        assert abs(found.lo) <= math.ulp(found.hi) / 2
    if c:
        quotient = value(x) / Fraction(c)
        assert abs(value(x / c) - quotient) <= abs(quotient) / 2**100
    assert (x < c) == (value(x) < c)
    assert (x > c) == (value(x) > c)


@given(FACTORS, st.integers(-1080, 1030), st.floats(-1, 1))
def test_float_rounds_once(x: float, power: int, error: float) -> None:
    wide = Wide(x) + error * 2.0**-53
    for _ in range(abs(power) // 10):
        wide = wide * (1024.0 if power > 0 else 2.0**-10)
    try:
        want = float(value(wide))
    except OverflowError:
        want = math.copysign(math.inf, x)
    assert float(wide) == want


@pytest.mark.parametrize("side", [-1, 0, 1])
def test_ties_of_subnormal_numbers_are_even_unless_something_is_below(side: int):
    smallest = Wide(5e-324)
    for count in range(6):
        wide = smallest * (count + 0.5) + smallest * (side * 2.0**-60)
        want = count + {-1: 0, 0: count % 2, 1: 1}[side]
        assert float(wide) == want * 5e-324
        assert float(-wide) == -want * 5e-324


def test_zero_and_infinity_as_operands() -> None:
    zero, one, infinite = Wide(0.0), Wide(1.0), Wide(math.inf)
    tiny = Wide(5e-324) * 5e-324
    assert float((tiny + zero) / 5e-324 / 5e-324) == 1.0
    assert float(one / 0.0) == float(-one / -0.0) == float(infinite + 1.0) == math.inf
    assert float(one / infinite) == 0.0
    assert math.isnan(float(infinite - infinite))
    assert math.isnan(float(zero / 0.0))
    assert infinite > 1e308 and not infinite > math.inf and -infinite < zero
    assert not Wide(math.nan) < one and not one < Wide(math.nan)


# --- the same bytes -------------------------------------------------------------------

SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from test_wide import digest
print(digest())
"""


def draws() -> Any:
    rng = np.random.default_rng(1)
    return 20 * rng.standard_normal(2000), rng.uniform(0.5, 2, 2000)


def digest() -> str:
    x, y = draws()
    found = [run(each_formula, x, y), run(each_exp, x), run(each_log1p, np.abs(x))]
    return sha256(np.concatenate(found).tobytes()).hexdigest()


@pytest.mark.compiled
def test_compiled_and_in_python() -> None:
    x, y = draws()
    for function, arrays in (
        (each_formula, (x, y)),
        (each_exp, (x,)),
        (each_log1p, (y,)),
    ):
        plain = run(function.py_func, *(array[:500] for array in arrays))
        assert plain.tobytes() == run(function, *arrays)[:500].tobytes()


@pytest.mark.compiled
def test_a_cpu_without_fused_products_gives_the_same_bytes() -> None:
    """There LLVM calls the C library's fma."""
    script = SCRIPT.format(folder=str(Path(__file__).parent))
    environment = os.environ | {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_zeros_keep_their_sign() -> None:
    for a, b in itertools.product([0.0, -0.0], repeat=2):
        for found, exact in ((Wide(a) + Wide(b), a + b), (Wide(a) - Wide(b), a - b)):
            assert math.copysign(1, float(found)) == math.copysign(1, exact)


@given(x=FACTORS, y=FACTORS, z=MIDDLE)
def test_order_is_that_of_the_numbers(x: float, y: float, z: float):
    numbers = [Wide(0), Wide(x) - x, Wide(x) * y, Wide(y) / x, Wide(z), Wide(z) + x]
    for a, b in itertools.product(numbers, repeat=2):
        want = [value(a) < value(b), value(a) <= value(b), value(a) == value(b)]
        assert [a < b, a <= b, a == b] == want
        assert [b > a, b >= a, b == a] == want
        assert (a != b) is (a - b != 0)
        assert a != b or hash(a) == hash(b)


@kernel
def each_order(x, y, out):
    for i in range(x.size):
        a, b = Wide(x[i]) - 1.0, Wide(y[i]) - 1.0
        out[i] = (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a >= b)


def test_order_is_the_same_compiled():
    numbers = np.array([1.0, 2.0, -3.0, 1e-300, math.inf, -math.inf, math.nan])
    x, y = map(np.ravel, np.meshgrid(numbers, numbers))
    a, b = x - 1, y - 1
    want = (a < b) + 2 * (a <= b) + 4 * (a == b) + 8 * (a != b) + 16 * (a >= b)
    assert run(each_order, x, y).tolist() == want.tolist()


def test_order_with_strangers():
    assert Wide(3) == 3 == Wide(3.0)
    assert Wide(3) != "3" and Wide(3) is not None and Wide(3) != 2**60
    assert Wide(3) in {3, 4} and not math.nan >= Wide(3)


ODD = [[1], "x", "1.5", b"1", None, object(), 1j, 10**400, np.array([1.0, 2.0])]


@pytest.mark.parametrize("odd", ODD, ids=[type(odd).__name__ for odd in ODD])
def test_what_is_not_a_number(odd: Any) -> None:
    for call in (
        Wide,
        exp,
        log,
        log1p,
        lambda x: Wide(1.0) + x,
        lambda x: x / Wide(1.0),
    ):
        if isinstance(odd, np.ndarray) and call not in (Wide, exp, log, log1p):
            continue  # NumPy takes the operator
        with pytest.raises(OptionError, match=r"number|too large"):
            call(odd)


def test_numbers_of_other_types() -> None:
    for x in (np.float32(0.5), np.int8(3), Fraction(1, 2), Decimal("0.5"), True, 2**80):
        assert float(Wide(x)) == float(x)
