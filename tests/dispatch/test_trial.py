"""What `which` says is what runs: real calls under `sys.setprofile` are the oracle."""

import sys
from contextlib import suppress
from functools import partial
from inspect import unwrap
from random import Random
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.samples import call as call_sample, sample

import mdtensor as md
from mdtensor.errors import DeviceError, DispatchError, PromotionError
from mdtensor.quant import QInt8Tensor, QParams, QUInt8Tensor, qint8, runway
from mdtensor.support_table import call_of, find_form

OURS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
NUMBERS = [bool, int, float, complex]
REFUSALS = (DispatchError, PromotionError, DeviceError)
#: Pairs of types that are drawn for each operation.
DRAWN = 16


def ran(call: Any) -> tuple[list[CodeType], Exception | None]:
    """Return the code that a call enters, in order, and the error that it raises."""
    entered: list[CodeType] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.append(frame.f_code)

    error = None
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    except md.MdtensorError as found:
        error = found
    finally:
        sys.setprofile(before)
    return entered, error


def value_of(kind: Any, shape: tuple[int, ...]) -> Any:
    """Return ones of a type; of a device that is not here, around host memory."""
    if kind in NUMBERS:
        return kind(1)
    spec = kind.spec(shape)
    if spec.qparams is not None and kind.device is not md.cpu:
        if kind.dtype.bits == 4:
            packed = (*shape[:-1], -(-shape[-1] // 2)) if shape else ()
            return kind.wrap(np.ones(packed, np.uint8), spec.qparams, shape)
        return kind.wrap(np.ones(shape, kind.dtype.storage), spec.qparams)
    if spec.qparams is not None:
        return kind(np.ones(shape, np.int8).tolist(), spec.qparams)
    return kind.wrap(np.ones(shape, kind.dtype.storage))


def drawn_types(count: int, random: Random) -> set[tuple[Any, ...]]:
    leaves = list(md.leaves())
    given = leaves + (NUMBERS if count > 1 else [])
    found = {(kind,) * count for kind in leaves}
    found |= {tuple(random.choices(given, k=count)) for _ in range(DRAWN * count)}
    return {types for types in found if not all(kind in NUMBERS for kind in types)}


def calls_of(function: Any) -> Any:
    """Yield arguments and options of calls of many pairs of types."""
    operation = function.operation
    form = find_form(operation)
    assert form is not None
    count, fixed = len(form.ranks), dict(form.fixed)
    drawn = drawn_types(count, Random(operation.name))
    # Random types rarely are integers at all places where only these are allowed.
    drawn |= {
        tuple(k.with_dtype(fixed[at]) if at in fixed else k for at in range(count))
        for k in (md.Float32Tensor, md.Int8Tensor)
    }
    for types in sorted(drawn, key=str):
        first = next(kind for kind in types if kind not in NUMBERS)
        try:
            filled, options = call_of(operation, first, form)
        except md.MdtensorError:
            continue
        kinds = iter(types)
        arguments = [
            value_of(next(kinds), x.shape) if isinstance(x, md.TensorSpec) else x
            for x in filled
        ]
        made = {
            name: value_of(value.type, value.shape)
            if isinstance(value, md.TensorSpec)
            else value
            for name, value in options.items()
        }
        yield arguments, made


@pytest.mark.long
@pytest.mark.parametrize("function", OURS, ids=lambda f: f.__name__)
def test_which_names_the_code_that_runs_and_reports_refusals(function: Any) -> None:
    checked = 0
    for arguments, options in calls_of(function):
        given = [arguments] if function.operation.sequence else arguments
        if any(getattr(type(x), "device", md.cpu).missing for x in arguments):
            # There is no such tensor here; ours lies about its memory.
            with suppress(DispatchError):
                assert md.which(function, *arguments, **options).is_refusal
            continue
        entered, error = ran(partial(function, *given, **options))
        try:
            found = md.which(function, *arguments, **options)
        except DispatchError:
            assert isinstance(error, DispatchError)
            continue
        shown = (repr(found), error, found.error)
        assert found.function.__code__ in entered, shown
        assert found.is_refusal == (isinstance(error, REFUSALS)), shown
        assert (found.error is None) == (error is None), shown
        checked += 1
    assert checked


@each("function", OURS)
def test_which_and_traced_name_the_same_kernels(function: Any) -> None:
    arguments, options = sample(function)
    given = arguments if isinstance(arguments, (tuple, list)) else (arguments,)
    found = md.which(function, *given, **options)
    said, casts = set(found.kernels), set(found.casts)
    arguments, options = sample(function)
    with md.traced() as calls:
        result = call_sample(function, arguments, options)
    assert said == {kernel for call in calls for kernel in call.kernels}
    assert casts == {cast for call in calls for cast in call.casts}
    # A method that is bound once stands behind the function that binds it.
    assert unwrap(calls[0].function).__code__ is unwrap(found.function).__code__
    assert calls[0].place == found.place
    if isinstance(result, md.Tensor):
        assert (found.result.type, found.result.shape) == (type(result), result.shape)


def floats(*shape: int, dtype: Any = md.float32) -> Any:
    return md.ones(shape, dtype=dtype)


def test_the_fast_path_is_named_and_called() -> None:
    x = floats(16)
    found = md.which(md.add, x, x)
    assert found.function is not found.method.implementation
    assert found.function.__code__ in ran(lambda: found(x, x))[0]
    assert found.method.implementation.__code__ not in ran(lambda: found(x, x))[0]
    assert f"  fast path: of {found.method.location}" in str(found)
    assert md.which(md.add, x, 1j).function is found.method.implementation


def test_promotion_casts_and_device() -> None:
    found = md.which(md.add, md.Float32Tensor, md.TensorSpec(md.Int8Tensor, (2, 2)))
    assert found.promotion is md.float32
    assert [tuple(cast) for cast in found.casts] == [("int8", "float32")]
    assert (found.kernel, found.device) == ("numpy.add", md.cpu)
    assert found.result == md.TensorSpec(md.Float32Tensor, (2, 2))
    assert md.which(md.add, md.Float32Tensor, 2).promotion is md.float32
    assert md.which(md.add, md.Float32Tensor, md.Float32Tensor).promotion is None
    assert md.which(md.take, md.Float32Tensor, md.Int64Tensor).promotion is None
    assert md.which(md.concat, md.Int8Tensor, md.BoolTensor).promotion is md.int8


def test_a_quantized_kernel_is_named_with_its_instruction_set() -> None:
    x, w = QUInt8Tensor([1, 2, 3], scale=0.5), QInt8Tensor([[1, -1, 2]], scale=0.25)
    out = QParams(0.5, dtype=qint8)
    with runway("generic"):
        found = md.which(md.linear, x, w, out=out)
        assert (found.kernel, found.isa) == ("gemm_u8s8u8", "generic")
        with md.traced() as calls:
            md.linear(x, w, out=out)
            md.linear(x, w)
    kernels = [(call.kernel, call.isa) for call in calls if call.depth == 0]
    assert kernels == [("gemm_u8s8u8", "generic"), ("gemm_u8s8s32", "generic")]


def test_types_are_tried_in_the_context_that_asks() -> None:
    types = md.linear, QUInt8Tensor, QInt8Tensor
    own = md.which(*types).isa
    with runway("generic"):
        assert md.which(*types).isa == "generic"
        assert md.linear.select(*types[1:]).isa == "generic"
    assert md.which(*types).isa == own
    with md.promotion_rules("strict"):
        assert md.which(md.add, md.Float32Tensor, md.Int8Tensor).is_refusal
    assert not md.which(md.add, md.Float32Tensor, md.Int8Tensor).is_refusal


def test_a_refusal_says_why() -> None:
    mixed = md.which(md.add, QInt8Tensor, md.Float32Tensor)
    assert mixed.method.is_refusal and mixed.is_refusal and mixed.kernel is None
    assert "quantized and float operands do not have a common type" in str(mixed)
    there = md.which(md.add, md.CudaFloat32Tensor, md.CudaFloat32Tensor)
    assert there.is_refusal and not there.method.is_refusal
    assert isinstance(there.error, md.DeviceError)
    assert md.which(md.add, md.BoolTensor, md.BoolTensor).is_refusal
    shapes = md.which(md.add, floats(2), floats(3))
    assert isinstance(shapes.error, md.ShapeError) and not shapes.is_refusal


def test_values_are_not_written_to() -> None:
    x = floats(3)
    found = md.which(md.setitem, x, key=0, value=md.asarray(5, dtype=md.int8))
    assert found.kernel == "kernels.numpy.indexing.setitem"
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_a_sequence_is_given_as_a_list_or_one_by_one() -> None:
    x, y = floats(2), floats(2, dtype=md.int8)
    found = md.which(md.concat, [x, y], axis=0)
    assert found == md.which(md.concat, x, y)
    assert found.result == md.TensorSpec(md.Float32Tensor, (4,))


def test_a_trial_is_not_traced() -> None:
    q, w = QInt8Tensor([[1, 2]], scale=0.5), QInt8Tensor([[1], [2]], scale=0.5)
    with md.traced() as calls:
        assert md.which(md.matmul, q, w).result is not None
    assert calls == []


def test_rounding_does_not_take_the_fast_path() -> None:
    x = floats(2)
    refused = md.which(md.add, x, x, out=QParams(0.5))
    assert isinstance(refused.error, md.OptionError)
    assert refused.function is refused.method.implementation
    with pytest.raises(md.OptionError, match="add does not take the option axis"):
        md.which(md.add, x, x, axis=1)


def test_a_profiler_stays_and_compiled_kernels_are_still_seen() -> None:
    x = QInt8Tensor([1, 2], scale=0.5)
    found = md.which(md.add, x, x, out=QParams(0.5))
    entered, _ = ran(lambda: found.trial)
    assert found.kernel == "add_u8u8u8"
    assert found.function.__code__ in entered
    assert sys.getprofile() is None


def test_the_former_keyword_warns_and_works() -> None:
    with md.registry.restored():

        @md.generic
        def twice(x: Any, /) -> Any:
            """Declared here."""

        with pytest.warns(DeprecationWarning, match="specialize= is now fast_path="):

            @md.method(twice, specialize=lambda kind: lambda x: "fast")
            def twice(x: md.NumericTensor, /) -> Any:
                return "slow"

        assert twice(floats(1)) == "fast"
