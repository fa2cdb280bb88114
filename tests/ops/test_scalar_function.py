"""Operations made of one function of numbers: types, shapes, memory, mistakes."""

import inspect
import math
import pickle
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

import mdtensor as md

pytestmark = pytest.mark.usefixtures("registered_as_before")

compiled = pytest.mark.compiled


@md.elementwise
def blend(x, y, weight=0.5):
    """x + weight · (y - x)."""
    return x + weight * (y - x)


@md.elementwise
def shifted(x):
    """x + 1, of integers."""
    return x + 1


@md.elementwise(dtype=md.bool)
def is_above(x, limit):
    return x > limit


@md.elementwise(dtype=md.float32)
def third(x):
    return x / 3


def test_an_operation_as_any_other() -> None:
    assert blend.__name__ == "blend"
    assert blend.__doc__ == (
        "x + weight · (y - x).\n\nArgs:\n    x: any shape, or a number.\n"
        "    y: any shape, or a number.\n    weight: any shape, or a number.\n"
        "    out: the tensor to write, of the result's type and shape.\n"
    )
    assert z_squared.operation.description == "z_squared, element by element."
    assert str(md.infer(blend, md.TensorSpec(md.Int8Tensor, (2, -1)), 1, 2)) == (
        "Int8Tensor[2,-1]"
    )
    assert blend.__module__ == __name__
    x = md.asarray([1.0, 2.0])
    found = md.which(blend, x, x)
    assert "test_scalar_function.py" in found.method.location
    assert found(x, x, 0.5).tolist() == x.tolist()
    spec = md.TensorSpec(md.Float16Tensor, (3, -1))
    other = md.TensorSpec(md.Float32Tensor, (4,))
    deduced = blend.select(md.Float16Tensor, md.Float32Tensor, float)
    assert deduced.deduce(spec, other, 0.5) == md.TensorSpec(md.Float32Tensor, (3, 4))
    assert pickle.loads(pickle.dumps(blend)) is blend


def test_what_the_function_says_of_its_parameters_stays() -> None:
    @md.elementwise
    def clamped(x, low):
        """The greater one.

        Args:
            low: the bound.

        Source: here.
        """
        return max(x, low)

    docs = {a.name: a.doc for a in clamped.operation.arguments}
    assert docs == {"x": "any shape, or a number.", "low": "the bound."}
    assert clamped.__doc__.endswith("\n\nSource: here.")
    assert clamped(md.asarray([1.0, 3.0]), 2.0).tolist() == [2.0, 3.0]


def test_further_methods_are_chosen_by_type() -> None:
    class Point(md.Tensor):
        __slots__ = ()

    @md.elementwise
    def tripled(x):
        return 3 * x

    @md.method(tripled)
    def tripled(x: Point, /, *, out=None):
        return "a point"

    assert tripled(md.asarray([2.0])).tolist() == [6.0]
    assert tripled(object.__new__(Point)) == "a point"


@settings(max_examples=60)
@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=4), st.integers(0, 7))
def test_shapes_broadcast_in_any_layout(shapes: Any, order: int) -> None:
    rng = np.random.default_rng(order)
    arrays = [rng.standard_normal(shape) for shape in shapes.input_shapes]
    x, y = (
        array.copy("F") if order >> at & 1 else array for at, array in enumerate(arrays)
    )
    found = blend(md.from_numpy(x), md.from_numpy(y))
    assert found.shape == shapes.result_shape
    assert np.array_equal(found.buffer, x + 0.5 * (y - x))
    out = np.zeros(shapes.result_shape[::-1]).T
    blend(md.from_numpy(x), md.from_numpy(y), out=md.from_numpy(out))
    assert np.array_equal(out, found.buffer)


MIXED = [
    ("float16", "float16", "float16"),
    ("bfloat16", "float16", "float32"),
    ("int8", "float32", "float32"),
    ("uint8", "float16", "float16"),
    ("float32", "float64", "float64"),
    ("bool", "float32", "float32"),
]


@pytest.mark.parametrize(("first", "second", "result"), MIXED)
def test_the_result_has_the_promoted_type(first: str, second: str, result: str) -> None:
    x = md.astype(md.asarray([0, 1, 1]), first)
    y = md.asarray([1.0, 2.5, -3.0], dtype=md.dtypes.dtype(second))
    found = blend(x, y, 0.25)
    assert found.dtype.name == result
    assert found.tolist() == [0.25, 1.375, 0.0]


