"""Which rule rounds: that of the call, of the grid, of the context."""

import asyncio
import copy
import pickle
import re
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QInt32Tensor, QParams
from mdtensor.quant.presets.table import TABLE
from mdtensor.quant.rules import NAMES, current

X = QInt8Tensor([1, -1], scale=0.5)
UNIT = QParams(1.0)


def codes(rounding=None, out=UNIT):
    return quant.requantize(X, out=out, rounding=rounding).codes.tolist()


def test_the_exact_rule_stands_where_nothing_is_said():
    assert codes() == [0, 0] == codes("exact")
    assert quant.requantize(X, out=UNIT).rounding is None


def test_a_call_names_its_rule():
    found = quant.requantize(X, out=UNIT, rounding="tflite_ref")
    assert found.codes.tolist() == [1, 0]
    assert found.rounding == "tflite_ref"
    assert found.qparams == UNIT
    assert found.qparams.rounding is None


def test_a_grid_carries_its_rule_and_a_call_stands_above_it():
    grid = UNIT.rounded("tflite_ref")
    assert codes(out=grid) == [1, 0]
    assert codes("exact", grid) == [0, 0]
    assert grid == UNIT
    assert repr(grid).endswith("dtype=qint8, rounding='tflite_ref')")
    for again in (copy.deepcopy(grid), pickle.loads(pickle.dumps(grid))):
        assert again.rounding == "tflite_ref"


def test_a_context_says_it_for_what_says_nothing():
    with quant.rounding("tflite_ref"):
        assert codes() == [1, 0]
        assert codes("exact") == [0, 0]
        with quant.rounding("exact"):
            assert codes() == [0, 0]
        assert codes() == [1, 0]
        assert quant.requantize(X, out=UNIT).rounding == "tflite_ref"
    assert codes() == [0, 0]


def test_a_context_ends_with_an_error():
    with pytest.raises(ZeroDivisionError), quant.rounding("onnx"):
        raise ZeroDivisionError
    assert current() == "exact"


def test_a_context_is_of_one_thread():
    seen = []
    with quant.rounding("tflite_ref"):
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
    assert seen == ["exact"]


def test_a_context_is_of_one_task():
    async def under(rule):
        with quant.rounding(rule):
            await asyncio.sleep(0)
            return current()

    async def both():
        return await asyncio.gather(under("onnx"), under("ort_cpu"))

    assert asyncio.run(both()) == ["onnx", "ort_cpu"]


def test_an_unknown_rule_is_refused_with_the_names():
    for use in (quant.rounding, UNIT.rounded, codes):
        with pytest.raises(md.OptionError, match="rounding is 'tflite'") as caught:
            use("tflite")
        assert ", ".join(NAMES) in str(caught.value)


def test_a_rule_without_a_grid_is_refused():
    with pytest.raises(md.OptionError) as caught:
        md.add(X, X, rounding="onnx")
    assert str(caught.value) == (
        "add(QInt8Tensor[2], QInt8Tensor[2]): rounding='onnx' needs a grid to "
        "round to. Pass out= as well, or omit rounding=."
    )


def test_a_rule_says_which_operations_it_does_not_define():
    with pytest.raises(md.OptionError) as caught:
        md.div(X, X, out=UNIT, rounding="xnnpack_arm")
    assert str(caught.value) == (
        "div: rounding='xnnpack_arm' does not define div. It defines add, conv2d, "
        "linear, mul, quantize, requantize, sigmoid, sub, tanh; use rounding='exact' "
        "here."
    )


@pytest.mark.parametrize(
    "call, words",
    [
        (
            lambda: md.sigmoid(X, out=UNIT, rounding="tflite_opt"),
            "it writes to QParams(scale=0.00390625, zero_point=-128, ",
        ),
        (
            lambda: md.add(X, X[:1], out=UNIT, rounding="ort_cpu"),
            "its order of roundings depends on the shapes",
        ),
        (
            lambda: md.add(X, X, out=QParams(1e-4), rounding="xnnpack_x86"),
            "a ratio of scales is 5000, not in [0.000976562, 256)",
        ),
        (
            lambda: md.mul(
                X, X, out=QParams(1.0, dtype=quant.quint8), rounding="tflite_ref"
            ),
            "it does not mix qint8 and quint8",
        ),
    ],
)
def test_what_a_library_does_not_compute_is_refused(call, words):
    with pytest.raises(md.OptionError) as caught:
        call()
    assert words in str(caught.value)


def test_every_rule_but_the_exact_one_has_a_row():
    assert set(TABLE) == set(NAMES) - {"exact"}


@pytest.mark.parametrize("rule", TABLE)
def test_accumulators_round_as_the_products_they_are(rule):
    w = QInt8Tensor(np.arange(-60, 60, dtype=np.int8).reshape(4, 30), scale=0.02)
    x = QInt8Tensor(
        np.arange(-45, 45, dtype=np.int8).reshape(3, 30), scale=0.03, zero_point=7
    )
    acc, out = md.linear(x, w), QParams(0.3, -4)
    if rule == "tflite_ref":  # whose fully connected layers round as nothing else
        image = md.reshape(x, (3, 30, 1, 1))
        one = md.conv2d(image, md.reshape(w, (4, 30, 1, 1)), out=out, rounding=rule)
        wanted = md.reshape(one, (3, 4))
    else:
        wanted = md.linear(x, w, out=out, rounding=rule)
    found = quant.requantize(acc, out=out, rounding=rule)
    assert isinstance(acc, QInt32Tensor)
    assert found.codes.tolist() == wanted.codes.tolist()


