"""Arrays end to end on one grid: exact, and as ONNX Runtime and LiteRT lay them."""

from fractions import Fraction

import numpy as np
import pytest
from support.onnx_model import MICROSOFT, node, run
from support.tflite_model import Session, Value, one_operator, options_of

import mdtensor as md
from mdtensor import quant
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor

LITERT = ("tflite_ref", "tflite_opt", "xnnpack_x86")
#: (scale, zero point) of two arrays and of what they become, for quint8.
GRIDS = {
    "powers of two": ((0.5, 131), (0.25, 121), (1.0, 129)),
    "finer": ((0.125, 129), (0.25, 125), (0.0625, 135)),
    "one kept": ((0.1, 3), (0.05, 77), (0.1, 3)),
    "fused or not": ((0.637, 130), (0.89, 67), (0.042, 82)),
    "any": ((0.037, 111), (0.0113, 133), (0.041, 127)),
    "saturated": ((0.3, 1), (0.07, 255), (0.05, 0)),
}
BOTH = pytest.mark.parametrize("kind", [QInt8Tensor, QUInt8Tensor])
ALL = pytest.mark.parametrize("grids", GRIDS.values(), ids=GRIDS)


def parts(kind, grids):
    """Every code on both grids, and the grid of the result."""
    low, high = int(kind.dtype.minimum), int(kind.dtype.maximum)
    every = np.arange(low, high + 1).astype(kind.dtype.storage).reshape(2, 128)
    moved = [(scale, zero + low) for scale, zero in grids]
    xs = [kind(every, scale=scale, zero_point=zero) for scale, zero in moved[:2]]
    return xs, QParams(*moved[2], dtype=kind.dtype)


def lite_rt(xs, out, rule):
    name = str(out.dtype).removeprefix("q")
    values = [Value(x.shape, float(x.scale), int(x.zero_point), dtype=name) for x in xs]
    rows = sum(x.shape[0] for x in xs)
    made = Value((rows, 128), float(out.scale), int(out.zero_point), dtype=name)
    options = options_of("Concatenation", Axis=0)
    model = one_operator("CONCATENATION", values, made, options)
    return Session(model, rule)(*(np.asarray(x.codes) for x in xs))


@BOTH
@ALL
def test_each_is_rounded_once(grids, kind):
    xs, out = parts(kind, grids)

    def code(x, n):
        real = Fraction(float(x.scale)) * (n - int(x.zero_point))
        found = round(real / out.fraction) + out.zero
        return min(max(found, out.minimum), out.maximum)

    wanted = [[code(x, n) for n in row] for x in xs for row in x.codes.tolist()]
    found = md.concat(xs, out=out)
    assert found.codes.tolist() == wanted
    assert (found.qparams, found.rounding) == (out, None)
    flat = [n for row in wanted for n in row]
    assert md.concat(xs, axis=None, out=out).codes.tolist() == flat
    again = [np.reshape(np.ravel(wanted)[half], (2, 128)) for half in HALVES]
    beside = md.concat(xs, axis=1, out=out)
    assert beside.codes.tolist() == np.concatenate(again, axis=1).tolist()


HALVES = (slice(0, 256), slice(256, 512))


@BOTH
@ALL
@pytest.mark.parametrize("rule", ["onnx", "ort_cpu"])
def test_onnx_runtime(rule, grids, kind):
    xs, out = parts(kind, grids)
    operator = node("QLinearConcat", "sy zy a sa za b sb zb", domain=MICROSOFT, axis=0)
    storage = kind.dtype.storage.type
    fixed = {}
    for name, grid in zip("aby", [xs[0].qparams, xs[1].qparams, out], strict=True):
        fixed |= {f"s{name}": np.float32(grid.scale), f"z{name}": storage(grid.zero)}
    feeds = {name: np.asarray(x.codes) for name, x in zip("ab", xs, strict=True)}
    found = md.concat(xs, out=out, rounding=rule)
    assert (np.asarray(found.codes) == run([operator], feeds, fixed, storage)).all()
    assert found.rounding == rule


@ALL
@pytest.mark.parametrize("rule", LITERT)
def test_unsigned_codes_of_lite_rt(rule, grids):
    """By a formula of its own, in float32, whatever runs the rest."""
    xs, out = parts(QUInt8Tensor, grids)
    found = md.concat(xs, out=out, rounding=rule)
    assert (np.asarray(found.codes) == lite_rt(xs, out, rule)).all()


def test_lite_rt_does_not_requantize():
    xs, out = parts(QUInt8Tensor, GRIDS["powers of two"])
    laid = md.concat(xs, out=out, rounding="tflite_ref")
    moved = [quant.requantize(x, out=out, rounding="tflite_opt") for x in xs]
    different = np.asarray(laid.codes) != np.asarray(md.concat(moved).codes)
    assert different.sum() == 160  # ties: away from zero, and up


@pytest.mark.parametrize("rule", LITERT)
def test_signed_codes_of_lite_rt(rule):
    """They stay as they are, on one grid; LiteRT refuses others, and so do we."""
    (x, y), out = parts(QInt8Tensor, GRIDS["one kept"])
    found = md.concat([x, x[:1]], out=out, rounding=rule)
    assert (np.asarray(found.codes) == lite_rt([x, x[:1]], out, rule)).all()
    with pytest.raises(md.OptionError) as caught:
        md.concat([x, y], out=out, rounding=rule)
    assert str(caught.value) == (
        f"concat: rounding={rule!r}: it concatenates qint8 on one grid only, "
        "not also (scale=0.05, zero_point=-51). Requantize to out= first, or use "
        "quint8."
    )


def test_any_types_become_one():
    xs = [
        QInt8Tensor([3], scale=0.5),
        quant.QUInt4Tensor([15], scale=0.1),
        quant.QInt32Tensor([100_000], scale=0.001),
        QInt8Tensor([[1, 2]], scale=[1.0, 4.0], axis=1)[0],
    ]
    found = md.concat(xs, out=QParams(0.5))
    assert found.codes.tolist() == [3, 3, 127, 2, 16]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda x: md.concat([x, x], out=QParams([1.0, 2.0], axis=0)),
            (
                "concat(QInt8Tensor[1], QInt8Tensor[1]): out has scales along axis 0. "
                "Pass out=QParams(...) with one scale."
            ),
        ),
        (
            lambda x: md.concat([x, x], out=0.5),
            (
                "concat(QInt8Tensor[1], QInt8Tensor[1]): out is a float. Pass "
                "out=QParams(...)."
            ),
        ),
        (
            lambda x: md.concat([x, x], rounding="onnx"),
            (
                "concat(QInt8Tensor[1], QInt8Tensor[1]): rounding='onnx' needs a grid "
                "to round to. Pass out= as well, or omit rounding=."
            ),
        ),
        (
            lambda x: md.concat([md.asarray([1.0])], out=QParams(1.0)),
            (
                "concat(Float32Tensor[1]): out= and rounding= set the grid of a "
                "quantized result, and this method does not return one. Omit them, "
                "quantize the arguments first, or pass the tensor to write into."
            ),
        ),
        (
            lambda x: md.concat([x, md.asarray([1.0])], out=QParams(1.0)),
            (
                "concat(QInt8Tensor[1], Float32Tensor[1]): quantized and float "
                "operands do not have a common type; the grid is (scale=0.5, "
                "zero_point=0). Use dequantize(q), or quantize(x, q.qparams)."
            ),
        ),
    ],
)
def test_what_is_refused(call, told):
    with pytest.raises(md.MdtensorError) as caught:
        call(QInt8Tensor([3], scale=0.5))
    assert str(caught.value) == told