def test_integers_and_predicates() -> None:
    x = md.asarray([126, 127, -128], dtype=md.int8)
    assert shifted(x).tolist() == [127, -128, -127]
    assert is_above(x, 0).tolist() == [True, True, False]
    assert is_above(x, md.asarray([[126.5], [-1000.0]])).dtype == md.bool
    assert third(x).dtype == md.float32
    assert third(x).buffer.tolist() == [
        float(np.float32(n / 3)) for n in (126, 127, -128)
    ]


@md.elementwise
def z_squared(z):
    return z * z


def test_complex_numbers() -> None:
    z = md.asarray([1 + 2j, 3j])
    assert z_squared(z).tolist() == [-3 + 4j, -9 + 0j]


def test_in_place_and_overlapping() -> None:
    x = md.asarray([1.0, 2.0, 3.0, 4.0])
    assert blend(x, 0.0, out=x) is x
    assert x.tolist() == [0.5, 1.0, 1.5, 2.0]
    a = np.arange(6.0)
    blend(md.from_numpy(a[:5]), 0.0, 0.0, out=md.from_numpy(a[1:]))
    assert a.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    square_ = np.arange(9.0).reshape(3, 3)
    blend(md.from_numpy(square_.T), 0.0, 0.0, out=md.from_numpy(square_))
    assert square_.tolist() == np.arange(9.0).reshape(3, 3).T.tolist()


def test_the_result_lies_in_memory_as_the_argument_does() -> None:
    x = md.from_numpy(np.zeros((3, 4), np.float32).T)
    assert blend(x, 1.0).buffer.flags.f_contiguous
    assert blend(x, md.zeros((2, 4, 3))).buffer.flags.c_contiguous


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bytes_do_not_depend_on_the_number_of_threads(threads: int, rng: Any) -> None:
    x = md.from_numpy(rng.standard_normal(200_003).astype(np.float32))
    before = md.get_num_threads()
    md.set_num_threads(threads)
    try:
        found = blend(x, 1.0, 0.3).buffer
    finally:
        md.set_num_threads(before)
    wide = x.buffer.astype(np.float64)
    want = wide + 0.3 * (1.0 - x.buffer.astype(np.float64))
    assert np.array_equal(found, want.astype(np.float32))


X = md.asarray([[1.0, 2.0], [3.0, 4.0]])
REFUSED = {
    "no tensor": (
        lambda: blend(1.0, 2.0),
        md.DispatchError,
        (
            "blend(float, float, float): none of the arguments is a tensor. Use "
            "asarray(x) on one of them."
        ),
    ),
    "shapes": (
        lambda: blend(X, md.zeros(3)),
        md.ShapeError,
        (
            "blend(Float32Tensor[2,2], Float32Tensor[3], float): shapes (2, 2) and "
            "(3,) do "
            "not broadcast. Make the sizes equal."
        ),
    ),
    "shape of out": (
        lambda: blend(X, 1.0, out=md.zeros(4)),
        md.ShapeError,
        (
            "blend(Float32Tensor[2,2], float, float, Float32Tensor[4]): out has shape "
            "(4,), but the result has shape (2, 2). Pass an out of shape (2, 2)."
        ),
    ),
    "type of out": (
        lambda: blend(X, 1.0, out=md.zeros((2, 2), dtype=md.float64)),
        md.PromotionError,
        (
            "blend(Float32Tensor[2,2], float, float, Float64Tensor[2,2]): out has "
            "dtype float64, but the result has dtype float32. "
            "Use an out of float32, or elementwise(dtype=float64)."
        ),
    ),
    "read-only out": (
        lambda: blend(X, 1.0, out=md.broadcast_to(md.zeros(2), (2, 2))),
        md.WriteError,
        (
            "blend(Float32Tensor[2,2]): the buffer is read-only. Write into asarray(x, "
            "copy=True)."
        ),
    ),
    "devices": (
        lambda: blend(X, md.CudaFloat32Tensor.wrap(np.zeros(2, np.float32))),
        md.DeviceError,
        (
            "blend(Float32Tensor[2,2], CudaFloat32Tensor[2], float): operands are on "
            "cpu "
            "and cuda:0. Move one with to(device)."
        ),
    ),
    "device of out": (
        lambda: blend(X, 1.0, out=md.CudaFloat32Tensor.wrap(X.buffer)),
        md.DeviceError,
        (
            "blend(Float32Tensor[2,2], float, float, CudaFloat32Tensor[2,2]): "
            "operands are "
            "on cpu and cuda:0. Move one with to(device)."
        ),
    ),
    "lambda": (
        lambda: md.elementwise(lambda x: x),
        md.RegistrationError,
        "<lambda> is not a name for an operation. Write def f(x, y): return ....",
    ),
    "builtin": (
        lambda: md.elementwise(math.exp),
        md.OptionError,
        (
            "elementwise(builtin_function_or_method): builtin_function_or_method is "
            "not a Python function. Write def f(x, y): return ...."
        ),
    ),
    "element type": (
        lambda: md.elementwise(dtype="float31")(lambda x: x),
        md.OptionError,
        None,
    ),
}


