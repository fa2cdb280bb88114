"""Functions of 16-bit codes: each code is the exact value, rounded once."""

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt16Tensor, QParams, Table
from mdtensor.quant.lookup import build, functions, int16

UNARY = {
    md.relu: build.relu,
    md.relu6: build.clip(0.0, 6.0),
    md.hardswish: build.hardswish,
    md.sigmoid: build.sigmoid,
    md.tanh: build.tanh,
    md.exp: build.exp,
    md.silu: functions.silu,
    md.mish: functions.mish,
    md.selu: functions.selu,
    md.softsign: functions.softsign,
}
CASES = [(f, {}, exactly) for f, exactly in UNARY.items()]
CASES += [
    (md.gelu, {"approximate": a}, function) for a, function in functions.GELUS.items()
]
CASES += [(md.elu, {"alpha": a}, functions.elu(a)) for a in (1.0, -2.0, 1e300)]
CASES += [
    (md.leaky_relu, {"negative_slope": s}, functions.leaky_relu(s))
    for s in (0.01, -3.0, 7.0, Fraction(1, 3))
]
CASES += [
    (md.hardsigmoid, {"alpha": a, "beta": b}, build.hardsigmoid(a, b))
    for a, b in ((1 / 6, 0.5), (1e6, -1e6), (-1e300, 1e300), (Fraction(1, 7), 0))
]
CASES += [
    (md.clip, {"min": low, "max": high}, build.clip(low, high))
    for low, high in ((-1, 2), (None, Fraction(1, 3)), (-(10**400), 10**400))
]
NAMES = [f"{f.__name__} {str(options)[:40]}" for f, options, _ in CASES]
named = pytest.mark.parametrize(("operation", "options", "function"), CASES, ids=NAMES)
SCALES = (2.0**-12, 3e-4, 0.01, 2.0**-126, 3e38)
GRIDS = [QParams(s, dtype=quant.qint16) for s in SCALES]
OUTS = [QParams(2.0**-15, dtype=quant.qint16), QParams(0.02, -100)]
OUTS += [QParams(1 / 256, dtype=quant.quint8), QParams(1e-9, dtype=quant.qint32)]
OUTS += [QParams(2.0**-126, dtype=quant.qint16), QParams(3e38)]
OUTS += [QParams(s, dtype=quant.qint32) for s in (3e-308, 1e307)]


def some_codes(rng, count):
    """The ends, the neighbours of 0, and others."""
    near = np.arange(-3, 4)
    ends = [-(2**15), 1 - 2**15, 2**15 - 1]
    others = rng.integers(-(2**15), 2**15, count)
    return np.concatenate([near, ends, others]).astype(np.int16)


@pytest.fixture(autouse=True)
def anew():
    int16._table.cache_clear()


#: All pairs of grids; and of them so many that each grid of both is met.
PAIRS = list(product(GRIDS, OUTS))
SOME_PAIRS = PAIRS[::3]


@pytest.mark.parametrize(
    "pairs", [SOME_PAIRS, pytest.param(PAIRS, marks=pytest.mark.slow)], ids=len
)
@named
def test_codes_are_correctly_rounded(operation, options, function, pairs, monkeypatch):
    rng = np.random.default_rng(0)
    codes = some_codes(rng, 10)
    monkeypatch.setattr(int16, "steps_of", of_those(codes))
    for grid, out in pairs:
        x = QInt16Tensor(codes, grid)
        wanted = [by_definition(function, int(c), grid, out) for c in codes]
        assert operation(x, **options, out=out).codes.tolist() == wanted


def test_some_pairs_have_each_grid():
    sources, results = zip(*SOME_PAIRS, strict=True)
    assert (set(sources), set(results)) == (set(GRIDS), set(OUTS))


@cache
def exact_value(function, code, grid):
    """Each is asked for once a grid of results, and takes most of the time."""
    return function((code - grid.zero) * grid.fraction)


def by_definition(function, code, grid, out):
    value = exact_value(function, code, grid)
    steps = round(value / out.fraction) + out.zero
    return min(max(steps, out.minimum), out.maximum)


def of_those(codes):
    """Near ties are decided for codes that a test looks at; the others take long."""
    wanted = set(codes.tolist())

    def steps_of(function, codes, source, out):
        codes_there = (
            by_definition(function, code, source, out) if code in wanted else 0
            for code in codes
        )
        return [code - out.zero for code in codes_there]

    return steps_of


@pytest.mark.slow
@named
def test_all_codes_are_correctly_rounded(operation, options, function):
    grid, out = GRIDS[1], OUTS[0]
    codes = np.arange(-(2**15), 2**15)
    found = operation(QInt16Tensor(codes.astype(np.int16), grid), **options, out=out)
    wanted = [by_definition(function, c, grid, out) for c in codes.tolist()]
    assert found.codes.tolist() == wanted


