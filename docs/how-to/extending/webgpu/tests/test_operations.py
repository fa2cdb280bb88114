"""Operations: the bytes of the host for all that IEEE 754 and integers decide."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host import TYPES, near, numbers, same, tensor, there, webgpu

import mdtensor as md

INTEGERS = TYPES[1:-1]
#: Special numbers of float32.
SPECIAL = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2.5, -2.5, 0.5, 1e30, 1e-40, 3.4e38],
    np.float32,
)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum"])
@pytest.mark.parametrize("type", TYPES[1:])
def test_arithmetic(name: str, type: str) -> None:
    same(getattr(md, name), tensor(type, 5, 7), tensor(type, 1, 7, seed=1))


@pytest.mark.parametrize(
    "name", ["abs", "neg", "sign", "floor", "ceil", "trunc", "round", "relu", "sqrt"]
)
def test_functions_that_ieee_decides(name: str) -> None:
    x = md.asarray(np.concatenate([SPECIAL, numbers("float32", 100)]))
    same(lambda x: _known(name, x), x)


def _known(name: str, x: Any) -> Any:
    """The function, with 9 for NaN: nobody decides the sign of a NaN."""
    return _of_known(getattr(md, name)(x))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow", "bitwise_and"])
@pytest.mark.parametrize("type", INTEGERS)
def test_integers(name: str, type: str) -> None:
    x, y = tensor(type, 60), md.asarray(np.arange(60).astype(type) % 9 + 1)
    same(getattr(md, name), x, y)
    same(md.bitwise_left_shift, x, y)
    same(md.bitwise_right_shift, x, y)
    same(md.bitwise_invert, x)


@pytest.mark.parametrize("left", TYPES)
@pytest.mark.parametrize("right", ["int8", "uint32", "float32"])
def test_comparisons_of_any_two_types_are_exact(left: str, right: str) -> None:
    x, y = tensor(left, 40), tensor(right, 40, seed=2)
    for name in ("less", "less_equal", "equal", "not_equal"):
        same(getattr(md, name), x, y)
    same(lambda x: x < 1, x)


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_casts(source: str, target: str) -> None:
    given = numbers(source, 40)
    if source == "float32":
        given = np.concatenate([SPECIAL, given * 1e4])
    for casting in ("wrap", "saturate"):
        same(lambda x, c=casting: md.astype(x, target, casting=c), md.asarray(given))


@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("values", [[-1.0, 300.0], [3.0, 0.0], [np.nan, 1e20]])
def test_casts_that_do_not_fit_raise_the_error_of_the_host(
    target: str, values: list[float]
) -> None:
    x = md.asarray(np.array(values, np.float32))
    try:
        wanted = md.astype(x, target, casting="check").tolist()
    except md.CastError as error:
        with pytest.raises(md.CastError) as found:
            md.astype(there(x), target, casting="check")
        assert str(found.value).replace("WebGpu", "") == str(error)
        return
    # By their text: NaN equals nothing.
    assert repr(md.astype(there(x), target, casting="check").tolist()) == repr(wanted)


@pytest.mark.parametrize("name", ["exp", "log", "tanh"])
def test_functions_of_the_host(name: str) -> None:
    """The same steps, each rounded once: the host's bytes, subnormals included."""
    rng = np.random.default_rng(3)
    wide = 10.0 ** rng.uniform(-44, 38, 2000) * rng.choice([-1, 1], 2000)
    x = np.concatenate([np.linspace(-110, 95, 2000), wide, SPECIAL[:4]])
    same(lambda x: _known(name, x), md.asarray(x.astype(np.float32)))


@pytest.mark.parametrize(
    "name, ulp, absolute",
    [
        *(("log2", 4, 1e-7), ("log10", 4, 1e-7), ("expm1", 8, 0), ("log1p", 8, 0)),
        *(("erf", 1, 0), ("sigmoid", 8, 0), ("silu", 8, 0), ("softplus", 16, 1e-6)),
        *(("sin", 0, 5e-4), ("cos", 0, 5e-4), ("atan", 0, 1e-5), ("sinh", 300, 1e-5)),
    ],
)
def test_functions_within_a_bound(name: str, ulp: float, absolute: float) -> None:
    x = md.asarray(np.linspace(0.01, 3.1, 500).astype(np.float32))
    near(getattr(md, name), x, ulp=ulp, absolute=absolute)


@pytest.mark.parametrize("name", ["remainder", "floor_divide"])
def test_quotients_of_floats(name: str) -> None:
    y = md.asarray(np.concatenate([SPECIAL[::-1], numbers("float32", 300, seed=1)]))
    x = md.asarray(np.concatenate([SPECIAL, numbers("float32", 300) * 1e5]))
    same(lambda x, y: _of_known(getattr(md, name)(x, y)), x, y)


def _of_known(x: Any) -> Any:
    return md.where(md.isnan(x), 9.0, x)


def test_nan_is_kept() -> None:
    """WGSL lets a compiler assume that there is no NaN; it is tested by its bits."""
    x = md.asarray(np.array([np.nan, 1.0, -np.inf, np.nan], np.float32))
    assert there(x).tolist()[1:3] == [1.0, -np.inf]
    same(md.isnan, x)
    same(lambda x: x == x, x)
    same(lambda x: md.isnan(md.maximum(x, 0.0)), x)
    same(lambda x: md.isnan(md.exp(x) + x * 2), x)
    assert np.isnan(md.max(there(x), axis=0).item())