@pytest.mark.parametrize(("call", "kind", "text"), REFUSED.values(), ids=REFUSED)
def test_mistakes(call: Any, kind: type[Exception], text: str | None) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text is None or str(caught.value) == text


def keyword(x, *, y):
    return x


def none():
    return 1


def out(out):
    return out


@pytest.mark.parametrize("function", [keyword, none, out])
def test_parameters_are_positional(function: Any) -> None:
    with pytest.raises(
        md.RegistrationError, match="parameters that are not positional"
    ):
        md.elementwise(function)


def test_parameters_have_names() -> None:
    x = md.asarray([1.0, 2.0])
    wanted = blend(x, 3.0, 0.25).tolist()
    assert blend(x, 3.0, weight=0.25).tolist() == wanted
    assert blend(weight=0.25, y=3.0, x=x).tolist() == wanted
    out = md.zeros((2,))
    blend(x, y=3.0, weight=0.25, out=out)
    assert out.tolist() == wanted
    assert str(inspect.signature(blend)) == (
        "(x: Any, y: Any, weight: Any = 0.5, *, out: Any = None)"
    )


MISCALLED: dict[str, Callable[[Any], Any]] = {
    "blend(Float32Tensor[1]): takes weight=, not wieght=": lambda x: blend(x, wieght=1),
    "blend(Float32Tensor[1], int): q is not an argument": lambda x: blend(x, 1, q=1),
    "blend(Float32Tensor[1]): y is missing": lambda x: blend(x, weight=1),
    "blend(): x, y are missing": lambda x: blend(),
    "blend(Float32Tensor[1], int, int): expects 2 to 3 arguments, got 4": (
        lambda x: blend(x, 1, 2, 3)
    ),
}


@pytest.mark.parametrize("problem", MISCALLED)
def test_a_wrong_call_says_what_there_is(problem: str) -> None:
    with pytest.raises(md.DispatchError) as caught:
        MISCALLED[problem](md.asarray([1.0]))
    assert str(caught.value) == f"{problem}. They are x, y, weight."


def test_a_function_without_a_module_is_one_too() -> None:
    made: dict[str, Any] = {"__builtins__": {}}
    exec("def doubled(x): return x + x", {}, made)
    made["doubled"].__module__ = None
    with md.registry.restored():
        assert md.elementwise(made["doubled"])(md.asarray([2.0])).tolist() == [4.0]


@compiled
def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(md.CompileError) as caught:
        blend(md.asarray([1, 2]), 1)
    text = str(caught.value)
    assert text.startswith(
        "blend(Int64Tensor[2], int, float): blend at test_scalar_fun"
    )
    assert text.endswith(
        "cannot be compiled: float64 is written to elements of int64. Use astype(x, "
        "float32), or elementwise(dtype=float32)."
    )


def test_strict_rules_refuse_to_mix() -> None:
    with (
        md.promotion_rules("strict"),
        pytest.raises(md.PromotionError, match=r"blend\(Float32Tensor\[2,2\], Int8Ten"),
    ):
        blend(X, md.asarray([1, 2], dtype=md.int8))


