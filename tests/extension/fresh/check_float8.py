"""An element type from outside: everything that ours can, the package's type can."""

import copy
import itertools
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from mdtensor_float8 import CudaFloat8Tensor, Float8Tensor, float8
from support.samples import call, sample

import mdtensor as md

OPERATIONS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
#: What refuses our own floats of 16 bits as well.
REFUSING = {
    *("rfft", "ihfft", "rfftn", "det", "slogdet", "inv", "solve", "pinv"),
    *("matrix_rank", "cholesky", "qr", "svd", "svdvals"),
    *("eig", "eigvals", "eigh", "eigvalsh", "view_as_complex"),
    *("dynamic_quantize", "dynamic_matmul", "dynamic_conv2d"),
    "dynamic_lstm",
}


def everything() -> Any:
    """All 256 numbers."""
    return Float8Tensor(np.arange(256, dtype=np.uint8).view(float8.storage))


def cast(found: Any, source: md.DType, target: md.DType) -> Any:
    """The tensors of type `source`, wherever they are, in `target`."""
    if isinstance(found, md.Tensor):
        return md.astype(found, target) if found.dtype is source else found
    if isinstance(found, dict):
        return {name: cast(value, source, target) for name, value in found.items()}
    if isinstance(found, (tuple, list)):
        return tuple(cast(value, source, target) for value in found)
    return found


def flat(found: Any) -> list[Any]:
    if isinstance(found, (tuple, list)):
        return [x for part in found for x in flat(part)]
    return [found]


def same(x: Any, y: Any) -> bool:
    if type(x) is not type(y) or x.shape != y.shape:
        return False
    a, b = (v.buffer.astype(np.complex128) for v in (x, y))
    return bool(np.array_equal(a, b, equal_nan=True))


def takes_floats(operation: Any) -> bool:
    """Whether a tensor of float32 is in its sample call."""
    arguments, options = sample(operation)
    given = flat((arguments, tuple(options.values())))
    return any(isinstance(x, md.Tensor) and x.dtype is md.float32 for x in given)


TAKING = [operation for operation in OPERATIONS if takes_floats(operation)]


@pytest.mark.parametrize("operation", TAKING, ids=lambda f: f.__name__)
def test_every_operation_is_that_of_float32_rounded_once(operation: Any) -> None:
    arguments, options = (cast(x, md.float32, float8) for x in sample(operation))
    if operation.__name__ in REFUSING:
        with pytest.raises(md.MdtensorError, match="astype"):
            call(operation, arguments, options)
        return
    found = call(operation, arguments, options)
    wide = (cast(x, float8, md.float32) for x in (arguments, options))
    if operation in (md.empty_like, md.setitem):
        return
    want = cast(call(operation, *wide), md.float32, float8)
    for x, y in zip(flat(found), flat(want), strict=True):
        assert same(x, y) if isinstance(x, md.Tensor) else x == y


@pytest.mark.parametrize("operation", TAKING, ids=lambda f: f.__name__)
def test_it_is_refused_only_where_float16_is(operation: Any) -> None:
    arguments, options = (cast(x, md.float32, md.float16) for x in sample(operation))
    try:
        call(operation, arguments, options)
    except md.MdtensorError:
        assert operation.__name__ in REFUSING
    else:
        assert operation.__name__ not in REFUSING


def test_most_operations_take_floats() -> None:
    assert len(TAKING) > 120


def test_it_is_one_of_the_types() -> None:
    assert md.dtype("float8_e4m3fn") is md.dtype(ml_dtypes.float8_e4m3fn) is float8
    assert md.leaf(float8) is Float8Tensor
    assert Float8Tensor in md.leaves()
    assert md.isdtype(float8, "real floating") and md.isdtype(float8, "numeric")
    found = md.finfo(float8)
    assert (found.bits, found.max, found.eps) == (8, 448.0, 0.125)
    assert float8.digits == 4


