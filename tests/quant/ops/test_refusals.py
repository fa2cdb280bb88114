"""Operands that do not go together raise an error with a fix."""

import itertools
import re
from typing import get_args

import numpy as np
import pytest

import mdtensor as md
from mdtensor.quant import (
    QFloat8E4M3Tensor,
    QInt8Tensor,
    QInt32Tensor,
    QParams,
    QuantizedTensor,
    QUInt8Tensor,
    dequantize,
    qfloat8_e4m3,
    qint32,
    quantize,
)
from mdtensor.quant.ops import refusals
from mdtensor.quant.ops.refusals import REFUSALS

BINARY = [
    *(md.add, md.sub, md.mul, md.div, md.minimum, md.maximum),
    *(md.equal, md.not_equal, md.less, md.less_equal, md.greater, md.greater_equal),
    *(md.matmul, md.linear),
]
DENSE = [t for t in md.leaves() if t.dtype.storage.kind in "biuf"]
DENSE = [t for t in DENSE if not issubclass(t, QuantizedTensor) and t.device is md.cpu]
NARROW = [QInt8Tensor, QUInt8Tensor]
QUANTIZED = [*NARROW, QInt32Tensor]
NUMBERS = [int, float, bool]
Q8, Q32 = QInt8Tensor([[1]], scale=0.5), QInt32Tensor([[1]], scale=0.5)
SIZES = dict.fromkeys((int, float, bool, complex), "")
MIXED = (
    "quantized and float operands do not have a common type. "
    "Use dequantize(q), or quantize(x, q.qparams)."
)
CODES = (
    "it is ambiguous whether the integers are codes or real values. "
    "Use q.codes for arithmetic on codes, or "
    "type(q)(codes, q.qparams)."
)
WIDE = (
    "takes codes of at most 16 bits, not accumulators. "
    "Use requantize(acc, out=QParams(...)) first."
)


def example(kind):
    """A value of `kind`: a matrix of one element, or a number."""
    if kind in NUMBERS:
        return kind(1)
    if issubclass(kind, QuantizedTensor):
        return kind(np.ones((1, 1), kind.dtype.storage), scale=0.5)
    return kind.wrap(np.ones((1, 1), kind.dtype.storage))


def stated(operation, a, b):
    """The type of result the design states for a pair, or None: refused."""
    comparing = operation in BINARY[6:12]
    product = operation in (md.matmul, md.linear)
    if {a, b} <= {*QUANTIZED}:
        narrow = {a, b} <= {*NARROW}
        if comparing:
            return md.BoolTensor
        if operation in (md.minimum, md.maximum):
            return a if a is b else None
        if operation in (md.add, md.sub):
            return QInt32Tensor
        exact = operation is md.mul or product
        return QInt32Tensor if exact and narrow else None
    number, other = (a, b) if a in NUMBERS else (b, a)
    if number in NUMBERS and comparing:
        return md.BoolTensor
    if number in NUMBERS and operation in (md.mul, md.minimum, md.maximum):
        return other
    floating = [k for k in (a, b) if k in DENSE and k.dtype.is_floating]
    weights = b in NARROW or (operation is md.matmul and a in NARROW)
    if product and floating and weights:
        return floating[0]
    return None


PAIRS = [
    (a, b)
    for a, b in itertools.product([*DENSE, *QUANTIZED, *NUMBERS], repeat=2)
    if a in QUANTIZED or b in QUANTIZED
]


@pytest.mark.parametrize("operation", BINARY, ids=lambda f: f.__name__)
def test_every_pair_of_types_has_a_stated_result_or_an_error_of_ours(operation):
    for a, b in PAIRS:
        wanted = stated(operation, a, b)
        try:
            got = type(operation(example(a), example(b)))
        except md.MdtensorError as error:
            assert wanted is None, (a, b, error)
            assert error.fix, (a, b, error)
        else:
            assert got is wanted, (a, b)


@pytest.mark.parametrize("operation", BINARY[:6], ids=lambda f: f.__name__)
def test_with_out_every_narrow_pair_is_defined(operation):
    for a, b in itertools.product(NARROW, repeat=2):
        for out in (QParams(0.5), QParams(0.5, dtype=qint32)):
            got = operation(example(a), example(b), out=out)
            assert got.qparams is out