def test_elements_that_overlap_are_not_written() -> None:
    x = md.asarray(np.lib.stride_tricks.as_strided(np.zeros(5), (3, 3), (8, 8)))
    text = "several indices share one element"
    for call in (
        lambda: md.flat_out(x),
        lambda: md.ranked_out(x),
        lambda: blend(md.zeros((3, 3), dtype=md.float64), 1.0, out=x),
    ):
        with pytest.raises(md.WriteError) as caught:
            call()
        assert caught.value.problem == text


settings_of = ModuleType("settings_of")


@md.elementwise
def scaled(x):
    return x * settings_of.scale * settings_of.inner.offset


def test_constants_of_modules_are_those_of_the_call() -> None:
    settings_of.scale, settings_of.inner = 2, ModuleType("inner")
    settings_of.inner.offset = 1
    module = settings_of

    @md.elementwise
    def closed(x):
        return x * module.scale

    x = md.asarray([1, 2])
    assert scaled(x).tolist() == closed(x).tolist() == [2, 4]
    settings_of.scale = 3
    assert scaled(x).tolist() == closed(x).tolist() == [3, 6]
    settings_of.inner.offset = 5
    assert scaled(x).tolist() == [15, 30]


LARGE = [0, 1, 2**53 + 1, 2**63 + 5, 2**64 - 1]
LIMIT = 2**53 - 1


@md.elementwise
def digits(x, base):
    return x // np.uint64(base) + x % np.uint64(base)


@md.elementwise(dtype=md.bool)
def is_beyond(x):
    return x > LIMIT and x != -1 and x != np.uint64(2**53)


@md.elementwise
def bits(x, n):
    return (x + n) * n - (x & n) + (x | n) - (x ^ n) + (x >> n)


