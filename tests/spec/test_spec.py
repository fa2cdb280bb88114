"""Specs and their sizes: what they refuse, and how far a name goes."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor import Dim, TensorSpec, TileSpec, quant
from mdtensor.errors import DispatchError, MdtensorError, OptionError, ShapeError

F32 = md.Float32Tensor
M, N = Dim("M"), Dim("N")
X = TensorSpec(F32, (M, 4))
BINARY = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "@": operator.matmul,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def refused(kind: type[MdtensorError], call: Callable[..., Any], *given: Any) -> str:
    with pytest.raises(kind) as caught:
        call(*given)
    assert type(caught.value) is kind
    return str(caught.value)


def spec(*shape: int, kind: Any = F32) -> TensorSpec:
    return TensorSpec(kind, shape)


# --- arithmetic with a name -----------------------------------------------------------


@pytest.mark.parametrize("sign", BINARY)
def test_nothing_is_computed_with_a_name(sign: str) -> None:
    fix = "is not known before the operation runs. Use -1 where a size depends on M."
    assert refused(ShapeError, BINARY[sign], M, 8) == f"M {sign} 8 {fix}"
    assert refused(ShapeError, BINARY[sign], 8, M) == f"8 {sign} M {fix}"
    assert refused(ShapeError, BINARY[sign], M, N) == f"M {sign} N {fix}"


@pytest.mark.parametrize("sign", ORDER)
def test_a_name_has_no_order(sign: str) -> None:
    assert refused(ShapeError, ORDER[sign], M, 8) == (
        f"M {sign} 8 is not known before the operation runs. "
        "Use -1 where a size depends on M."
    )


@pytest.mark.parametrize("call", [abs, round, float, complex])
def test_nothing_is_made_of_a_name(call: Any) -> None:
    text = refused(ShapeError, call, M)
    assert text.startswith(f"{call.__name__}(M) is not known before")


def test_arrays_do_not_compute_with_a_name_either() -> None:
    assert refused(ShapeError, operator.mul, np.arange(3), M).startswith("ndarray[3] *")
    assert refused(ShapeError, operator.neg, M).startswith("-M is not known before")
    assert refused(ShapeError, divmod, M, 2).startswith("divmod(M, 2) is not known")


def test_a_name_is_formatted_as_text() -> None:
    assert f"{M}|{M:>3}|{[M, 8]}" == "M|  M|[M, 8]"


# --- how far a name goes --------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (slice(None), "M,4"),
        (slice(0, None), "M,4"),
        (slice(None, None, -1), "M,4"),
        ((slice(None), 0), "M"),
        ((..., None), "M,4,1"),
        (slice(1, None), "-1,4"),
        (slice(None, 2), "-1,4"),
        (slice(None, None, 2), "-1,4"),
    ],
)
def test_names_in_slices(key: Any, wanted: str) -> None:
    assert str(md.infer("getitem", X, key)) == f"Float32Tensor[{wanted}]"


@pytest.mark.parametrize(
    ("old", "shape", "wanted"),
    [
        ((M, 4), (M, 4), "M,4"),
        ((M, 4), (M, 2, 2), "M,2,2"),
        ((M, 4), (-1, 4), "M,4"),
        ((M, 4), (2, -1, 2), "2,M,2"),
        ((M, 4), (N, 4), "N,4"),
        ((M, 4), (-1,), "-1"),
        ((M, 4), (M, -1), "M,-1"),  # 4, but for M = 0
        ((M, N), (-1, N), "-1,N"),  # M, but for N = 0
        ((M, 0), (-1, 0), "-1,0"),
        ((-1, 4), (-1, 2, 2), "-1,2,2"),
        ((2, 4), (M, 4), "2,4"),
        ((2, 4), (-1, 2), "4,2"),
        ((M,), -1, "M"),
    ],
)
def test_names_in_reshape(old: Any, shape: Any, wanted: str) -> None:
    assert str(md.infer("reshape", spec(*old), shape)) == f"Float32Tensor[{wanted}]"


@pytest.mark.parametrize(
    ("operation", "arguments", "options", "wanted"),
    [
        ("broadcast_to", (spec(M, 1), (M, 4)), {}, "M,4"),
        ("broadcast_to", (spec(4), (M, 4)), {}, "M,4"),
        ("broadcast_to", (spec(M, 4), (3, 4)), {}, "3,4"),
        ("tile", (X, (1, 2)), {}, "M,8"),
        ("tile", (X, (2, 1)), {}, "-1,4"),
        ("tile", (X, (0, 1)), {}, "0,4"),
        ("repeat", (X, 1), {"axis": 0}, "M,4"),
        ("pad", (X, ((0, 0), (1, 1))), {}, "M,6"),
        ("pad", (X, ((1, 0), (0, 0))), {}, "-1,4"),
        ("cumulative_sum", (X,), {"axis": 0}, "M,4"),
        ("concat", ([X],), {}, "M,4"),
        ("concat", ([X, spec(0, 4)],), {}, "M,4"),
        ("concat", ([X, X],), {}, "-1,4"),
    ],
)
def test_names_stay_where_a_size_stays(
    operation: str, arguments: Any, options: Any, wanted: str
) -> None:
    found = md.infer(operation, *arguments, **options)
    assert str(found) == f"Float32Tensor[{wanted}]"


def test_a_call_needs_numbers() -> None:
    x = md.ones((2, 4))
    for call in (md.reshape, md.broadcast_to):
        assert refused(OptionError, call, x, (M, 4)) == (
            f"{call.__name__}(Float32Tensor[2,4]): shape is (M, 4). "
            "Use integers; names are for infer."
        )
    assert refused(OptionError, md.zeros, (M, 4)) == (
        "zeros(tuple): shape is (M, 4). Use sizes of 0 or more."
    )
    assert refused(OptionError, md.infer, "tile", X, (M, 1)) == (
        "tile(Float32Tensor[M,4], tuple): repetitions is (M, 1). Use integers of 0 or "
        "more."
    )


def test_a_name_is_no_axis_and_no_index() -> None:
    assert refused(OptionError, lambda: md.infer("sum", X, axis=M)) == (
        "sum(Float32Tensor[M,4]): axis is M. Use an integer."
    )
    assert "cannot index with Dim." in refused(
        md.BoundsError, md.infer, "getitem", X, M
    )
    text = refused(md.BoundsError, md.infer, "getitem", X, slice(M))
    assert "cannot index with slice(None, M, None). Use integers." in text


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (
            (-8,),
            "(-8,) has a negative size. Use sizes of 0 or more, and -1 for one of them",
        ),
        ((-1, -1), "(-1, -1) has more than one unknown size. Give all sizes but one"),
        ((M, N), "(M, N) has more than one unknown size. Give all sizes but one"),
        ((2.0,), "is (2.0,). Use sizes of 0 or more, and -1 for one of them"),
        ("ab", "is 'ab'. Use sizes of 0 or more, and -1 for one of them"),
        ((3, 3), "8 elements do not fill shape (3, 3)"),
    ],
)
def test_shapes_that_reshape_refuses(shape: Any, problem: str) -> None:
    with pytest.raises(MdtensorError) as caught:
        md.infer("reshape", spec(2, 4), shape)
    text = problem if problem.startswith("8") else f"shape {problem}"
    assert str(caught.value) == f"reshape(Float32Tensor[2,4]): {text}."


@pytest.mark.parametrize(
    ("old", "shape", "elements"),
    [
        ((M, 6), (4, 7), "6 elements, or a multiple,"),
        ((-1, 6, 2), (3, 5), "12 elements, or a multiple,"),
        ((M, 0), (4, 7), "0 elements"),
    ],
)
def test_shapes_that_no_unknown_size_fills(old: Any, shape: Any, elements: str) -> None:
    given = spec(*old)
    assert refused(ShapeError, md.infer, md.reshape, given, shape) == (
        f"reshape({given}): {elements} do not fill shape {shape}."
    )


@pytest.mark.parametrize("shape", [(4, 6), (0, 7), (2, 3, 4), (M, 5)])
def test_shapes_that_an_unknown_size_may_fill(shape: Any) -> None:
    """M may be 0."""
    assert md.infer(md.reshape, spec(M, 6), shape=shape).shape == shape


# --- what is no spec ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (3, "3. Use a tuple of sizes"),
        (None, "None. Use a tuple of sizes"),
        ((4, -2), "(4, -2). Use sizes of 0 or more, -1 or Dim"),
        ((2.0,), "(2.0,). Use sizes of 0 or more, -1 or Dim"),
        ((True,), "(True,). Use sizes of 0 or more, -1 or Dim"),
        (("M", 3), "('M', 3). Use sizes of 0 or more, -1 or Dim"),
    ],
)
def test_shapes_that_a_spec_refuses(shape: Any, problem: str) -> None:
    wanted = f"the shape of a spec is {problem}."
    for make in (TensorSpec, TileSpec):
        assert refused(ShapeError, make, F32, shape) == wanted
    assert refused(ShapeError, F32.spec, shape) == wanted
    assert refused(ShapeError, quant.QInt8Tensor.spec, shape) == wanted
    assert refused(ShapeError, X.with_shape, shape) == wanted


def test_shapes_that_a_spec_takes() -> None:
    found = TensorSpec(F32, [np.int64(3), 4])  # type: ignore[arg-type]
    assert found == spec(3, 4) and hash(found) == hash(spec(3, 4))
    assert list(map(type, found.shape)) == [int, int]
    assert refused(ShapeError, TensorSpec, F32, (1,) * 65) == (
        "65 dimensions are more than 64. Use fewer axes."
    )


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (md.RealTensor, "RealTensor. Use a class such as Float32Tensor"),
        (np.float32, "float32. Use a class such as Float32Tensor"),
        ("float32", "'float32'. Use a class such as Float32Tensor"),
        (3, "3. Use a class such as Float32Tensor"),
        (md.ones((2,)), "Float32Tensor[2]. Use a class such as Float32Tensor"),
        (md.float32, "the dtype float32. Use leaf(float32)"),
    ],
)
def test_types_that_a_spec_refuses(kind: Any, problem: str) -> None:
    text = refused(DispatchError, TensorSpec, kind, (2,))
    assert text == f"the type of a TensorSpec must be a tensor class, but is {problem}."


def test_other_arguments_of_a_spec() -> None:
    assert refused(DispatchError, TensorSpec, F32, (2,), 3) == (
        "the grid of a spec is 3. Use QParams(scale, zero_point)."
    )
    for most in ("x", -1, 2.5, True):
        assert refused(OptionError, TileSpec, F32, (2,), None, most) == (
            f"max_rank is {most!r}. Use an integer of 0 or more."
        )


@pytest.mark.parametrize(
    ("specs", "tensors", "problem"),
    [
        (3, [], "specs is 3. Give a list"),
        ([], None, "tensors is None. Give a list"),
        (X, [], "specs is TensorSpec[M,4]. Give a list"),
        ([X], md.ones((2, 4)), "tensors is Float32Tensor[2,4]. Give a list"),
        ([X], [], "there are 1 specs and 0 tensors. Give a tensor for each spec"),
        (
            [X],
            [3],
            "one of tensors is 3, which does not have a shape. Give specs and tensors",
        ),
        (
            ["M"],
            [],
            "one of specs is 'M', which does not have a shape. Give specs and tensors",
        ),
    ],
)
def test_arguments_that_bind_dims_refuses(
    specs: Any, tensors: Any, problem: str
) -> None:
    text = refused(OptionError, md.bind_dims, specs, tensors)
    assert text == f"bind_dims: {problem}."
