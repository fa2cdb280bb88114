"""Shadow tensors: the bytes of a call without shadows, and a float64 reference."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.draws import DRAWS
from support.planted import chain, images, narrowed
from support.samples import call, sample

import mdtensor as md
from mdtensor import quant
from mdtensor.errors import (
    BudgetError,
    MdtensorError,
    OptionError,
    ShapeError,
    WriteError,
)
from mdtensor.quant.shadows import ShadowTensor

#: They write, move, or leave elements as they are in memory.
WRITERS = ("to", "setitem", "empty_like")
#: They take float32 alone, and the reference of a shadow is float64.
OF_FLOAT32 = ("dynamic_matmul", "dynamic_conv2d", "dynamic_lstm")
LEFT_OUT = (*WRITERS, *OF_FLOAT32)
OPERATIONS = [op for op in md.operations().values() if op.__name__ not in LEFT_OUT]
GRID = quant.QParams(0.05)
RNG = np.random.default_rng(5)
X = md.asarray(RNG.normal(size=(3, 8)).astype("f4"))
W = md.asarray(RNG.normal(size=(4, 8)).astype("f4"))


def shadowed(value: Any) -> Any:
    """The same arguments with shadow tensors for floats and codes."""
    if isinstance(value, md.Tensor):
        try:
            return quant.shadow(value)
        except OptionError:
            return value
    if type(value) in (tuple, list):
        return type(value)(map(shadowed, value))
    return value


def call_with_shadows(operation: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """The call with shadow tensors; those of arguments lend theirs to options."""
    given = shadowed(tuple(arguments))
    if any(one is not other for one, other in zip(given, arguments, strict=True)):
        # A call writes into `out`, which shadows refuse.
        options = {n: v if n == "out" else shadowed(v) for n, v in options.items()}
    return call(operation, given, options)


def outcome(run: Any) -> Any:
    """Types, shapes, bytes and grids of the values; the class of an error."""
    try:
        found = run()
    except MdtensorError as error:
        return type(error)
    parts = found if isinstance(found, (tuple, list)) else (found,)
    return [described(part) for part in parts]


def described(x: Any) -> Any:
    x = x.value if isinstance(x, ShadowTensor) else x
    if not isinstance(x, md.Tensor):
        return repr(x)
    return type(x), x.shape, x.to_parts()[0][""].tobytes(), getattr(x, "qparams", None)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.__name__)
def test_a_valid_call_has_the_bytes_of_one_without_shadows(operation: Any) -> None:
    arguments, options = sample(operation)
    plain = outcome(lambda: call(operation, arguments, options))
    found = outcome(lambda: call_with_shadows(operation, arguments, options))
    assert found == plain


def in_codes(value: Any) -> Any:
    """The same arguments with codes for float32 tensors."""
    if isinstance(value, md.Float32Tensor):
        return quant.quantize(value, GRID)
    return type(value)(map(in_codes, value)) if type(value) in (tuple, list) else value


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda op: op.__name__)
def test_codes_have_the_bytes_and_errors_of_the_call_without_shadows(
    operation: Any,
) -> None:
    arguments, options = sample(operation)
    arguments = in_codes(tuple(arguments))
    grids = [{"out": quant.QParams(0.1)}] * ("out" in operation.operation.options)
    for more in ({}, *grids):
        given = {**options, **more}
        plain = outcome(lambda given=given: call(operation, arguments, given))
        found = outcome(
            lambda given=given: call_with_shadows(operation, arguments, given)
        )
        assert found == plain


@pytest.mark.parametrize("operation", DRAWS, ids=lambda op: op.__name__)
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_call_ends_as_without_shadows(operation: Any, data: Any) -> None:
    if operation.__name__ in WRITERS:
        return
    arguments, options = DRAWS[operation](data.draw)
    plain = outcome(lambda: call(operation, arguments, options))
    found = outcome(lambda: call_with_shadows(operation, arguments, options))
    assert found == plain


def test_the_reference_is_the_float64_computation() -> None:
    codes = quant.quantize(quant.shadow(X), GRID)
    weights = quant.shadow(quant.quantize(W, GRID), W)
    y = md.relu(md.linear(codes, weights, out=quant.QParams(0.1)))
    wanted = np.maximum(np.asarray(X, "f8") @ np.asarray(W, "f8").T, 0)
    np.testing.assert_allclose(np.asarray(y.reference), wanted, rtol=1e-15)
    found = np.asarray(quant.dequantize(y.value), "f8")
    error = ((found - wanted) ** 2).sum()
    assert y.sqnr == pytest.approx(10 * np.log10((wanted**2).sum() / error))


def test_a_call_below_the_limit_names_operation_line_and_decibels() -> None:
    x = quant.shadow(X, min_sqnr=20)
    y = quant.quantize(x, GRID)
    with pytest.raises(BudgetError) as caught:
        md.add(y, y, out=quant.QParams(1.5))
    text = str(caught.value)
    line = caught.traceback[0].lineno + 1
    assert text.startswith(f"add at {__file__}:{line} returns")
    codes = quant.quantize(quant.shadow(X), GRID)
    worse = md.add(codes, codes, out=quant.QParams(1.5))
    assert f"SQNR of {worse.sqnr:.1f} dB, less than 20 dB" in text
    assert f"arguments have {y.sqnr:.1f}, {y.sqnr:.1f} dB" in text


def test_the_largest_limit_is_handed_on() -> None:
    low, high = quant.shadow(X, min_sqnr=10), quant.shadow(X, min_sqnr=25)
    assert (low + high).min_sqnr == (high * 2).min_sqnr == 25
    assert (quant.shadow(X) + low).min_sqnr == 10


def test_choices_follow_the_value() -> None:
    x = quant.shadow(md.asarray([1.0, 2.0]), md.asarray([2.5, 2.0]))
    assert type(md.argmax(x)) is md.Int64Tensor
    assert int(md.argmax(x)) == 1
    assert (x > 1.5).tolist() == [False, True]
    picked = md.where(x > 1.5, x, 0.0)
    assert picked.tolist() == [0.0, 2.0]
    assert picked.reference.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("dtype", [md.float16, md.bfloat16, md.float32])
def test_floats_have_shadows_too(dtype: Any) -> None:
    x = quant.shadow(md.astype(X, dtype), X)
    y = md.exp(x) / 3
    assert type(y.value).dtype is dtype
    wanted = np.exp(np.asarray(X, "f8")) / 3
    np.testing.assert_allclose(np.asarray(y.reference), wanted, rtol=1e-15)
    bits = {md.float16: 11, md.bfloat16: 8, md.float32: 24}[dtype]
    # Uniform errors of half a unit: 6 dB a bit, less what exp amplifies.
    assert 6 * bits - 12 < y.sqnr < 6 * bits + 20


def test_infinities_and_nan_of_both_are_no_error() -> None:
    x = md.asarray([1.0, float("inf"), float("nan"), -float("inf")])
    assert quant.shadow(x).sqnr == float("inf")
    other = md.asarray([1.0, 2.0, float("nan"), -float("inf")])
    assert quant.shadow(x, other).sqnr == float("-inf")
    assert quant.shadow(md.asarray([0.0]), md.asarray([0.0])).sqnr == float("inf")
    assert quant.shadow(md.asarray([0.5]), md.asarray([0.0])).sqnr == float("-inf")


def test_moving_copying_and_writing() -> None:
    x = quant.shadow(X, md.astype(X, md.float64) + 1e-3, min_sqnr=20)
    assert x.to("shadow") is x
    assert x.to("cpu") is x.value
    assert X.to("shadow").reference.dtype is md.float64
    for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert (again.sqnr, again.min_sqnr) == (x.sqnr, 20)
        assert not np.shares_memory(again.value.buffer, x.value.buffer)
        assert type(again) is type(x)
    with pytest.raises(WriteError, match="Use the result"):
        x[0] = 1
    with pytest.raises(WriteError):
        md.add(x, x, out=md.zeros_like(X))


def test_bad_arguments_are_named() -> None:
    for value in (md.asarray([1]), [1.0], X.to("lazy")):
        with pytest.raises(OptionError, match="not a host tensor of floats or codes"):
            quant.shadow(value)
    with pytest.raises(OptionError, match="not a tensor of floats"):
        quant.shadow(X, md.asarray([1]))
    with pytest.raises(ShapeError, match=r"\(3, 8\).*\(2,\)"):
        quant.shadow(X, md.zeros((2,)))
    with pytest.raises(OptionError, match=r"min_sqnr must be a .* 'a'"):
        quant.shadow(X, min_sqnr="a")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="min_sqnr is nan"):
        quant.shadow(X, min_sqnr=float("nan"))
    with pytest.raises(OptionError, match="min_sqnr is nan"):
        model, small, _ = two_models()
        quant.ShadowModel(model, small, min_sqnr=float("nan"))
    assert quant.shadow(X, min_sqnr=np.float32(3)).min_sqnr == 3.0
    with pytest.raises(BudgetError, match="shadow at"):
        quant.shadow(X, X + 1, min_sqnr=20)


def test_compiled_functions_run_call_by_call() -> None:
    def function(x: Any) -> Any:
        return md.relu(quant.quantize(x * 2, GRID)), md.sum(x)

    compiled = md.compile(function)
    wanted = function(quant.shadow(X))
    for _ in range(3):
        found = compiled(quant.shadow(X))
        for one, other in zip(found, wanted, strict=True):
            assert repr(one) == repr(other)
            assert one.sqnr == other.sqnr
            assert one.reference.tolist() == other.reference.tolist()
    plain = compiled(X)[0]
    assert plain.codes.tolist() == wanted[0].codes.tolist()


def two_models(change: Any = None) -> tuple[Any, Any, list[Any]]:
    """A float model, its quantized model, and samples."""
    model = chain(4, change)
    samples = images(12, 4)
    return model, model.quantize(model.calibrate(samples)), samples


def test_a_model_has_quantized_bytes_and_float_references() -> None:
    model, small, samples = two_models()
    y = quant.ShadowModel(model, small)(samples[0])
    np.testing.assert_array_equal(np.asarray(y.value), np.asarray(small(samples[0])))
    wanted = np.asarray(model(samples[0]))
    np.testing.assert_allclose(np.asarray(y.reference), wanted, rtol=1e-5, atol=1e-6)
    noise = quant.compare(model, small, samples[:1])
    assert y.sqnr == pytest.approx(noise.sqnr, abs=0.01)


def test_every_value_of_a_model_is_that_of_its_float_model() -> None:
    model, small, samples = two_models()
    seen: dict[str, Any] = {}
    quant.ShadowModel(model, small).run({"x": samples[1]}, seen.__setitem__)
    found = quant.compare(model, small, samples[1:2])
    errors = {node.node: node.accumulated for node in found.nodes}
    by_node = {node.name: node.output for node in small.graph.nodes}
    for name, accumulated in errors.items():
        assert seen[by_node[name]].sqnr == pytest.approx(accumulated, abs=0.01)


def test_a_planted_bad_layer_stops_the_model_and_is_named() -> None:
    model, good, samples = two_models()
    quant.ShadowModel(model, good, min_sqnr=20)(samples[0])
    seen = model.calibrate(samples)
    bad = model.quantize(narrowed(seen, "r2"))
    with pytest.raises(BudgetError) as caught:
        quant.ShadowModel(model, bad, min_sqnr=20)(samples[0])
    text = str(caught.value)
    assert text.startswith("node 'conv2' (conv2d) has a result with an SQNR of ")
    assert "keep_float=['conv2']" in text


def test_a_model_needs_its_float_model() -> None:
    model, small, _ = two_models()
    with pytest.raises(OptionError, match="small is"):
        quant.ShadowModel(model, 3)  # type: ignore[arg-type]
    with pytest.raises(md.DataError, match="x"):
        quant.ShadowModel(model, small)()