def test_uint64_is_exact() -> None:
    x = md.asarray(LARGE, dtype=md.uint64)
    for base in (1, 3, 10):
        expected = [(v // base + v % base) % 2**64 for v in LARGE]
        assert digits(x, base).tolist() == expected
    assert is_beyond(x).tolist() == [False, False, True, True, True]


@compiled
def test_sums_of_uint64_and_signed_integers_are_exact() -> None:
    x, n = md.asarray(LARGE, dtype=md.uint64), 7
    expected = [(v + n) * n - (v & n) + (v | n) - (v ^ n) + (v >> n) for v in LARGE]
    assert bits(x, n).tolist() == [v % 2**64 for v in expected]


def unsigned_cases() -> list[Any]:
    return [
        ("//", lambda x, n: x // 3),
        ("%", lambda x, n: n % x),
        ("==", lambda x, n: x == n),
        ("<", lambda x, n: x < 2**53),
        (">=", lambda x, n: n >= x),
    ]


@compiled
@pytest.mark.parametrize(("symbol", "function"), unsigned_cases())
def test_uint64_beside_signed_integers_is_refused(symbol: str, function: Any) -> None:
    x = md.asarray(LARGE, dtype=md.uint64)
    function.__name__ = "mixed"
    with pytest.raises(md.CompileError) as caught:
        md.elementwise(function, dtype=md.uint64)(x, 3)
    assert caught.value.problem == (
        f"mixed at test_scalar_function.py:{function.__code__.co_firstlineno}"
        f" cannot be compiled: uint64 is combined with a signed integer by {symbol}"
    )
    assert caught.value.fix == "Write np.uint64(n) for the signed integer"


@compiled
def test_sizes_of_views_are_signed() -> None:
    def reversed_(i, x, y):
        if i % x.size < x.shape[0]:
            y[i] = x[x.size - 1 - i]

    x = md.asarray(LARGE, dtype=md.uint64)
    y = md.zeros(5, dtype=md.uint64)
    md.for_each(5, reversed_, md.flat_in(x), md.flat_out(y))
    assert y.tolist() == LARGE[::-1]


@md.elementwise
def divided(x, y):
    return x // y + x % y


@md.elementwise(dtype=md.float64)
def ratio(x, y):
    return x / y


@compiled
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64"])
def test_a_division_by_zero_raises_nothing(dtype: str) -> None:
    x = md.asarray([0, 7], dtype=getattr(md, dtype))
    assert divided(x, md.zeros(2, dtype=x.dtype)).tolist() == [0, 0]
    found = ratio(x, md.zeros(2, dtype=x.dtype)).tolist()
    assert math.isnan(found[0]) and found[1] == math.inf


@md.elementwise
def halved_sum(x, y):
    return (x + y) // 2


def test_narrow_integers_wrap_when_written() -> None:
    x = md.asarray([100, -128], dtype=md.int8)
    assert halved_sum(x, x).tolist() == [100, -128]
    assert shifted(md.asarray([127], dtype=md.int8)).tolist() == [-128]


@pytest.mark.parametrize(
    "convert", [int, round, math.floor, math.ceil, math.trunc], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    "value", [2.0**63, 1e19, -1e300, math.inf, -math.inf, math.nan]
)
def test_a_float_that_int64_does_not_hold_is_refused(
    convert: Any, value: float
) -> None:
    @md.elementwise(dtype=md.int64)
    def whole(x: Any) -> Any:
        return convert(x)

    for dtype in (md.float32, md.float64):
        ends = md.asarray([2.5, -3.5, -(2.0**63)], dtype=dtype)
        assert whole(ends).tolist() == [convert(x) for x in ends.tolist()]
        if abs(value) > 1e38 and dtype is md.float32 and math.isfinite(value):
            continue
        with pytest.raises(md.CastError, match="int64 does not hold"):
            whole(md.asarray([1.0, value], dtype=dtype))


@pytest.mark.parametrize(
    "convert", [int, round, math.floor, math.ceil, math.trunc], ids=lambda f: f.__name__
)
def test_an_integer_is_whole_already(convert: Any) -> None:
    @md.elementwise
    def whole(x: Any) -> Any:
        return convert(x)

    ends: dict[Any, list[int]] = {
        md.int64: [2**63 - 1, 2**53 + 1, -(2**63), -(2**53) - 1, 0],
        md.uint64: [2**64 - 1, 2**63, 2**53 + 1],
        md.int8: [127, -128],
    }
    for dtype, numbers in ends.items():
        assert whole(md.asarray(numbers, dtype=dtype)).tolist() == numbers


@md.elementwise
def shift_left(x: int, n: int) -> int:
    return x << n


@md.elementwise
def shift_right(x: int, n: int) -> int:
    x >>= n
    return x


@md.elementwise
def raise_to(x: int, n: int) -> int:
    return x**n


WHOLE: Any = {"i": st.integers(-(2**63), 2**63 - 1), "u": st.integers(0, 2**64 - 1)}


@compiled
@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (shift_left, lambda x, n: x << n),
        (shift_right, lambda x, n: x >> n),
        (raise_to, lambda x, n: pow(x, n, 2**64)),
    ],
)
@given(st.data())
def test_counts_of_any_size(
    kind: str, function: Any, exact: Any, data: st.DataObject
) -> None:
    """As in Python, modulo 2**64; also counts that a processor does not define."""
    dtype = md.int64 if kind == "i" else md.uint64
    x = data.draw(WHOLE[kind])
    n = data.draw(st.integers(0, 130))
    found = function(md.asarray([x], dtype=dtype), md.asarray([n], dtype=dtype))
    assert found.dtype is dtype
    assert found.tolist()[0] % 2**64 == exact(x, n) % 2**64


@compiled
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (shift_left, "shifts an integer by a negative count"),
        (shift_right, "shifts an integer by a negative count"),
        (raise_to, "raises an integer to a negative power"),
    ],
)
def test_negative_counts_are_refused(function: Any, words: str) -> None:
    x = md.asarray([1, 5, 0])
    with pytest.raises(md.DataError, match=rf"{function.__name__} at .* {words}"):
        function(x, md.asarray([1, 2, -1]))
    assert raise_to(md.asarray([2.0, 4.0]), -1).tolist() == [0.5, 0.25]


@compiled
def test_a_constant_count_out_of_range() -> None:
    @md.elementwise
    def gone(x: int) -> int:
        return (x << 64) + (x >> 70)

    @md.elementwise
    def inverse(x: int) -> int:
        return x**-1

    assert gone(md.asarray([1, -7, 2**62])).tolist() == [0, -1, 0]
    with pytest.raises(md.DataError, match="raises an integer to a negative power"):
        inverse(md.asarray([2]))
