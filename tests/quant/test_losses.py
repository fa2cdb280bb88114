"""What quantized arithmetic saturates, counted with exact rationals."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import mdtensor as md
from mdtensor.errors import LossError
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QuantizedTensor,
    Table,
    dequantize,
    quantize,
    requantize,
)
from mdtensor.quant.dtypes import FLOATS
from mdtensor.quant.lookup import int16
from mdtensor.support_table import call_of, find_form

GRID = QParams(0.1, 3)
scales = st.sampled_from([0.01, 0.1, 0.25, 0.5, 3.0])


def outside(numbers: list[Fraction], grid: QParams) -> int:
    """How many round to no code."""
    codes = [round(x / grid.fraction) + grid.zero for x in numbers]
    return sum(not grid.minimum <= code <= grid.maximum for code in codes)


def reals(q: Any) -> list[Fraction]:
    step, zero = q.qparams.fraction, q.qparams.zero
    return [(code - zero) * step for code in q.codes.tolist()]


@given(scales, scales, scales, st.integers(-128, 127), st.data())
def test_sums_and_products(a: float, b: float, c: float, zero: int, data: Any) -> None:
    codes = st.lists(st.integers(-128, 127), min_size=4, max_size=4)
    x = QInt8Tensor(data.draw(codes), scale=a, zero_point=zero)
    y = QInt8Tensor(data.draw(codes), scale=b)
    out = QParams(c, zero)
    pairs = list(zip(reals(x), reals(y), strict=True))
    for operation, exact in (
        (md.add, [p + q for p, q in pairs]),
        (md.sub, [p - q for p, q in pairs]),
        (md.mul, [p * q for p, q in pairs]),
    ):
        with md.checked() as log:
            operation(x, y, out=out)
        assert log.lost["saturated"] == outside(exact, out)
    with md.checked() as log:
        requantize(x, out=out)
    assert log.lost["saturated"] == outside(reals(x), out)


def test_numbers_onto_a_grid() -> None:
    low, high = GRID.range
    with md.checked() as log:
        quantize(md.asarray([low, high, high + 1, low - 1, np.inf, 0.0]), GRID)
    assert log.lost == {"saturated": 3}


def test_products_of_matrices_have_headroom_or_saturate() -> None:
    x = QInt8Tensor([[100, 100]], scale=0.1)
    w = QInt8Tensor([[100], [100]], scale=0.1)
    with md.checked() as log:
        md.matmul(x, w)
        md.matmul(x, w, out=QParams(0.1))
    exact, rounded = log
    assert exact.headroom is not None
    assert (exact.headroom.bits, exact.headroom.width) == (31 - 15, 31)
    assert rounded.lost == {"saturated": 1}
    assert rounded.headroom == exact.headroom, "of the sums that out= rounds"


def test_sums_have_headroom_and_floats_have_none() -> None:
    w = QInt8Tensor([[100], [100]], scale=0.1)
    with md.checked() as log:
        md.sum(w)
        md.matmul(md.ones((1, 2)), w)
    assert log.headroom == 31 - 8


def test_raises() -> None:
    with pytest.raises(LossError) as caught, md.checked(raises=True):
        quantize(md.asarray([1e9]), GRID)
    assert str(caught.value) == (
        "quantize(Float32Tensor[1]): 1 of 1 elements saturated. "
        "Use a larger scale or a wider type."
    )


def test_nothing_is_said_where_nothing_is_lost() -> None:
    x = QInt8Tensor([1, 2], qparams=GRID)
    with md.checked() as log:
        md.relu(x)
        dequantize(x)
        md.sigmoid(x, out=QParams(1 / 256, -128))
    assert not log


CODES = QInt8Tensor([127, 1, -128], scale=1.0)


def test_under_another_rule_of_rounding() -> None:
    with md.checked() as log:
        quantize(md.asarray([1e9, 1.0]), QParams(1.0), rounding="onnx")
        with md.quant.rounding("tflite_ref"):
            md.add(CODES, CODES, out=QParams(1.0))
    assert log.lost == {"saturated": 3}


@pytest.mark.parametrize(
    ("compute", "count"),
    [
        (lambda: md.astype(CODES, QParams(0.5), casting="saturate"), 2),
        (lambda: md.clip(CODES, -5.0, 5.0, out=QParams(0.01)), 2),
        (lambda: md.silu(CODES, out=QParams(1 / 512)), 2),
        (lambda: md.elu(CODES, out=QParams(1 / 512)), 3),
        (lambda: md.relu6(CODES, out=QParams(1 / 512)), 2),
    ],
)
def test_curves_and_casts(compute: Any, count: int) -> None:
    with md.checked() as log:
        compute()
    assert log.lost == {"saturated": count}


def counts(compute: Any) -> dict[str, int]:
    with md.checked() as log:
        compute()
    return dict(log.lost)


@pytest.mark.parametrize(
    ("dtype", "count"), [("qint32", 4), ("qfloat8_e4m3", 5), ("qfloat8_e5m2", 4)]
)
def test_numbers_onto_accumulators_and_floats(dtype: str, count: int) -> None:
    """448 and 57344 are the largest floats; ties at 464 and 61440 stay below."""
    ends = [2.0**31 - 1, 2.0**31 - 0.5, -(2.0**31), -(2.0**31) - 1, np.inf, -np.inf]
    if dtype == "qfloat8_e4m3":
        ends = [448, 464, -465, 480, np.inf, -np.inf, 1e9]
    if dtype == "qfloat8_e5m2":
        ends = [57344, 61439, 61441, -61441, np.inf, -np.inf]
    x = md.asarray(ends, dtype=md.float64)
    grid = QParams(1.0, dtype=dtype)
    assert counts(lambda: quantize(x, grid)) == {"saturated": count}


def test_codes_onto_accumulators_and_floats() -> None:
    x = QInt8Tensor([127, 2, -128, 0], scale=1.0)
    small, half = QParams(2.0**-26, dtype="qint32"), QParams(0.25, dtype="qfloat8_e4m3")
    for compute in (requantize, lambda x, out: md.add(x, x, out=out)):
        assert counts(lambda c=compute: c(x, out=small)) == {"saturated": 2}
    assert counts(lambda: requantize(x, out=half)) == {"saturated": 2}
    saturate = {"casting": "saturate"}
    assert counts(lambda: md.astype(x, half, **saturate)) == {"saturated": 2}
    wide = QFloat8E4M3Tensor(np.array([0x7E, 0x38], np.uint8), scale=1e6)
    assert counts(lambda: requantize(wide, out=QParams(1e4))) == {"saturated": 1}


def test_tables() -> None:
    grid = QParams(1.0)
    table = Table(lambda x: 3 * x, grid, grid)
    x = QInt8Tensor([42, 43, -42, -43, 127], scale=1.0)
    assert counts(lambda: table(x)) == {"saturated": 3}
    assert table(x).codes.tolist() == [126, 127, -126, -128, 127]
    with md.checked() as log:
        table(x)
    assert [(entry.operation, entry.types) for entry in log] == [
        ("table", ("QInt8Tensor",))
    ]
    with pytest.raises(LossError) as caught, md.checked(raises=True):
        table(x)
    assert str(caught.value) == (
        "table(QInt8Tensor[5]): 3 of 5 elements saturated. "
        "Use a larger scale or a wider type."
    )


def test_accumulators_that_float32_does_not_hold() -> None:
    x = QInt32Tensor([2**25 + 1, 2**25 + 4, 2**24, -(2**24) - 1], scale=0.1)
    assert counts(lambda: dequantize(x)) == {"rounded": 2}


# --- every method that rounds ---------------------------------------------------------

#: Steps so small that every number but 0 is past the ends of its grid.
TINY = 1e-30
QUANTIZED = [
    kind
    for kind in md.leaves()
    if issubclass(kind, QuantizedTensor) and kind.device is md.cpu
]


def rounding_methods() -> list[Any]:
    """Each operation with a method that rounds tensors of this type to `out=`."""
    found = []
    for function in md.operations().values():
        form = find_form(function.operation)
        for kind in QUANTIZED:
            if form is None or "out" not in function.operation.options:
                continue
            with suppress(md.MdtensorError):
                arguments, _ = call_of(function.operation, kind, form)
                types = [getattr(x, "type", type(x)) for x in arguments]
                if kind in types and function.select(*types).method.rounds:
                    found.append((function, form, kind))
    return found


ROUNDING = rounding_methods()


#: Functions of numbers up to 1.
UP_TO_ONE = ("asin", "acos", "atanh")


def given(kind: Any, shape: tuple[int, ...], code: int, scale: float = 1.0) -> Any:
    """A tensor full of one code; of floats the byte is a number above 0, too."""
    codes = np.full(shape, code, np.uint8 if kind.dtype in FLOATS else None)
    return kind(codes if kind.dtype in FLOATS else codes.tolist(), scale=scale)


def saturating(function: Any, form: Any, kind: Any, target: Any) -> Any:
    """The call of `function` with numbers above 0, whose result is above 0."""
    arguments, options = call_of(function.operation, kind, form)
    scale = 0.125 if function.operation.name in UP_TO_ONE else 1.0
    tensors = [given(kind, x.shape, 5 - at, scale) for at, x in enumerate(arguments)]
    if function.operation.name == "layer_norm":
        # Equal numbers have the deviation 0, which does not saturate.
        codes = np.full(tensors[0].shape, 5)
        codes[..., ::2] = 3
        tensors[0] = kind(codes.tolist(), scale=scale)
    options["out"] = QParams(TINY, dtype=target)
    called = [tensors] if function.operation.sequence else tensors
    return function(*called, **options)


def test_methods_that_round_are_found() -> None:
    names = {function.operation.name for function, _, _ in ROUNDING}
    assert {"add", "conv2d", "softmax", "relu", "requantize", "mean", "exp"} <= names


#: Codes of the calls below. For any other code a 16-bit table holds 0: with such steps
#: all codes are near ties, and 65,536 exact values take seconds for each of 90 tables.
FULL = range(-5, 6)


@pytest.fixture
def exact_where_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    decide = int16.steps_of

    def steps_of(function: Any, codes: list[int], *grids: QParams) -> list[int]:
        read = [code for code in codes if code in FULL]
        found = dict(zip(read, decide(function, read, *grids), strict=True))
        return [found.get(code, 0) for code in codes]

    monkeypatch.setattr(int16, "steps_of", steps_of)
    int16._table.cache_clear()
    yield
    int16._table.cache_clear()


#: Onto the others codes go by the same lines; all of them take minutes.
QUICK = ("qint8", "qint32", "qfloat8_e4m3")
TARGETS = [
    pytest.param(d, id=str(d), marks=() if d.name in QUICK else pytest.mark.slow)
    for d in (kind.dtype for kind in QUANTIZED)
]


@pytest.mark.usefixtures("exact_where_read")
@pytest.mark.parametrize("target", TARGETS)
def test_a_method_that_saturates_is_counted(target: Any) -> None:
    """Whatever is added: one that no audit asks about is red here."""
    counted = set()
    for function, form, kind in ROUNDING:
        try:
            with md.checked() as log:
                result = saturating(function, form, kind, target)
        except md.MdtensorError:
            continue
        counted.add((function.operation.name, kind))
        assert log.lost == {"saturated": result.size}, (function.operation.name, kind)
    expected = {(f.operation.name, kind) for f, _, kind in ROUNDING}
    if target in FLOATS:  # only codes as such are rounded to floats
        expected = {(name, kind) for name, kind in expected if name == "requantize"}
    assert {pair for pair in expected - counted if not is_refusal(*pair)} == set()


def is_refusal(name: str, kind: Any) -> bool:
    """Whether two of these types have no result, with `out=` or without."""
    function = next(f for f, _, _ in ROUNDING if f.operation.name == name)
    method = function.select(*[kind] * len(function.operation.dispatched[:2])).method
    return method.is_refusal
