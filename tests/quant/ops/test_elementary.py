"""Functions of one code, all 256 of them, by series of 220 digits.

The library computes the inverse functions; the oracle has none: y = log(x) is judged by
e**(y ± half a step) around x.
"""

import decimal
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from support.each import each

import mdtensor as md
from mdtensor.quant import (
    QInt8Tensor,
    QParams,
    QUInt8Tensor,
    dequantize,
    qint4,
    qint32,
    quantize,
    quint4,
    quint8,
)

PI = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"
)
GRIDS = [
    (QParams(0.05, 3), QParams(0.02, -100)),
    (QParams(2.0**-5, 128, dtype=quint8), QParams(2.0**-8, 9, dtype=quint8)),
    (QParams(0.25, -128), QParams(0.0625, 7, dtype=quint8)),
    (QParams(2.0**-7), QParams(2.0**-6)),
    (QParams(2.0**-126, 2), QParams(2.0**-125, 1)),
]
LEAVES = {"qint8": QInt8Tensor, "quint8": QUInt8Tensor}


def digits(x):
    return Decimal(x.numerator) / Decimal(x.denominator)


def exp(x):
    """e**x by its series for x / 2**k, squared k times."""
    k = max(0, int(abs(x)).bit_length())
    term = total = Decimal(1)
    n = 0
    while abs(term) > Decimal(10) ** -250:
        n += 1
        term *= x / 2**k / n
        total += term
    for _ in range(k):
        total *= total
    return total


def turned(x, first):
    """The sine, of first 1, or the cosine, of first 0."""
    term, n = (x if first else Decimal(1)), first
    total = term
    while abs(term) > Decimal(10) ** -250:
        term *= -x * x / ((n + 1) * (n + 2))
        total, n = total + term, n + 2
    return total


def erf(x):
    """The alternating series, which the library does not use; 1 - 10**-87 is 1."""
    if abs(x) > 14:
        return Decimal(1).copy_sign(x)
    total = power = x
    n = 0
    while abs(power) > Decimal(10) ** -250:
        n += 1
        power *= -x * x / n
        total += power / (2 * n + 1)
    return 2 * total / PI.sqrt()


def sin(x):
    return turned(x, 1)


def cos(x):
    return turned(x, 0)


def hyperbolic(x, sign):
    return (exp(x) + sign * exp(-x)) / 2


