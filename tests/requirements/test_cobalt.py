"""Cobalt: dispatch on element types, row by row of its feature table.

Packages of others (C3) are built and installed in tests/extension. The original claims
5 to 10 ns a dispatch (C11); bench/results/dispatch.json has what it takes here.
"""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.shelf import Shelf, shelved

import mdtensor as md
from mdtensor import quant
from mdtensor.dispatch import Operation
from mdtensor.dispatch.operation import _OPERATIONS
from mdtensor.errors import (
    CastError,
    DeviceError,
    DispatchError,
    MdtensorError,
    PromotionError,
    ShapeError,
    WriteError,
)
from mdtensor.kernels.cpu.user import for_each

pytestmark = pytest.mark.usefixtures("registered_as_before")

#: The types for which the original has kernels of add and mul.
DTYPES = [
    *(md.float16, md.bfloat16, md.float32, md.float64),
    *(md.int8, md.int16, md.int32, md.int64),
    *(md.uint8, md.uint16, md.uint32, md.uint64),
]
each_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def any_bits(dtype: md.DType, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Elements of all sizes: infinities, NaN and zeros of either sign among them."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 256, count * dtype.bits // 8, np.uint8).view(dtype.storage)
    if dtype.is_floating:
        found[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5]
        with np.errstate(all="ignore"):
            found[6:] = np.where(np.isnan(found[6:]), 1, found[6:])
    return found


def same_bytes(x: Any, wanted: np.ndarray[Any, Any]) -> bool:
    """Bit for bit; of NaNs, which differ in what no rule fixes, that both are."""
    numbers = np.asarray(x)
    both = np.isnan(numbers.astype(np.float64)) & np.isnan(wanted.astype(np.float64))
    bits = f"u{wanted.itemsize}"
    equal = numbers.view(bits) == np.ascontiguousarray(wanted).view(bits)
    return numbers.dtype == wanted.dtype and bool((equal | both).all())


# --- C1, C5: one name, twelve types ---------------------------------------------------


@each_dtype
@pytest.mark.parametrize("operation", [md.add, md.mul], ids=lambda f: f.__name__)
def test_c1_one_name_bit_for_bit(operation: Any, dtype: md.DType) -> None:
    """C1, C5, row 1: add and mul of each type are NumPy's or ml_dtypes', to the bit."""
    a, b = (any_bits(dtype, 5000, seed) for seed in (1, 2))
    b[:6] = b[:6][::-1]
    ufunc = {md.add: np.add, md.mul: np.multiply}[operation]
    with np.errstate(all="ignore"):
        wanted = ufunc(a, b)
    assert wanted.dtype == dtype.storage
    got = operation(md.from_numpy(a), md.from_numpy(b))
    assert type(got) is md.leaf(dtype)
    assert same_bytes(got, wanted)


@each_dtype
def test_c1_relu_bit_for_bit(dtype: md.DType) -> None:
    """C1, row 1: max(x, 0); of NaN it is NaN, where the original makes it 0."""
    a = any_bits(dtype, 5000, 3)
    with np.errstate(all="ignore"):
        wanted = np.maximum(a, dtype.storage.type(0))
    got = md.relu(md.from_numpy(a))
    assert same_bytes(md.abs(got), np.abs(wanted))
    if dtype.is_floating:
        assert md.isnan(got).tolist() == np.isnan(a).tolist()


@pytest.mark.parametrize("count", [1, 3, 8, 1000, 100_000])
@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_negative_zeros_stay_negative(dtype: md.DType, count: int) -> None:
    """Row 3: -0.0 + -0.0 is -0.0; the original's AVX loop adds +0.0 and loses it."""
    zeros = md.full((count,), -0.0, dtype=dtype)
    assert md.all(md.signbit(zeros + zeros))


F32, F64, I32, I64 = md.float32, md.float64, md.int32, md.int64
Numbers = Any


def of(values: Any, dtype: md.DType, *shape: int) -> Any:
    return md.reshape(md.asarray(values, dtype=dtype), shape)


SIX = [1, 2, 3, 4, 5, 6]
#: What the original's own tests compute, and what comes out.
UPSTREAM: list[tuple[str, Callable[..., Any], list[Any], Any]] = [
    (
        "add fp32",
        md.add,
        [of([1, 2, 3, 4], F32, 2, 2), of([5, 6, 7, 8], F32, 2, 2)],
        [[6, 8], [10, 12]],
    ),
    (
        "add int32",
        md.add,
        [of([1, 2, 3, 4], I32, 4), of([10, 20, 30, 40], I32, 4)],
        [11, 22, 33, 44],
    ),
    (
        "add int64",
        md.add,
        [of([100, 200, 300], I64, 3), of([1, 2, 3], I64, 3)],
        [101, 202, 303],
    ),
    ("add fp64", md.add, [of([1.5, 2.5], F64, 2), of([0.5, 1.5], F64, 2)], [2, 4]),
    (
        "add a scalar",
        md.add,
        [of([1, 2, 3, 4], F32, 4), of([10], F32, 1)],
        [11, 12, 13, 14],
    ),
    (
        "add a row",
        md.add,
        [of(SIX, F32, 2, 3), of([10, 20, 30], F32, 3)],
        [[11, 22, 33], [14, 25, 36]],
    ),
    ("mul fp32", md.mul, [of([2, 3, 4], F32, 3), of([5, 6, 7], F32, 3)], [10, 18, 28]),
    ("mul int32", md.mul, [of([2, 3, 4], I32, 3), of([10] * 3, I32, 3)], [20, 30, 40]),
    (
        "mul a scalar",
        md.mul,
        [of([1, 2, 3, 4], F32, 4), of([2], F32, 1)],
        [2, 4, 6, 8],
    ),
    ("mul fp64", md.mul, [of([1.5, 2, 2.5], F64, 3), of([2] * 3, F64, 3)], [3, 4, 5]),
    (
        "matmul",
        md.matmul,
        [of([1, 2, 3, 4], F32, 2, 2), of([5, 6, 7, 8], F32, 2, 2)],
        [[19, 22], [43, 50]],
    ),
    (
        "matmul not square",
        md.matmul,
        [of(SIX, F32, 2, 3), of([7, 8, 9, 10, 11, 12], F32, 3, 2)],
        [[58, 64], [139, 154]],
    ),
    (
        "matmul fp64",
        md.matmul,
        [of([1, 2, 3, 4], F64, 2, 2), md.eye(2, dtype=F64)],
        [[1, 2], [3, 4]],
    ),
    ("relu fp32", md.relu, [of([-2, -1, 0, 1, 2], F32, 5)], [0, 0, 0, 1, 2]),
    ("relu int32", md.relu, [of([-10, -5, 0, 5, 10], I32, 5)], [0, 0, 0, 5, 10]),
    ("relu fp64", md.relu, [of([-1.5, 0, 1.5], F64, 3)], [0, 0, 1.5]),
    ("relu positive", md.relu, [of([1, 2, 3, 4], F32, 2, 2)], [[1, 2], [3, 4]]),
    ("relu negative", md.relu, [of([-1, -2, -3, -4], F32, 4)], [0, 0, 0, 0]),
    ("broadcast", md.add, [md.ones((2, 3)), md.ones(3)], [[2] * 3] * 2),
    (
        "broadcast 3-D",
        md.add,
        [md.ones((2, 1, 3)), of([10, 20, 30], F32, 3)],
        [[[11, 21, 31]]] * 2,
    ),
]


@pytest.mark.parametrize(
    ("operation", "operands", "wanted"),
    [row[1:] for row in UPSTREAM],
    ids=[row[0] for row in UPSTREAM],
)
def test_upstream_values(operation: Any, operands: list[Any], wanted: Any) -> None:
    """Row 2: the values of the original's tests, and the type of the operands."""
    got = operation(*operands)
    assert got.tolist() == wanted
    assert type(got) is type(operands[0])


def test_upstream_creation() -> None:
    """Row 2, C6: shape, type and count; four numbers are no 2 by 3 matrix."""
    x = of([1, 2, 3, 4], F32, 2, 2)
    assert (x.shape, x.dtype, x.size, x.ndim) == ((2, 2), F32, 4, 2)
    assert (of(SIX, I32, 2, 3).dtype, of(SIX, I32, 2, 3).size) == (I32, 6)
    assert (of([1, 2, 3], F64, 3).dtype, of([1, 2, 3], F64, 3).size) == (F64, 3)
    with pytest.raises(ShapeError):
        of([1, 2, 3, 4], F32, 2, 3)


@pytest.mark.parametrize(
    ("x", "tolerance"),
    [
        (of([2, 1, 0.1], F32, 3), 1e-6),
        (of(SIX, F32, 2, 3), 1e-6),
        (of([1000, 1001, 1002], F32, 3), 1e-6),
        (of([5, 5, 5, 5], F32, 4), 1e-6),
        (of([1, 2, 3], F64, 3), 1e-15),
    ],
    ids=["1-D", "2-D", "stable", "uniform", "fp64"],
)
def test_upstream_softmax(x: Any, tolerance: float) -> None:
    """Row 2: the original asserts sums; here every value, also of large numbers."""
    numbers = np.asarray(x, np.float64)
    wanted = np.exp(numbers - numbers.max(-1, keepdims=True))
    wanted /= wanted.sum(-1, keepdims=True)
    got = md.softmax(x)
    np.testing.assert_allclose(np.asarray(got), wanted, rtol=tolerance)
    if x.shape == (3,) and x.dtype is F32 and float(x[0]) == 2:
        assert [round(n, 3) for n in got.tolist()] == [0.659, 0.242, 0.099]


def test_matmul_of_half_floats_adds_in_float32() -> None:
    """4,096 products of 1 · 1: float16 sums as the original's stop at 2048."""
    ones = md.ones((1, 4096), dtype=md.float16)
    assert float(ones @ ones.T) == 4096
    assert float(md.astype(ones, md.bfloat16) @ md.astype(ones, md.bfloat16).T) == 4096


# --- C4, C9, C10, C12, C13: what is refused, and how ----------------------------------


def test_c5_strict_refuses_with_fields() -> None:
    """C5, row 4: a mismatch says its operation, types and rules to programs, too."""
    x, y = md.ones(2), md.asarray([1, 2], dtype=md.int32)
    with md.promotion_rules("strict"), pytest.raises(PromotionError) as caught:
        md.add(x, y)
    error = caught.value
    assert (error.operation, error.types, error.rules) == (
        "add",
        (md.float32, md.int32),
        "strict",
    )
    assert error.call == "add(Float32Tensor[2], Int32Tensor[2])"
    assert str(error) == (
        "add(Float32Tensor[2], Int32Tensor[2]) under 'strict': "
        "float32 and int32 do not have a common type. Use astype(x, float32)."
    )
    assert md.add(x, y).dtype is md.float32, "the default promotes"


def test_c9_shapes_are_checked_first() -> None:
    """C9: shapes broadcast or are an error, never a panic."""
    with pytest.raises(ShapeError) as caught:
        md.add(md.ones(3), md.ones(2))
    assert str(caught.value) == (
        "add(Float32Tensor[3], Float32Tensor[2]): shapes (3,) and (2,) do not "
        "broadcast. Make the sizes equal."
    )
    with pytest.raises(ShapeError) as inner:
        md.matmul(md.ones((2, 2)), md.ones((3, 1)))
    assert "inner sizes differ, 2 and 3" in str(inner.value)


def test_c10_a_missing_method_names_the_nearest() -> None:
    """C10, row 5: operation, types, argument, a way out, and methods with places."""
    with pytest.raises(DispatchError) as caught:
        md.sin(md.asarray([1, 2]))
    text = str(caught.value)
    assert caught.value.operation == "sin"
    assert text.startswith(
        "sin(Int64Tensor): no method: x is Int64Tensor, not FloatingTensor | "
        "ComplexTensor. Use astype(x, float32), lossy beyond 2**24. Nearest: "
        "sin(FloatingTensor | ComplexTensor) at mdtensor/ops/math.py:"
    )


def canaries() -> Iterator[tuple[str, Callable[[Any], Any], type[MdtensorError]]]:
    """A write to a float32 matrix of each kind that is refused."""
    locked = np.zeros((2, 3), np.float32)
    locked.flags.writeable = False
    yield "shape", lambda x: x.__iadd__(md.ones((3, 3))), ShapeError
    yield "grown", lambda x: x.__iadd__(md.ones((4, 2, 3))), ShapeError
    yield "type", lambda x: x.__iadd__(md.ones(3, dtype=F64)), PromotionError
    yield "bits", lambda x: x.__iand__(md.ones(3, dtype=md.bool)), MdtensorError
    yield "value", lambda x: x.__setitem__(0, 1j), CastError
    yield "part", lambda x: x.__setitem__((0, 5), 1.0), ShapeError
    yield "rows", lambda x: x.__setitem__(slice(1), md.ones(2)), ShapeError
    yield "pick", lambda x: x.__setitem__(md.asarray([0, 9]), 1.0), ShapeError
    yield "float", lambda x: x.__setitem__(0, md.ones(3, dtype=F64)), PromotionError
    yield "lock", lambda _: md.from_numpy(locked).__setitem__(0, 1.0), WriteError


CANARIES = list(canaries())


@pytest.mark.parametrize(
    ("write", "kind"), [row[1:] for row in CANARIES], ids=[row[0] for row in CANARIES]
)
def test_c12_errors_come_before_any_access(write: Any, kind: Any) -> None:
    """C12, row 11: the target is as it was, to the bit, and so is its surrounding."""
    memory = np.full((4, 5), 7.0, np.float32)
    x = md.from_numpy(memory[1:3, 1:4])
    with pytest.raises(kind):
        write(x)
    assert (memory == 7.0).all()


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with shelved([md.float32, md.int8]) as place:
        yield place


def test_c13_devices_do_not_mix(shelf: Shelf) -> None:
    """C2, C13, row 12: refused by name; all operations in tests/test_operations.py."""
    x = md.ones(3)
    with pytest.raises(DeviceError) as caught:
        md.add(x, x.to(shelf))
    assert str(caught.value) == (
        "add(Float32Tensor[3], ShelfFloat32Tensor[3]): operands are on cpu and shelf. "
        "Move one with to(device)."
    )


def test_c19_another_device_takes_another_method(shelf: Shelf) -> None:
    """C19, row 16: `to` gives another class, and the next call another method."""
    there = md.leaf(md.float32, shelf)

    @md.method(md.relu)
    def relu(x: there, /) -> Any:  # type: ignore[valid-type]
        return x.wrap(np.maximum(x.buffer, 0))

    x = md.asarray([-1.0, 2.0])
    moved = x.to(shelf)
    here, at_shelf = md.which(md.relu, x).method, md.which(md.relu, moved).method
    try:
        assert here is not at_shelf
        assert type(md.relu(moved)) is there
        assert md.relu(moved).to("cpu").tolist() == md.relu(x).tolist() == [0.0, 2.0]
    finally:
        md.relu.operation.remove_method(at_shelf)


# --- C6 to C8, C11, C16, C17: what dispatch costs -------------------------------------


def test_c6_bytes_are_taken_as_what_they_are() -> None:
    """C6: a buffer is shared if its type is the leaf's, and refused if it is not."""
    raw = bytes(range(64))
    array = np.frombuffer(raw, np.float32)
    assert np.shares_memory(np.asarray(md.Float32Tensor(array)), array)
    with pytest.raises(CastError):
        md.Float64Tensor(array)
    for dtype in DTYPES:
        if dtype.bits > 8:  # at an odd address
            odd = np.frombuffer(raw, dtype.storage, 4, offset=1)
            with np.errstate(all="ignore"):
                wanted = odd + odd
            assert same_bytes(md.add(*[md.from_numpy(odd)] * 2), wanted)


@pytest.mark.parametrize("count", [1, 1_000_000])
def test_c8_dispatched_once(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """C8, C11, row 9: one resolution, whatever the size; none in the next call."""
    resolved = []
    select = Operation.select

    def counted(self: Operation, *types: type) -> Any:
        resolved.append(self.name)
        return select(self, *types)

    x = md.ones(count)
    monkeypatch.setattr(Operation, "select", counted)
    md.add.operation._forget()
    md.add(x, x)
    assert resolved == ["add"]
    md.add(x, x)
    assert resolved == ["add"]


@pytest.mark.compiled
def test_c7_compiled_for_the_types_that_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C7, C16, row 13: one specialization for each tuple of types, none before."""
    made = []
    monkeypatch.setattr(
        for_each,
        "_compile",
        lambda *given, make=for_each._compile: made.append(given[2]) or make(*given),
    )

    @md.elementwise
    def scaled(x: Any, y: Any) -> Any:
        return x * y + y

    assert made == []
    tensors = [md.ones((2, 3), dtype=dtype) for dtype in (F32, F64)]
    pairs = [(a, b) for a in tensors for b in tensors]
    for _ in range(3):
        for a, b in pairs:
            scaled(a, b)
            scaled(a[0], b[0])
    assert len(made) == len(set(made)) == len(pairs)


def test_c17_one_method_for_all_pairs() -> None:
    """C17, row 14: 225 ordered pairs, of which one method serves all that promote."""
    leaves = md.leaves()[:15]
    ours = [
        m for m in md.add.operation.methods if m.location.startswith("mdtensor/ops")
    ]
    taken = {md.add.select(a, b).method for a in leaves for b in leaves}
    assert taken == set(ours)
    assert len(ours) == 1
    kinds = {md.promote_types(a, a).kind for a in (leaf.dtype for leaf in leaves)}
    assert len(kinds) == 5


def test_c3_a_new_operation_edits_nothing() -> None:
    """C3: a declaration and a method; the original needs four edits of its core."""

    @md.generic(deduce=lambda x: x)
    def doubled(x: Any, /) -> Any:
        """2 · x."""

    @md.method(doubled)
    def doubled(x: md.NumericTensor, /) -> Any:
        return x + x

    for dtype in DTYPES:
        assert type(doubled(md.ones(3, dtype=dtype))) is md.leaf(dtype)
    del _OPERATIONS[f"{__name__}.doubled"]


def test_c4_the_layout_changes_nothing() -> None:
    """C4: strides are read as they are; the original copies to make them contiguous."""
    for dtype in DTYPES:
        x = md.from_numpy(np.arange(24).astype(dtype.storage).reshape(4, 6))
        for view in (x.T, x[::2, ::-1], md.broadcast_to(x[0], (3, 6)), x[:, 2]):
            dense = md.from_numpy(np.ascontiguousarray(np.asarray(view)))
            assert (view * view).tolist() == (dense * dense).tolist()
            assert md.relu(view).tolist() == md.relu(dense).tolist()


def test_c14_all_arguments_choose() -> None:
    """C14: int + float and float + int, which the original does not have."""
    x, y = md.asarray([1, 2], dtype=md.int8), md.asarray([0.5, 1.5])
    assert md.add(x, y).tolist() == md.add(y, x).tolist() == [1.5, 3.5]
    q = quant.quantize(y, quant.QParams(0.5))
    chosen = {
        md.which(md.mul, *pair).method for pair in [(x, y), (q, q), (q, 2), (2, q)]
    }
    assert len(chosen) == 4


# --- C15, C18, C20 --------------------------------------------------------------------


def test_c15_a_cast_chooses_by_source_and_target() -> None:
    """C15, row 10; the 225 pairs under four policies: tests/ops/test_conversion.py."""
    x = md.asarray([2.9, -2.9, 0.0])
    assert type(md.astype(x, md.int32)) is md.Int32Tensor
    assert md.astype(x, md.int32).tolist() == [2, -2, 0]
    large = md.asarray([3e9, -3e9])
    assert md.astype(large, md.int32, casting="saturate").tolist() == [
        2**31 - 1,
        -(2**31),
    ]
    assert md.astype(large, md.int32, casting="wrap").tolist() == [
        3 * 10**9 - 2**32,
        2**32 - 3 * 10**9,
    ]
    with pytest.raises(CastError):
        md.astype(large, md.int32)
    with pytest.raises(CastError):
        md.astype(md.asarray([float("nan")]), md.int32)


def test_c18_quantized_tensors_are_a_quarter() -> None:
    """C18, row 15: 8 bits for 32, and one scale; speed is in bench/results."""
    x = md.ones((256, 256))
    q = quant.quantize(x, quant.QParams(0.5))
    assert (x.nbytes, q.nbytes) == (4 * 65536, 65536 + 4)
    assert type(q) is quant.QInt8Tensor
    assert type(md.matmul(q, q)) is quant.QInt32Tensor


@pytest.mark.compiled
def test_c20_kernels_are_generated_and_fused() -> None:
    """C20: a compiled function of one's own; whole networks in tests/quant/model.

    The original plans one kernel for hardswish: the loop is generated for the types of
    a call, and nothing is stored between its steps. Chains of operations on tensors are
    not fused behind the caller's back; a quantized network's plan is one compiled call.
    """

    @md.elementwise
    def hardswish(x: Any) -> Any:
        return x * min(max(x + 3, 0), 6) / 6

    for dtype in DTYPES[:4]:
        x = md.linspace(-4, 4, 101, dtype=dtype)
        near = np.asarray(md.hardswish(x), np.float64)
        got = np.asarray(hardswish(x), np.float64)
        eps = float(ml_dtypes.finfo(dtype.storage).eps)
        np.testing.assert_allclose(got, near, rtol=2 * eps, atol=eps)