@pytest.mark.parametrize("operation", BINARY[:6], ids=lambda f: f.__name__)
def test_pairs_are_refused_in_either_order(operation):
    for a, b in PAIRS:
        results = []
        for pair in ((a, b), (b, a)):
            try:
                results.append(type(operation(*map(example, pair))))
            except md.MdtensorError as error:
                problem = re.split("[;:]", error.problem)[0]  # then come the grids
                results.append((type(error), problem))
        assert results[0] == results[1]


NUMBER = "with a Python number needs a grid. Pass out=QParams(...)."
NO_OUT = "with a Python number needs a grid. Use dequantize(q)."
NO_CODE = (
    "with a Python number needs a grid. "
    "Use quantize(asarray(float(c)), q.qparams), or dequantize(q)."
)
FLOAT_BIAS = (
    "the bias must be a QInt32Tensor, but is a float. Use quantize(b, QParams("
    "x.qparams.scale * w.qparams.scale, axis=w.qparams.axis, dtype=qint32))."
)
NO_BIAS = (
    "the bias must be an accumulator. "
    "Use a QInt32Tensor with the scale of x times the scale of w."
)
ONE = md.ones((1, 1))
SCALED = quantize(ONE, QParams(0.5, dtype=qfloat8_e4m3))
NUMBERS_ONLY, WITH = "Use dequantize(q).", "Use dequantize(q) with"
COMPLEX = "quantized and complex operands do not have a common type. "
TRUTH = "bools are not numbers. "
CODES_ONLY = (
    "it is ambiguous whether the integers are codes or real values. "
    "Use q.codes for arithmetic on codes."
)
TEXTS = [
    (md.add, (Q8, ONE), MIXED),
    (md.sub, (ONE, Q8), MIXED),
    (md.mul, (Q32, ONE), MIXED.partition("Use")[0] + NUMBERS_ONLY),
    (md.linear, (Q8, ONE), MIXED),
    (md.add, (Q8, md.astype(ONE, md.complex64)), COMPLEX + NUMBERS_ONLY),
    (md.equal, (1j, Q8), COMPLEX + NUMBERS_ONLY),
    (
        md.less,
        (Q8, 1j),
        f"{COMPLEX}Use dequantize(q), and abs(x) of the complex operand.",
    ),
    (
        md.maximum,
        (ONE.astype("complex64"), Q8),
        f"{COMPLEX}Use dequantize(q), and abs(x) of the complex operand.",
    ),
    (md.conv2d, (Q32, ONE > 0), f"{TRUTH}{WITH} astype(x, float32)."),
    (md.matmul, (ONE > 0, Q8), f"{TRUTH}{WITH} astype(x, float32)."),
    (md.mul, (Q32, Q8.codes), CODES_ONLY),
    (md.linear, (Q8, Q8, ONE), FLOAT_BIAS),
    (md.equal, (Q8, Q8.codes), CODES),
    (md.matmul, (Q8, Q8.codes), CODES),
    (md.linear, (Q8.codes, Q8), CODES),
    (md.conv2d, (Q8, Q8.codes), CODES),
    (md.mul, (Q8, Q32), f"mul {WIDE}"),
    (md.div, (Q32, Q8), f"div {WIDE}"),
    (md.matmul, (Q32, Q8), f"matmul {WIDE}"),
    (md.linear, (Q8, Q32), f"linear {WIDE}"),
    (md.conv2d, (Q32, Q8), f"conv2d {WIDE}"),
    (md.linear, (Q8, Q8, Q8), NO_BIAS),
    (md.add, (Q32, 1), f"the result of add {NUMBER}"),
    (md.sub, (0.5, Q8), f"the result of sub {NUMBER}"),
    (md.add, (SCALED, 1), f"the result of add {NO_OUT}"),
    (md.minimum, (True, SCALED), f"the result of minimum {NO_CODE}"),
]


@pytest.mark.parametrize(("operation", "arguments", "text"), TEXTS)
def test_mixed_types_are_told_the_way_out(operation, arguments, text):
    with pytest.raises(md.PromotionError) as raised:
        operation(*arguments)
    shown = (f"{type(x).__name__}{SIZES.get(type(x), '[1,1]')}" for x in arguments)
    assert str(raised.value) == (
        f"{operation.__name__}({', '.join(shown)}): {with_grids(text, arguments)}"
    )