def test_tensors_are_made_of_it() -> None:
    x = md.asarray([0.3, 17, np.nan, -464, True], dtype=float8)
    assert str(x.tolist()) == "[0.3125, 16.0, nan, -448.0, 1.0]"
    # This type does not have infinities, so a larger number would be NaN.
    for large in (2**40, 2**70 + 1):
        with pytest.raises(md.CastError):
            md.asarray([large, 17], dtype=float8)
    assert md.asarray(np.asarray(x)).tolist()[:2] == [0.3125, 16.0]
    assert md.asarray([np.asarray(x)[0], 1.0]).dtype is float8
    for made in (
        md.zeros((2,), dtype=float8),
        md.full((2,), 0.3, dtype="float8_e4m3fn"),
        md.arange(5, dtype=float8),
        md.linspace(0, 1, 3, dtype=float8),
        md.eye(2, dtype=float8),
        md.ones_like(x),
    ):
        assert type(made) is Float8Tensor


def test_tensors_of_it_are_like_others() -> None:
    x = md.asarray([1.0, 2.5], dtype=float8)
    assert repr(x) == "Float8Tensor[2]([1, 2.5])"
    assert x.nbytes == 2
    assert x[1].item() == float(x[1]) == 2.5
    x[0] = 0.3
    assert x.tolist() == [0.3125, 2.5]
    assert x[x > 1].tolist() == [2.5]
    for twin in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert same(twin, x)
    assert "2.5" in str(x)
    with pytest.raises(md.CastError):
        md.setitem(x, 0, 1j)


def test_dlpack_has_no_place_for_it() -> None:
    with pytest.raises(md.ExchangeError) as caught:
        md.asarray([1.0], dtype=float8).__dlpack__()
    assert str(caught.value) == (
        "__dlpack__(Float8Tensor[1]): DLPack cannot represent float8_e4m3fn. "
        "Use astype(x, float32)."
    )


@pytest.mark.parametrize(
    ("other", "want"),
    [
        *((t, float8) for t in (md.bool, md.int8, md.uint8, md.int64, md.uint64)),
        *((t, t) for t in (md.float16, md.bfloat16, md.float32, md.complex64)),
        *((scalar, float8) for scalar in (True, 2, 1.5)),
        (1j, md.complex64),
    ],
)
def test_promotion(other: Any, want: md.DType) -> None:
    x = md.asarray([1.0, 2.0], dtype=float8)
    y = md.ones((2,), dtype=other) if isinstance(other, md.DType) else other
    assert md.result_type(float8, other) is want
    assert (x + y).dtype is (y + x).dtype is (x * y).dtype is want
    assert (x + y).tolist() == (y + x).tolist()


def test_what_others_become_did_not_change() -> None:
    with pytest.raises(md.PromotionError, match="do not have a common type"):
        md.promote_types(md.int64, md.uint64)
    assert md.promote_types(md.float16, md.bfloat16) is md.float32


@pytest.mark.parametrize("rules", ["numpy", "jax", "torch", "array_api", "strict"])
def test_other_rules_have_no_place_for_it(rules: str) -> None:
    x = md.asarray([1.0], dtype=float8)
    with md.promotion_rules(rules):
        assert (x + x).dtype is float8
        with pytest.raises(md.PromotionError, match=f"under '{rules}'"):
            x + md.asarray([1.0])


def test_rules_that_go_by_width_take_it() -> None:
    x = md.asarray([1.0], dtype=float8)
    with md.promotion_rules("pypto"):
        assert (x + md.asarray([1.0])).dtype is md.float32


def test_scalars_are_rounded_once() -> None:
    """17.000000001 is above a tie that float32 would put it on."""
    x = md.asarray([0.0], dtype=float8)
    assert (x + 17.000000001).tolist() == [18.0]
    assert (x + 17).tolist() == [16.0]
    assert md.clip(x, 17.000000001, None).tolist() == [18.0]


def test_comparisons_are_exact() -> None:
    x = md.asarray([16.0, 448.0], dtype=float8)
    assert (x == 17).tolist() == [False, False]
    assert (x < md.asarray([17, 448])).tolist() == [True, False]
    assert (x <= 448).tolist() == [True, True]