def test_the_rule_on_arm_shifts_where_the_one_on_x86_multiplies():
    """`rndnu` takes a tie up, float32 to the even code; no wheel here runs it."""
    a, out = QInt8Tensor([1, 3, -1, -3], scale=1.0), QParams(2.0)
    one = QInt8Tensor([1] * 4, scale=1.0)
    on = {
        r: md.mul(a, one, out=out, rounding=r) for r in ("xnnpack_arm", "xnnpack_x86")
    }
    assert on["xnnpack_arm"].codes.tolist() == [1, 2, 0, -1]
    assert on["xnnpack_x86"].codes.tolist() == [0, 2, 0, -2]


def test_a_function_is_rounded_to_float32_once():
    """Just past the middle of 94.5 and the next float32, which float64 does not see."""
    slope = 0.24609375993410748
    middle = (Fraction(94.5) + Fraction(float(np.nextafter(np.float32(94.5), 99)))) / 2
    real = 3 * Fraction(slope)
    assert real > middle / 128 == Fraction(float(real))
    out = QParams(1 / 128, rounding="onnx")
    x = QInt8Tensor([3], scale=1.0)
    assert md.hardsigmoid(x, alpha=slope, beta=0.0, out=out).codes.tolist() == [95]


def test_codes_that_move_keep_the_rule_that_rounded_them():
    x = quant.quantize(md.asarray([[0.3, 1.7]]), QParams(0.5, rounding="tflite_ref"))
    assert repr(x) == (
        "QInt8Tensor[1,2](\n    [[0.5, 1.5]],\n    codes=[[1, 3]],\n"
        "    scale=0.5, zero_point=0, rounding='tflite_ref')"
    )
    y = quant.quantize(md.asarray([[0.3, 1.7]]), QParams(0.5))
    moved = [x[0], x.T, md.reshape(x, (2,)), md.tile(x, 2), md.sort(x)]
    moved += [
        md.concat([x, x]),
        md.where(md.asarray(True), x, x),
        *md.unstack(x),
        md.pad(x, [(0, 1)] * 2),
    ]
    assert {found.rounding for found in moved} == {"tflite_ref"}
    assert {f.rounding for f in (md.concat([x, y]), md.stack([y, x]))} == {None}
    y[0, :1] = x[0, :1]
    assert y.rounding is None and "rounding" not in repr(y)
    assert all(found.qparams == QParams(0.5) for found in moved)


def test_the_page_lists_the_operations_of_each_rule():
    docs = Path(__file__).parents[2] / "docs"
    page = (docs / "reference" / "rounding.md").read_text()
    lines = page.partition("<!-- rules -->")[2].partition("\n\nEvery")[0].split("\n")
    head, _, *rows = [line.strip("| ").split(" | ") for line in lines if line]
    found = {rule: set() for rule in TABLE}
    for operations, *cells in rows:
        for rules, cell in zip(head[1:], cells, strict=True):
            assert cell in ("yes", "-")
            for rule in WORD.findall(rules) if cell == "yes" else ():
                found[rule] |= {*WORD.findall(operations)}
    assert found == {rule: {*row} for rule, row in TABLE.items()}


WORD = re.compile(r"`(\w+)`")


@pytest.mark.parametrize("rule", [name for name in NAMES if name != "exact"])
@pytest.mark.parametrize("shape", [(2,), (3, 5), (2, 8), (4, 1)])
def test_numbers_go_to_each_grid_as_to_one(rule, shape):
    """Grids per axis, against one slice after another."""
    x = md.asarray(np.linspace(-9, 9, int(np.prod(shape)), dtype=np.float32))
    x, scales = md.reshape(x, shape), 0.5 + np.arange(shape[0])
    found = quant.quantize(x, QParams(scales, axis=0, rounding=rule))
    for row in range(shape[0]):
        one = quant.quantize(x[row : row + 1], QParams(scales[row], rounding=rule))
        if rule != "tflite_opt":  # whose last lanes are those of the whole
            assert np.array_equal(found.buffer[row : row + 1], one.buffer)


@pytest.mark.parametrize("rule", sorted(TABLE))
def test_ends_of_scales_warn_nobody(rule):
    x, ends = QInt8Tensor([100, -100], scale=3e38), [QParams(2.0**-126), QParams(0.5)]
    for out in ends:
        for operation in (md.relu, md.tanh, md.sigmoid, quant.requantize):
            try:
                operation(x, out=out.rounded(rule))
            except md.MdtensorError:
                continue
        for operation in (md.add, md.mul):
            try:
                assert operation(x, x, out=out.rounded(rule)).rounding == rule
            except md.MdtensorError:
                continue