def with_grids(text, arguments):
    """`text` with the grids of quantized arguments at the end of what is wrong."""
    problem, _, fix = text.partition(". ")
    grids = [f"({x.qparams.describe()})" for x in arguments if hasattr(x, "qparams")]
    verb = "s are" if len(grids) > 1 else " is"
    return f"{problem}; the grid{verb} {' and '.join(grids)}. {fix}"


def test_both_grids_are_named():
    with pytest.raises(md.PromotionError) as raised:
        md.mul(QInt8Tensor([1], scale=0.5, zero_point=3), QInt32Tensor([1], scale=2))
    assert str(raised.value) == (
        "mul(QInt8Tensor[1], QInt32Tensor[1]): mul takes codes of at most 16 bits, "
        "not accumulators; the grids are (scale=0.5, zero_point=3) and (scale=2.0, "
        "zero_point=0). Use requantize(acc, out=QParams(...)) first."
    )


def test_numpy_numbers_are_tensors():
    for call in (lambda: Q8 + np.float32(1), lambda: np.float32(1) + Q8):
        with pytest.raises(
            md.PromotionError, match="quantized and float operands do not have a common"
        ):
            call()
    with pytest.raises(md.PromotionError, match="whether the integers are codes"):
        np.int8(1) * Q8


OTHER = QInt8Tensor([[1]], scale=0.25, zero_point=7)
SPLIT = QInt8Tensor([[1, 2]], scale=[0.5, 0.25], axis=1)


@pytest.mark.parametrize(
    "operation", [md.add, md.sub, md.minimum, md.maximum], ids=lambda f: f.__name__
)
def test_grids_that_differ_are_both_named(operation):
    with pytest.raises(md.GridError) as raised:
        operation(Q8, OTHER)
    assert str(raised.value) == (
        f"{operation.__name__}(QInt8Tensor[1,1], QInt8Tensor[1,1]): the grids differ: "
        "(scale=0.5, zero_point=0) and (scale=0.25, zero_point=7). "
        "Pass out=QParams(...), or requantize one to the grid of the other."
    )


def test_a_grid_for_each_index_and_one_for_all_differ():
    with pytest.raises(md.GridError) as raised:
        SPLIT + Q8
    assert str(raised.value) == (
        "add(QInt8Tensor[1,2], QInt8Tensor[1,1]): the grids differ: "
        "(2 scales=0.25..0.5, axis=1) and (scale=0.5, zero_point=0). "
        "Pass out=QParams(...), or requantize one to the grid of the other."
    )


WITH_OUT = {
    "add": lambda x, out: md.add(x, x, out=out),
    "sub": lambda x, out: md.sub(x, x, out=out),
    "mul": lambda x, out: md.mul(x, x, out=out),
    "div": lambda x, out: md.div(x, x, out=out),
    "minimum": lambda x, out: md.minimum(x, x, out=out),
    "maximum": lambda x, out: md.maximum(x, x, out=out),
    "relu": lambda x, out: md.relu(x, out=out),
    "relu6": lambda x, out: md.relu6(x, out=out),
    "clip": lambda x, out: md.clip(x, 0, 1, out=out),
    "sigmoid": lambda x, out: md.sigmoid(x, out=out),
    "hardsigmoid": lambda x, out: md.hardsigmoid(x, out=out),
    "mean": lambda x, out: md.mean(x, out=out),
    "linear": lambda x, out: md.linear(x, x, out=out),
    "matmul": lambda x, out: md.matmul(x, x.T, out=out),
}


@pytest.mark.parametrize("name", WITH_OUT)
def test_out_is_one_grid(name):
    with pytest.raises(
        md.OptionError, match=rf"^{name}\(.*: out is a float\. Pass out="
    ):
        WITH_OUT[name](Q8, 0.5)
    with pytest.raises(md.GridError) as raised:
        WITH_OUT[name](Q8, QParams([0.5], axis=0))
    assert str(raised.value).endswith(
        ": out has scales along axis 0. Pass out=QParams(...) with one scale."
    )


@pytest.mark.parametrize("name", [n for n in WITH_OUT if n not in ("linear", "matmul")])
def test_scales_along_an_axis_round_to_one_grid(name):
    x = SPLIT if name != "mean" else SPLIT[0]
    if name == "mean":
        with pytest.raises(md.GridError, match="scales differ along axis 0"):
            WITH_OUT[name](x, QParams(0.5))
        return
    found = WITH_OUT[name](x, QParams(0.125))
    each = [WITH_OUT[name](x[:, i], QParams(0.125)).codes.item() for i in range(2)]
    assert found.codes.tolist() == [each]