@pytest.mark.parametrize("leaf", md.leaves()[:15], ids=lambda leaf: leaf.__name__)
def test_casts_to_all_types(leaf: type[md.Tensor]) -> None:
    """Of what a type holds nothing is lost on the way through it."""
    numbers = [0.0, 1.0]
    x = md.asarray(numbers, dtype=float8)
    for casting in ("exact", "check", "saturate", "wrap"):
        if leaf.dtype.is_complex and casting in ("saturate", "wrap"):
            there = md.astype(x, leaf.dtype, casting=casting)
            assert md.astype(there, float8, casting="check").tolist() == numbers
            continue
        there = md.astype(x, leaf.dtype, casting=casting)
        assert type(there) is leaf
        assert md.astype(there, float8, casting=casting).tolist() == numbers


def test_casts_tell_what_does_not_fit() -> None:
    x = md.asarray([1.0, 464.0, 465.0, np.inf, np.nan])
    with pytest.raises(md.CastError) as caught:
        md.astype(x, float8, casting="check")
    assert str(caught.value) == (
        "astype(Float32Tensor[5], float8_e4m3fn): 2 of 5 values are out of range; "
        "float8_e4m3fn "
        'represents -448.0 to 448.0. Use casting="saturate" or "wrap", or a wider type.'
    )
    with pytest.raises(md.CastError, match="3 of 5 values are not exactly"):
        md.astype(x, float8, casting="exact")
    saturated = md.astype(x, float8, casting="saturate")
    assert str(saturated.tolist()) == "[1.0, 448.0, 448.0, 448.0, nan]"
    whole = md.astype(everything()[:127], md.int8, casting="saturate")
    assert whole.tolist()[-1] == 127


def test_every_number_survives_a_wider_type() -> None:
    x = everything()
    for wide in (md.float16, md.bfloat16, md.float32, md.float64):
        there = md.astype(x, wide, casting="exact")
        assert same(md.astype(there, float8, casting="exact"), x)


def test_large_arrays_are_computed_alike() -> None:
    x = md.tile(everything(), (64,))
    small = everything()
    for operation in (md.exp, md.neg, md.sigmoid, md.isnan, md.sqrt):
        assert same(operation(x)[:256], operation(small))
    for operation in (md.add, md.mul, md.less, md.maximum):
        assert same(operation(x, x)[:256], operation(small, small))


def test_compiled_functions_read_and_write_it() -> None:
    """All pairs of it, rounded once from what float32 gives."""

    @md.elementwise
    def fused(x: float, y: float) -> float:
        return x * y + 1.0

    x, y = md.meshgrid(everything(), everything())
    products = md.astype(x, md.float64) * md.astype(y, md.float64) + 1.0
    assert same(fused(x, y), md.astype(products, float8, casting="wrap"))
    assert same(fused(x[::2], 2.0), fused(x, 2.0)[::2])


def test_loops_read_and_write_it() -> None:
    def doubled(i: int, x: Any, y: Any) -> None:
        y[i] = 2 * x[i]

    x, y = md.asarray([1.0, 16.0, 300.0], dtype=float8), md.zeros((3,), dtype=float8)
    md.for_each(3, doubled, md.flat_in(x), md.flat_out(y))
    assert str(y.tolist()) == "[2.0, 32.0, nan]"
    assert md.flat_in(x)[1] == 16.0


def test_its_leaf_of_another_device_is_a_type_of_its_own() -> None:
    assert Float8Tensor.with_device(md.cuda) is CudaFloat8Tensor
    assert str(md.add.select(CudaFloat8Tensor, Float8Tensor).method)
    with pytest.raises(md.DeviceError, match="cuda:0 cannot be used"):
        md.to(md.asarray([1.0], dtype=float8), "cuda")


def test_deduction_knows_it() -> None:
    spec = md.TensorSpec(Float8Tensor, (2, 1))
    other = md.TensorSpec(md.Int64Tensor, (3,))
    found = md.add.select(Float8Tensor, md.Int64Tensor).deduce(spec, other)
    assert found == md.TensorSpec(Float8Tensor, (2, 3))


def test_all_pairs_of_its_calls_are_decided() -> None:
    mine = [Float8Tensor, CudaFloat8Tensor]
    others = [*md.leaves(), bool, int, float, complex, type(None)]
    pairs = {*itertools.product(mine, others), *itertools.product(others, mine)}
    for operation in (f for f in OPERATIONS if len(f.operation.dispatched) == 2):
        for types in pairs:
            try:
                operation.select(*types)
            except md.DispatchError as error:
                assert "more than one" not in error.problem