def test_products_are_not_fused_with_sums() -> None:
    x, y, z = (tensor("float32", 4000, seed=seed) for seed in range(3))
    same(lambda x, y, z: x * y + z, x, y, z)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), -1])
@pytest.mark.parametrize("type", TYPES)
def test_reductions(type: str, axis: Any) -> None:
    x = tensor(type, 3, 70, 5)
    for name in ("any", "all"):
        same(lambda x, name=name: getattr(md, name)(x, axis=axis), x)
    if type != "bool":
        for name in ("max", "min"):
            same(lambda x, name=name: getattr(md, name)(x, axis=axis), x)
    if type == "float32":
        near(lambda x: md.sum(x, axis=axis), x, ulp=0, absolute=2e-4)
        near(lambda x: md.mean(x, axis=axis), x, ulp=0, absolute=1e-6)
        return
    for name in ("sum", "prod"):
        for dtype in ("int32", "uint32", "int8"):
            run = lambda x, n=name, d=dtype: getattr(md, n)(x, axis=axis, dtype=d)  # noqa: E731
            same(run, x)


@pytest.mark.parametrize("type", TYPES)
def test_movement(type: str) -> None:
    x = tensor(type, 2, 3, 4)
    calls: list[Callable[[Any], Any]] = [
        *(lambda x: md.permute_dims(x, (2, 0, 1)), lambda x: md.flip(x, axis=1)),
        *(lambda x: x[:, ::-2, 1:3], lambda x: md.reshape(x.mT, (6, 4))),
        *(lambda x: md.pad(x, [(1, 0)] * 3, value=1), lambda x: md.tile(x, (1, 2, 3))),
        *(lambda x: md.concat([x, x], axis=2), lambda x: md.stack([x, x], axis=2)),
        *(lambda x: md.sort(x, axis=1),) * (type != "bool"),
        lambda x: md.cumulative_sum(x, axis=1, dtype="float32"),
        lambda x: md.astype(x, type, copy=True),
    ]
    for call in calls[: None if type == "float32" else -2]:
        same(call, x)
    index = md.asarray(np.array([2, -1, 0], np.int32))
    same(lambda x, i: md.take(x, i, axis=1), x, index)


def test_float_products_round_once_for_each_term() -> None:
    x, w = tensor("float32", 6, 33), tensor("float32", 5, 33, seed=1)
    same(lambda x, w: md.linear(x, w), x, w)
    same(lambda x, w: md.matmul(x, w.T), x, w)


def test_float_products_start_from_a_bias() -> None:
    x, w, b = (tensor("float32", *n, seed=7) for n in ((6, 33), (5, 33), (5,)))
    near(md.linear, x, w, b, ulp=0, absolute=1e-4)
    image, filters = tensor("float32", 2, 3, 6, 7), tensor("float32", 5, 3, 3, 3)
    near(lambda *given: md.conv2d(*given, padding=1), image, filters, b,
         ulp=0, absolute=1e-4)  # fmt: skip
    # With whole numbers every sum is exact.
    whole = [md.round(one) for one in (x, w, b)]
    same(md.linear, *whole)


def test_softmax_and_norms() -> None:
    x, g = tensor("float32", 6, 40), tensor("float32", 40, seed=1)
    near(lambda x: md.softmax(x, axis=1), x, ulp=4)
    near(lambda x: md.log_softmax(x, axis=0), x, ulp=8, absolute=2e-6)
    near(lambda x, g: md.layer_norm(x, g, g, normalized_shape=(40,)), x, g,
         ulp=0, absolute=1e-5)  # fmt: skip
    near(lambda x, g: md.rms_norm(x, g, normalized_shape=(40,)), x, g,
         ulp=0, absolute=1e-5)  # fmt: skip
    image, ones = tensor("float32", 2, 4, 5, 5), md.asarray(np.ones(4, np.float32))
    same(lambda x, v: md.batch_norm(x, v, v * 2, v, v), image, ones)
    near(lambda x, v: md.group_norm(x, v, v, num_groups=2), image, ones,
         ulp=0, absolute=1e-5)  # fmt: skip
    same(lambda x: md.max_pool2d(x, kernel_size=2), image)


def test_a_new_operation_needs_no_code_for_the_device() -> None:
    """A fused chain that is written here runs from the same loop."""
    from mdtensor.extend import launch
    from mdtensor.kernels.loops.ir import Input, Loop, apply, load, number

    x = tensor("float32", 3, 50)
    value = load(0, "float32")
    for _ in range(10):
        value = apply("add", apply("mul", value, value), number(0.25, "float32"))
    loop = Loop((Input("float32"),), value, name="chain")
    with md.trace_device() as log:
        found = launch(webgpu, loop, (3, 50), [(x * 0.1).to(webgpu).buffer])
    assert [one.kernel for one in log.launches] == ["chain_f32"]
    wanted = np.asarray(x * 0.1)
    for _ in range(10):
        wanted = wanted * wanted + np.float32(0.25)
    assert webgpu.to_host(found).tobytes() == wanted.tobytes()