def test_ties_of_the_exact_function_go_to_even():
    codes = np.arange(-(2**15), 2**15)
    x = QInt16Tensor(codes.astype(np.int16), scale=0.25)
    found = md.relu(x, out=QParams(0.5, dtype=quant.qint16)).buffer
    assert np.array_equal(found, np.rint(np.maximum(codes, 0) / 2))


def test_tanh_is_below_its_argument_where_that_is_a_tie(monkeypatch):
    codes = np.arange(-20, 21)
    monkeypatch.setattr(int16, "steps_of", of_those(codes))
    x = QInt16Tensor(codes.astype(np.int16), scale=2.0**-60)
    found = md.tanh(x, out=QParams(2.0**-59, dtype=quant.qint16)).buffer
    assert np.array_equal(found, np.sign(codes) * (np.abs(codes) // 2))


@pytest.mark.parametrize("seed", range(20))
def test_near_ties_are_decided_exactly(seed, monkeypatch):
    """The line passes a middle of two codes by less than float64 tells."""
    monkeypatch.setattr(int16, "steps_of", of_those(np.array([7])))
    alpha = np.random.default_rng(seed).uniform(1e8, 1e9)
    x, out = QInt16Tensor([7], scale=1.0), QParams(0.3)
    beta = float(out.fraction * Fraction(5, 2) - Fraction(alpha) * 7)
    found = md.hardsigmoid(x, alpha=alpha, beta=beta, out=out)
    line = build.hardsigmoid(alpha, beta)
    assert found.codes.tolist() == [by_definition(line, 7, x.qparams, out)]


def test_without_out_a_clip_is_on_its_own_grid():
    x = QInt16Tensor([-30000, -1, 0, 7, 30000], scale=0.25)
    assert md.relu(x).codes.tolist() == [0, 0, 0, 7, 30000]
    assert md.clip(x, -1, 2.5).codes.tolist() == [-4, -1, 0, 7, 10]
    assert md.relu6(x).codes.tolist() == [0, 0, 0, 7, 24]
    assert md.relu(x).qparams == md.relu6(x).qparams == x.qparams
    with pytest.raises(md.GridError, match=r"0\.3 is between two codes"):
        md.clip(x, 0.3, None)
    with pytest.raises(md.GridError) as raised:
        md.sigmoid(x)
    assert str(raised.value) == (
        "sigmoid(QInt16Tensor[5]): no grid represents the result exactly; "
        "the grid is (scale=0.25, zero_point=0). Pass "
        "out=QParams(...); the result is rounded to it, once."
    )


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (2, 3)])
def test_shapes_and_strides_are_those_of_the_argument(shape):
    codes = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    out = QParams(0.01, 3)
    for x in (QInt16Tensor(codes, scale=0.1), QInt16Tensor(codes.T, scale=0.1)):
        found = md.sigmoid(x, out=out)
        assert found.shape == x.shape and isinstance(found.buffer, np.ndarray)
        each = [by_definition(build.sigmoid, c, x.qparams, out) for c in x.buffer.flat]
        assert found.buffer.ravel().tolist() == each


@pytest.mark.parametrize("rule", quant.rules.NAMES[1:])
@pytest.mark.parametrize("operation", [md.sigmoid, md.tanh, md.hardswish])
def test_other_rules_are_refused(rule, operation):
    x = QInt16Tensor([1], scale=0.5)
    with pytest.raises(md.OptionError, match=f"rounding='{rule}'"):
        operation(x, out=QParams(0.5), rounding=rule)


def test_tables_of_users():
    grid, out = QParams(0.001, dtype=quant.qint16), QParams(0.125, 3)
    calls = []

    def square(x):
        calls.append(x)
        return x * x

    wide = Table(square, grid, out)
    assert len(calls) == 2**16 and wide.code(-(2**15)) == 127
    codes = some_codes(np.random.default_rng(0), 20)
    found = wide(QInt16Tensor(codes, grid))
    wanted = [by_definition(lambda x: x * x, int(c), grid, out) for c in codes]
    assert found.qparams == out and found.codes.tolist() == wanted
    narrow = Table(square, out, grid)
    x = quant.QInt8Tensor([-128, 3, 4, 127], out)
    wanted = [by_definition(lambda x: x * x, c, out, grid) for c in x.codes.tolist()]
    assert type(narrow(x)) is QInt16Tensor and narrow(x).codes.tolist() == wanted
    with pytest.raises(md.OptionError) as raised:
        Table(square, QParams(1.0, dtype=quant.qint32), out)
    assert "a grid of qint8, quint8 or qint16 with one scale" in str(raised.value)