FORWARD = {
    md.sin: sin,
    md.cos: cos,
    md.tan: lambda x: sin(x) / cos(x),
    md.sinh: lambda x: hyperbolic(x, -1),
    md.cosh: lambda x: hyperbolic(x, 1),
    md.expm1: lambda x: exp(x) - 1,
    md.erf: erf,
    md.celu: lambda x: max(x, 0) + min(0, exp(min(x, Decimal(0))) - 1),
}
#: The inverse, where the function has a value, and the ends of what it gives.
INVERSE = {
    md.log: (exp, lambda x: x > 0, None),
    md.log2: (lambda y: Decimal(2) ** y, lambda x: x > 0, None),
    md.log10: (lambda y: Decimal(10) ** y, lambda x: x > 0, None),
    md.log1p: (lambda y: exp(y) - 1, lambda x: x > -1, None),
    md.sqrt: (lambda y: y * y, lambda x: x >= 0, (0, None)),
    md.asin: (sin, lambda x: abs(x) <= 1, (-PI / 2, PI / 2)),
    md.acos: (lambda y: -cos(y), lambda x: abs(x) <= 1, (0, PI)),
    md.atan: (lambda y: sin(y) / cos(y), lambda x: True, (-PI / 2, PI / 2)),
    md.asinh: (lambda y: hyperbolic(y, -1), lambda x: True, None),
    md.acosh: (lambda y: hyperbolic(y, 1), lambda x: x >= 1, (0, None)),
    md.atanh: (
        lambda y: hyperbolic(y, -1) / hyperbolic(y, 1),
        lambda x: abs(x) < 1,
        None,
    ),
    md.softplus: (
        lambda y: Decimal("-Infinity") if y <= 0 else (exp(y) - 1).ln(),
        lambda x: x < 20,
        None,
    ),
    md.logsigmoid: (
        lambda y: Decimal("Infinity") if y >= 0 else -(exp(-y) - 1).ln(),
        lambda x: True,
        None,
    ),
}
RATIONAL = {
    md.abs: abs,
    md.sign: lambda x: (x > 0) - (x < 0),
    md.square: lambda x: x * x,
    md.floor: lambda x: x.numerator // x.denominator,
    md.ceil: lambda x: -(-x.numerator // x.denominator),
    md.trunc: int,
    md.round: round,
    md.hardtanh: lambda x: min(max(x, -1), 1),
    md.reciprocal: lambda x: 1 / x,
}


@pytest.fixture(autouse=True)
def precise():
    with localcontext(Context(prec=220)):
        yield


def every_code(grid, has=lambda x: True):
    """The codes of numbers that `has` takes, and these numbers."""
    codes = np.arange(grid.minimum, grid.maximum + 1)
    numbers = [(int(c) - grid.zero) * grid.fraction for c in codes]
    kept = [has(x) for x in numbers]
    taken = codes[kept].astype(grid.dtype.storage)
    return LEAVES[grid.dtype.name](taken, grid), [x for x in numbers if has(x)]


def of_codes(call, x, out):
    found = call(x, out=out)
    assert found.qparams == out
    return np.asarray(found.codes).tolist()


@each("grid, out", GRIDS)
@each("operation", RATIONAL)
def test_rational_functions_are_exact(operation, grid, out, exact):
    skip = 0 if operation is md.reciprocal else None
    x, numbers = every_code(grid, lambda x: x != skip)
    wanted = [Fraction(RATIONAL[operation](v)) for v in numbers]
    codes = exact.codes(np.array(wanted, object), out)
    assert of_codes(operation, x, out) == codes.tolist()


def on_grids(operations):
    """Each operation on each pair of grids; every second of them is a slow test."""
    return [
        pytest.param(f, *grids, marks=pytest.mark.slow if (i + j) % 2 else ())
        for i, f in enumerate(operations)
        for j, grids in enumerate(GRIDS)
    ]


@pytest.mark.parametrize(("operation", "grid", "out"), on_grids(FORWARD))
def test_each_code_is_the_nearest(operation, grid, out):
    x, numbers = every_code(grid)
    for number, code in zip(numbers, of_codes(operation, x, out), strict=True):
        steps = FORWARD[operation](digits(number)) / digits(out.fraction)
        nearest = steps.to_integral_value(decimal.ROUND_HALF_EVEN)
        wanted = min(max(int(nearest) + out.zero, out.minimum), out.maximum)
        assert code == wanted, number


def judged(inverse, y, ends):
    """`inverse` of the end of a step; what lies outside of `ends` bounds nothing."""
    low, high = ends or (None, None)
    if low is not None and y <= low:
        return Decimal("-Infinity")
    if high is not None and y >= high:
        return Decimal("Infinity")
    return inverse(y)


@pytest.mark.parametrize(("operation", "grid", "out"), on_grids(INVERSE))
def test_each_code_is_the_nearest_by_the_inverse(operation, grid, out):
    inverse, has, ends = INVERSE[operation]
    x, numbers = every_code(grid, has)
    turn = -1 if operation is md.acos else 1
    step = digits(out.fraction)
    for number, code in zip(numbers, of_codes(operation, x, out), strict=True):
        middle = code - out.zero
        if code > out.minimum:
            low = judged(inverse, (middle - Decimal("0.5")) * step, ends)
            tie = low == turn * digits(number)
            assert low < turn * digits(number) or (tie and middle % 2 == 0), number
        if code < out.maximum:
            high = judged(inverse, (middle + Decimal("0.5")) * step, ends)
            tie = high == turn * digits(number)
            assert turn * digits(number) < high or (tie and middle % 2 == 0), number


def test_a_value_next_to_a_tie_is_told_from_it():
    """cosh(2**-126) is 1 + 2**-253, half a step and more; cos is less, and even."""
    x, two = QInt8Tensor([0, 1], scale=2.0**-126), QParams(2.0)
    assert of_codes(md.cosh, x, two) == [0, 1]
    assert of_codes(md.cos, x, two) == [0, 0]
    assert of_codes(md.sinh, x, QParams(2.0**-125)) == [0, 1]
    assert of_codes(md.sin, x, QParams(2.0**-125)) == [0, 0]


def test_large_angles_are_reduced_exactly():
    """sin(n · 2**127) by doubling the angle 1 so often."""
    found = of_codes(md.sin, QInt8Tensor([1, 3], scale=2.0**127), QParams(2.0**-7))
    sine, cosine = sin(Decimal(1)), cos(Decimal(1))
    for _ in range(127):
        sine, cosine = 2 * sine * cosine, cosine * cosine - sine * sine
    assert found == [round(128 * sine), round(128 * (3 * sine - 4 * sine**3))]


@pytest.mark.parametrize(
    ("operation", "code", "said"),
    [
        (md.log, 0, "log is defined for numbers above 0; code 0 stands for 0"),
        (md.log1p, -4, "log1p is defined for numbers above -1; code -4 stands for -1"),
        (
            md.sqrt,
            -1,
            "sqrt is defined for numbers of 0 or more; code -1 stands for -0.25",
        ),
        (
            md.reciprocal,
            0,
            "reciprocal is defined for numbers other than 0; code 0 stands for 0",
        ),
        (
            md.acos,
            5,
            "acos is defined for numbers from -1 to 1; code 5 stands for 1.25",
        ),
        (
            md.atanh,
            4,
            "atanh is defined for numbers between -1 and 1; code 4 stands for 1",
        ),
        (
            md.acosh,
            3,
            "acosh is defined for numbers of 1 or more; code 3 stands for 0.75",
        ),
    ],
)
def test_a_code_without_a_value_is_refused(operation, code, said):
    x = QInt8Tensor([code], scale=0.25)
    with pytest.raises(md.CastError) as caught:
        operation(x, out=QParams(0.5))
    assert str(caught.value) == (
        f"{operation.__name__}(QInt8Tensor[1]): {said}. "
        "Use clip, or mask these codes first."
    )


def test_what_needs_no_out_is_exact(exact):
    for dtype in (quint8, qint4, quint4):
        grid = QParams([0.5, 0.25], [3, 5], dtype=dtype, axis=0)
        x = quantize(md.asarray([[-9.0, 0.25, 40.0], [0.5, -1.0, 0.0]]), grid)
        for operation in (md.abs, md.sign):
            found = operation(x)
            wanted = [RATIONAL[operation](v) for v in exact.reals(x).ravel()]
            assert exact.reals(found).ravel().tolist() == wanted
    ends = QInt8Tensor([-128, 127], scale=0.5, zero_point=127)
    assert dequantize(md.abs(ends)).tolist() == [127.5, 0.0]
    squares = md.square(ends)
    assert squares.dtype is qint32 and dequantize(squares).tolist() == [127.5**2, 0.0]


def test_bounds_of_hardtanh_are_codes_or_need_out():
    x = QInt8Tensor([-9, 1, 9], scale=0.25)
    found = md.hardtanh(x)
    assert found.qparams == x.qparams and found.codes.tolist() == [-4, 1, 4]
    with pytest.raises(md.GridError) as caught:
        md.hardtanh(x, max_val=0.3)
    assert str(caught.value) == (
        "hardtanh(QInt8Tensor[3]): 0.3 is between two codes of (scale=0.25, "
        "zero_point=0). Pass out=QParams(...)."
    )
    with pytest.raises(md.OptionError) as caught:
        md.hardtanh(x, min_val=2.0)
    assert str(caught.value) == (
        "hardtanh(QInt8Tensor[3]): min_val 2.0 is above max_val 1.0. Swap them."
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"beta": 0}, "beta is 0. Use another number."),
        ({"beta": 10**400}, None),
        ({"beta": "1"}, "beta is '1'. Pass a finite number."),
        ({"threshold": float("nan")}, "threshold is nan. Pass a number."),
        ({"threshold": float("inf")}, None),
    ],
)
def test_options_of_softplus(options, said):
    x = QInt8Tensor([1], scale=0.25)
    if said is None:
        assert md.softplus(x, **options, out=QParams(0.5)).shape == (1,)
        return
    with pytest.raises(md.OptionError) as caught:
        md.softplus(x, **options, out=QParams(0.5))
    assert str(caught.value) == f"softplus(QInt8Tensor[1]): {said}"


def test_softplus_is_linear_above_its_threshold_and_celu_takes_alpha():
    x = QInt8Tensor([4, 8], scale=0.25)
    found = md.softplus(x, threshold=1.5, out=QParams(2.0**-6))
    assert found.codes.tolist() == [84, 127]  # log(1 + e) = 1.3133; 2 saturates
    minus = QInt8Tensor([-4], scale=0.25)
    found = md.celu(minus, alpha=0.5, out=QParams(2.0**-8))
    assert found.codes.tolist() == [-111]  # (e**-2 - 1) / 2 = -0.4323


def test_a_context_of_decimals_changes_nothing():
    x = QInt8Tensor(np.arange(1, 100, dtype=np.int8), scale=0.07)
    wanted = of_codes(md.log, x, QParams(0.03))
    odd = Context(prec=3, rounding=decimal.ROUND_DOWN, traps=[decimal.Inexact])
    with localcontext(odd):
        assert of_codes(md.log, x, QParams(0.03, 1)) == [c + 1 for c in wanted]