def test_a_quotient_needs_out():
    with pytest.raises(md.GridError) as raised:
        Q8 / OTHER
    assert str(raised.value) == (
        "div(QInt8Tensor[1,1], QInt8Tensor[1,1]): no grid represents the result "
        "exactly; the grids are (scale=0.5, zero_point=0) and (scale=0.25, "
        "zero_point=7). Pass out=QParams(...); the result is rounded to it, once."
    )


@pytest.mark.parametrize("operation", [*BINARY[:12]], ids=lambda f: f.__name__)
def test_shapes_that_do_not_broadcast_are_refused(operation):
    three = QInt8Tensor([1, 2, 3], scale=0.5)
    options = {} if operation in BINARY[6:] else {"out": QParams(0.5)}
    with pytest.raises(md.ShapeError, match=r"QInt8Tensor\[3\], QInt8Tensor\[2\]"):
        operation(three, QInt8Tensor([1, 2], scale=0.5), **options)


def test_out_is_for_quantized_results():
    with pytest.raises(md.OptionError) as caught:
        md.add(md.ones((1,)), md.ones((1,)), out=QParams(0.5))
    assert str(caught.value) == (
        "add(Float32Tensor[1], Float32Tensor[1]): out= and rounding= set the grid "
        "of a quantized result, and this method does not return one. Omit them, "
        "quantize the arguments first, or pass the tensor to write into."
    )
    with pytest.raises(md.OptionError) as caught:
        md.add(md.ones((1,)), md.ones((1,)), rounding="exact")
    assert str(caught.value) == (
        "add(Float32Tensor[1], Float32Tensor[1]): rounding='exact' needs a grid to "
        "round to. Pass out= as well, or omit rounding=."
    )


@pytest.mark.parametrize("axis", [None, 0])
def test_a_float_bias_is_told_how_to_become_one(axis):
    """And what the error says gives the exact product."""
    x = QInt8Tensor(np.ones((1, 2, 1, 1), np.int8), scale=0.5)
    scales = 0.25 if axis is None else [0.25, 0.125, 0.5]
    w = QInt8Tensor(np.ones((3, 2, 1, 1), np.int8), QParams(scales, axis=axis))
    b = md.asarray([1.0, -2.0, 0.0])
    for operation, shape in ((md.conv2d, None), (md.linear, (2,))):
        x, w = (x, w) if shape is None else (x[..., 0, 0], w[..., 0, 0])
        with pytest.raises(md.PromotionError) as raised:
            operation(x, w, b)
        assert str(raised.value).endswith(FLOAT_BIAS.partition(". ")[2])
        bias = quantize(
            b,
            QParams(
                x.qparams.scale * w.qparams.scale, axis=w.qparams.axis, dtype=qint32
            ),
        )
        found = operation(x, w, bias)
        wanted = dequantize(operation(x, w, None)).buffer.reshape(3) + b.buffer
        assert dequantize(found).buffer.reshape(3).tolist() == wanted.tolist()
    with pytest.raises(md.PromotionError, match=r"quantize\(x, q.qparams\)"):
        md.concat([x, x, b], axis=0)


def test_out_of_a_product_of_numbers_names_the_grid():
    with pytest.raises(md.OptionError) as raised:
        md.linear(ONE, Q8, out=QParams(0.5))
    assert str(raised.value) == (
        "linear(Float32Tensor[1,1], QInt8Tensor[1,1]): out= and rounding= set the "
        "grid of a quantized result, and this method does not return one; the grid is "
        "(scale=0.5, zero_point=0). Omit them, quantize the "
        "arguments first, or pass the tensor to write into."
    )


def test_an_accumulator_and_a_float_grid_name_both_grids():
    half = QFloat8E4M3Tensor([56], scale=0.25)
    with pytest.raises(md.PromotionError) as raised:
        md.less(half, QInt32Tensor([1], scale=0.5))
    assert str(raised.value) == (
        "less(QFloat8E4M3Tensor[1], QInt32Tensor[1]): a QInt32Tensor and 8-bit "
        "floats cannot be compared exactly; the grids are (scale=0.25, zero_point=0) "
        "and (scale=0.5, zero_point=0). Use requantize(acc, out=QParams(...)) first."
    )


def test_a_bias_in_blocks_is_on_another_grid():
    x = QInt8Tensor([[1, 2, 3]], scale=0.5)
    w = QInt8Tensor(np.ones((3, 3), np.int8), scale=[0.5, 0.25, 0.125], axis=0)
    grid = QParams([0.25, 0.125], axis=0, block_size=2, dtype=qint32)
    with pytest.raises(md.GridError) as raised:
        md.linear(x, w, QInt32Tensor([1, 2, 3], grid))
    assert str(raised.value) == (
        "linear(QInt8Tensor[1,3], QInt8Tensor[3,3], QInt32Tensor[3]): the bias has "
        "(2 scales=0.125..0.25, axis=0, block_size=2), but the products have "
        "(3 scales=0.0625..0.25, axis=0). "
        "Quantize the bias with scale = scale of x times scale of w."
    )
    even = QInt8Tensor(w.buffer, scale=[0.5, 0.5, 0.25], axis=0)
    assert md.linear(x, even, QInt32Tensor([1, 2, 3], grid)).shape == (1, 3)


def test_products_name_both_grids_and_the_bias_its_own():
    rows = QInt8Tensor([[1, 2], [3, 4]], scale=[0.1, 0.2], axis=0)
    one = QInt8Tensor([[1, 2], [3, 4]], scale=0.5)
    for product in (md.matmul, md.linear):
        for options in ({}, {"out": QParams(1.0)}):
            with pytest.raises(md.GridError) as raised:
                product(rows, one, **options)
            assert str(raised.value) == (
                f"{product.__name__}(QInt8Tensor[2,2], QInt8Tensor[2,2]): scales "
                "differ along axis 0; the grids are (2 scales=0.1..0.2, axis=0) and "
                "(scale=0.5, zero_point=0). Use requantize(x, out=QParams(...)) to one "
                "grid first."
            )
    bias = md.asarray([1, 2], dtype=md.int32)
    with pytest.raises(md.PromotionError) as raised:
        md.linear(one, rows, bias)
    assert str(raised.value) == (
        "linear(QInt8Tensor[2,2], QInt8Tensor[2,2], Int32Tensor[2]): the bias must be "
        "a QInt32Tensor, but is of integers; the grids are (scale=0.5, zero_point=0) "
        "and (2 scales=0.1..0.2, axis=0). Use QInt32Tensor(b, QParams(x.qparams.scale "
        "* w.qparams.scale, axis=w.qparams.axis, dtype=qint32))."
    )
    scale, axis = one.qparams.scale * rows.qparams.scale, rows.qparams.axis
    grid = QParams(scale, axis=axis, dtype=qint32)
    assert md.linear(one, rows, QInt32Tensor(bias, grid)).shape == (2, 2)


ROWS = [
    (operation, types)
    for operations, rows in REFUSALS
    for operation in operations
    for types in rows
]


def test_the_table_has_all_methods_of_quantized_operands_that_only_raise():
    found = [
        function.__name__
        for function in md.operations().values()
        for method in function.operation.methods
        if is_from_table(method)
    ]
    assert sorted(found) == sorted(operation.__name__ for operation, _ in ROWS)
    others = [
        str(method)
        for function in md.operations().values()
        for method in function.operation.methods
        if method.is_refusal
        and "Quantized" in str(method)
        and not is_from_table(method)
    ]
    assert others == []


def is_from_table(method):
    return method.is_refusal and method.implementation.__module__ == refusals.__name__


@pytest.mark.parametrize(("operation", "types"), ROWS)
def test_each_row_is_a_refusal_of_its_types(operation, types):
    """`which` reports it, and it is selected with `out=` if the operation has it."""
    expected = [{*get_args(kind)} or {kind} for kind in types]
    methods = [
        method
        for method in operation.operation.methods
        if [{*get_args(kind)} or {kind} for kind in signature_types(method)] == expected
    ]
    assert len(methods) == 1 and methods[0].is_refusal
    assert methods[0].rounds == ("out" in operation.operation.options)


def signature_types(method):
    signature = method.signature
    return [signature.varargs] if signature.has_varargs else signature.types


@pytest.mark.parametrize("options", [{}, {"out": QParams(0.5)}])
def test_a_call_with_out_raises_the_same_error(options):
    for operation in (md.add, md.matmul, md.maximum):
        assert md.which(operation, QInt8Tensor, md.Float32Tensor).is_refusal == (
            operation is not md.matmul
        )
        with pytest.raises(md.PromotionError, match="whether the integers are codes"):
            operation(Q8, Q8.codes, **options)
