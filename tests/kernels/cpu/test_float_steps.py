"""Steps on float32: equal to float64 within rounding, of one value on every ISA."""

from collections.abc import Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from mdtensor.kernels.cpu import isa, kernel_set
from mdtensor.kernels.cpu.generic import activation, opcodes as ops
from mdtensor.kernels.cpu.program import floats, kinds
from mdtensor.kernels.cpu.program.fuse import fuse
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.threads import split
from mdtensor.kernels.cpu.threads.pool import run_alone
from mdtensor.kernels.numpy.conv import windows, with_border

Instruction = floats.Instruction
#: ISAs whose kernels of floats this CPU runs.
HAS_AVX2 = not (isa.IS_JIT_DISABLED or isa.lacking("avx2", isa.FEATURES))
ISAS = ["generic", *["avx2"] * HAS_AVX2]
SPECIAL = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, -3.0, 3.0])


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Let uncompiled kernels overflow as compiled ones do."""
    with np.errstate(all="ignore"):
        yield


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def on(name: str, make: Any) -> Any:
    return kernel_set.make_on(kernel_set.kernels(name), make)


def same(x: Any, y: Any) -> bool:
    """Return whether both have the same bytes; NaNs are equal."""
    both = np.isnan(x) & np.isnan(y)
    return bool((both | (x.view(np.uint32) == y.view(np.uint32))).all())


def convolved(x: Any, w: Any, b: Any, options: Any) -> Any:
    """Compute a convolution of [n, h, w, c] in float64."""
    pad, groups = options.get("padding", (0,) * 4), options.get("groups", 1)
    wide = with_border(x.transpose(0, 3, 1, 2).astype(np.float64), pad, 0)
    stride, dilation = options.get("stride", (1, 1)), options.get("dilation", (1, 1))
    seen = windows(wide, w.shape[2:], stride, dilation)
    n, c, *rest = seen.shape
    parts = seen.reshape(n, groups, c // groups, *rest)
    filters = w.reshape(groups, len(w) // groups, *w.shape[1:]).astype(np.float64)
    y = np.einsum("ngcpqij,gocpq->nijgo", parts, filters)
    return y.reshape(*y.shape[:3], -1) + b


CONVOLUTIONS: dict[str, Any] = {
    "pointwise": ((2, 5, 7, 6), (16, 6, 1, 1), {}),
    "few columns": ((1, 5, 9, 6), (5, 6, 1, 1), {}),
    "half a panel": ((1, 5, 9, 6), (24, 6, 1, 1), {}),
    "one vector": ((1, 5, 9, 7), (8, 7, 1, 1), {}),
    "long sums": ((1, 1, 5, 1300), (40, 1300, 1, 1), {}),
    "dense": ((2, 9, 8, 3), (10, 3, 3, 3), {"padding": (1, 1, 1, 1)}),
    "windows": ((2, 9, 8, 5), (16, 5, 3, 3), {"padding": (1, 1, 1, 1)}),
    "windows, uneven": ((1, 8, 6, 3), (40, 3, 2, 5), {"padding": (0, 3, 1, 0)}),
    "windows, strides": (
        *((1, 19, 23, 4), (32, 4, 3, 3)),
        {"padding": (1, 2, 0, 1), "stride": (2, 3)},
    ),
    "windows, dilated": ((1, 9, 8, 3), (16, 3, 3, 2), {"dilation": (2, 1)}),
    "windows, groups": (
        *((2, 6, 7, 6), (32, 3, 3, 3)),
        {"groups": 2, "padding": (1,) * 4},
    ),
    "windows, long sums": ((1, 3, 4, 350), (32, 350, 3, 3), {}),
    "windows, all padding": ((1, 2, 2, 3), (16, 3, 1, 3), {"padding": (2, 5, 2, 6)}),
    "uneven": ((1, 9, 8, 3), (10, 3, 2, 3), {"padding": (1, 0, 0, 2)}),
    "strides": ((1, 9, 8, 4), (6, 4, 1, 1), {"stride": (2, 3)}),
    "groups": ((2, 6, 6, 6), (8, 3, 3, 3), {"groups": 2, "padding": (1,) * 4}),
    "wide lines": ((1, 1, 700, 9), (7, 9, 1, 3), {"padding": (0, 1, 0, 1)}),
    "depthwise": ((2, 9, 15, 20), (20, 1, 3, 3), {"groups": 20, "padding": (1,) * 4}),
    "depthwise, few channels": ((1, 6, 6, 5), (5, 1, 3, 3), {"groups": 5}),
    "depthwise 5x5": (
        *((1, 14, 14, 9), (9, 1, 5, 5)),
        {"groups": 9, "padding": (2,) * 4, "stride": (2, 2)},
    ),
    "depthwise, dilated": (
        *((1, 9, 9, 8), (8, 1, 3, 3)),
        {"groups": 8, "padding": (2,) * 4, "dilation": (2, 2)},
    ),
    "depthwise 2x7": ((1, 9, 9, 8), (8, 1, 2, 7), {"groups": 8, "stride": (1, 3)}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    shape, weights, options = CONVOLUTIONS[name]
    x, w, b = normal(*shape), normal(*weights, seed=1), normal(weights[0], seed=2)
    found = [on(isa, lambda: floats.Conv2d(w, b, **options))(x) for isa in ISAS]
    wanted = convolved(x, w, b, options)
    bound = convolved(abs(x), abs(w), abs(b), options)
    terms = w[0].size + 1
    assert (abs(found[0] - wanted) <= terms * 2.0**-24 * bound).all()
    assert all(same(found[0], other) for other in found[1:])


@pytest.mark.parametrize("name", [n for n in CONVOLUTIONS if n.startswith("windows")])
def test_windows_give_the_bytes_of_im2col(name: str) -> None:
    shape, weights, options = CONVOLUTIONS[name]
    x, w = normal(*shape), normal(*weights, seed=1)
    for name_of_isa in ISAS:
        own = kernel_set.kernels(name_of_isa)
        plain = SimpleNamespace(**vars(own) | {"MULTIPLIES_WINDOWS": False})
        made = [kernel_set.make_on(on, lambda: floats.Conv2d(w, **options))
                for on in (own, plain)]  # fmt: skip
        expected = kinds.WINDOWS_F32 if own.MULTIPLIES_WINDOWS else made[1].kind
        assert made[0].kind == expected and made[1].kind == kinds.CONV_F32
        assert same(made[0](x), made[1](x))


@pytest.mark.compiled
@given(
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(0, 5),
    st.booleans(),
    st.integers(0, 99),
)
def test_products_have_one_value_on_every_isa(
    m: int, k: int, n: int, kind: int, adds: bool, seed: int
) -> None:
    a, w, y = normal(1, 1, m, k, seed=seed), normal(n, k, 1, 1), normal(1, 1, m, n)
    a.reshape(-1)[:: max(1, a.size // 3)] = np.resize(SPECIAL, a.size)[: a.size][
        :: max(1, a.size // 3)
    ]
    after = [Instruction(ops.ADD, 0, 1)] if adds else []
    after.append(Instruction(kind, 4 if adds else 0, low=0.25, high=0.75))

    def build() -> Any:
        program = Program()
        inputs = [program.input(x.shape, np.float32) for x in (a, y)]
        sums = program.append(floats.Conv2d(w, normal(n)), inputs[0])
        slots = (sums, inputs[1]) if adds else (sums,)
        return program.build([program.append(floats.Elementwise(*after), *slots)])

    found = [on(isa, build)(a, y)[0] for isa in ISAS]
    made = on("generic", build)
    assert made.done_by == [0, 0] and same(made.values(a, y)[-1], found[0])
    assert all(same(found[0], other) for other in found[1:])


def formulas(x: Any, low: Any, high: Any) -> dict[int, Any]:
    zero, one = np.float32(0), np.float32(1)
    line = np.minimum(np.maximum(x * low + high, zero), one)
    part = np.minimum(np.maximum(x + np.float32(3), zero), np.float32(6))
    return {
        activation.KEEP: x,
        activation.RELU: np.maximum(x, zero),
        activation.CLAMP: np.minimum(np.maximum(x, low), high),
        activation.LEAKY_RELU: np.maximum(x, x * low),
        activation.HARDSIGMOID: line,
        activation.HARDSWISH: np.where(x == -np.inf, -zero, x * (part / np.float32(6))),
    }


@pytest.mark.parametrize("kind", range(6))
def test_activations_round_as_numpy(kind: int) -> None:
    x = np.concatenate([SPECIAL, normal(2000) * 4])
    low, high = np.float32(0.125), np.float32(0.5)
    with np.errstate(all="ignore"):
        wanted = formulas(x, low, high)[kind]
    found = floats.Elementwise(Instruction(kind, low=low, high=high))(x)
    assert np.array_equal(found, wanted, equal_nan=True)


UNARY: dict[int, Any] = {
    ops.NEGATIVE: np.negative,
    ops.ABS: np.abs,
    ops.SQRT: np.sqrt,
    ops.SQUARE: np.square,
    ops.RECIPROCAL: lambda x: np.float32(1) / x,
    ops.ADD_NUMBER: lambda x: x + np.float32(0.3),
    ops.MUL_NUMBER: lambda x: x * np.float32(0.3),
    ops.DIV_NUMBER: lambda x: x / np.float32(0.3),
    ops.SUB_FROM: lambda x: np.float32(0.3) - x,
    ops.DIV_INTO: lambda x: np.float32(0.3) / x,
}
BINARY: dict[int, Any] = {
    ops.ADD: np.add,
    ops.SUB: np.subtract,
    ops.MUL: np.multiply,
    ops.DIV: np.divide,
    ops.MAXIMUM: np.maximum,
    ops.MINIMUM: np.minimum,
}


@pytest.mark.parametrize("number", [*UNARY, *BINARY])
def test_operations_round_as_numpy(number: int) -> None:
    x = np.concatenate([np.repeat(SPECIAL, 9), normal(1500)])
    y = np.concatenate([np.tile(SPECIAL, 9), normal(1500, seed=1)])
    step = floats.Elementwise(Instruction(number, 0, 1, low=0.3))
    with np.errstate(all="ignore"):
        is_binary = number in BINARY
        wanted = BINARY[number](x, y) if is_binary else UNARY[number](x)
    found = step(x, y) if is_binary else step(x)
    assert np.array_equal(found, wanted, equal_nan=True)


def ulps(found: Any, wanted: Any) -> Any:
    """Return errors in units of the last place of float32."""
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    return np.abs(found - wanted) / unit


def test_exp_and_sigmoid_are_near_float64() -> None:
    count = 4_000 if isa.IS_JIT_DISABLED else 400_000
    x = np.linspace(-103, 88, count, dtype=np.float32)
    power = np.exp(x.astype(np.float64))
    found = floats.Elementwise(Instruction(ops.EXP))(x)
    is_normal = power > 2.0**-126
    assert ulps(found, power)[is_normal].max() < 1.0
    assert np.abs(found - power)[~is_normal].max() <= 2.0**-149
    share = floats.Elementwise(Instruction(ops.SIGMOID))(x)
    assert ulps(share, power / (1 + power))[is_normal].max() < 3.0
    ends = np.float32([np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0])
    got = floats.Elementwise(Instruction(ops.EXP))(ends)
    assert np.array_equal(
        got, np.float32([np.inf, 0, np.nan, 1, np.inf, 0]), equal_nan=True
    )


def test_factors_of_channels() -> None:
    x, y = normal(2, 5, 3, 7), normal(2, 1, 1, 7, seed=1)
    gate = Instruction(activation.RELU, 4)
    step = floats.Elementwise(Instruction(ops.MUL, 0, 1), gate)
    assert same(step(x, y), np.maximum(x * y, np.float32(0)))


def test_pools_and_means() -> None:
    x = normal(2, 9, 8, 5)
    seen = windows(x.transpose(0, 3, 1, 2), (3, 2), (2, 2), (1, 1))
    largest = seen.max(axis=(2, 3)).transpose(0, 2, 3, 1)
    assert same(floats.MaxPool((3, 2), (2, 2))(x), largest)
    found = floats.AvgPool((3, 2), (2, 2))(x)
    wanted = seen.astype(np.float64).mean(axis=(2, 3)).transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
    wide = normal(1, 40, 50, 3) + 1
    mean = wide.astype(np.float64).mean(axis=(1, 2), keepdims=True)
    assert ulps(floats.Mean()(wide), mean).max() < 8
    bordered = floats.AvgPool((3, 3), (1, 1), (1,) * 4)(np.ones((1, 4, 4, 2), "f"))
    assert (bordered == 1).all()
    counted = floats.AvgPool((3, 3), (1, 1), (1,) * 4, count_include_pad=True)
    corner = counted(np.ones((1, 4, 4, 2), "f"))[0, 0, 0, 0]
    assert corner == np.float32(4) / np.float32(9)
    x[0, 4, 4, 2] = np.nan
    assert np.isnan(floats.MaxPool((9, 8), (1, 1))(x)[0, 0, 0, 2])


def test_softmax() -> None:
    x = np.concatenate([normal(7, 37) * 9, np.full((1, 37), -np.inf, np.float32)])
    found = floats.Softmax()(x)
    wide = np.exp((x[:7] - x[:7].max(axis=1, keepdims=True)).astype(np.float64))
    wanted = wide / wide.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[:7], wanted, rtol=1e-6, atol=1e-45)
    assert np.isnan(found[7]).all()
    for axis in (-2, -3):
        cube = normal(2, 5, 260) * 9
        wide = np.exp((cube - cube.max(axis, keepdims=True)).astype(np.float64))
        wanted = wide / wide.sum(axis, keepdims=True)
        found = floats.Softmax(axis)(cube)
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-45)
    cube[1, 2, 3] = np.nan
    assert np.isnan(floats.Softmax(-2)(cube)[1]).sum() == 5


@pytest.mark.parametrize("shape", [(2, 3, 70, 5), (1, 130, 9, 9), (1, 1, 4, 4)])
def test_orders_of_an_image(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    images = floats.Transpose(True)(x)
    assert same(images, np.ascontiguousarray(x.transpose(0, 2, 3, 1)))
    assert same(floats.Transpose(False)(images), x)


def test_products_of_two_activations() -> None:
    for a, b in [((2, 3, 5, 7), (3, 7, 18)), ((4, 9), (9, 5)), ((1, 3), (6, 3, 16))]:
        x, y = normal(*a), normal(*b, seed=1)
        found = [on(isa, floats.MatMul)(x, y) for isa in ISAS]
        wide = x.astype(np.float64) @ y
        bound = abs(x).astype(np.float64) @ abs(y)
        assert (abs(found[0] - wide) <= a[-1] * 2.0**-24 * bound).all()
        assert all(same(found[0], other) for other in found[1:])


@pytest.mark.parametrize("length", [1, 15, 16, 70])
def test_normalizations(length: int) -> None:
    x, w, b = normal(5, length) * 3 + 1, normal(length, seed=1), normal(length, seed=2)
    wide = x.astype(np.float64)
    for is_centered in (True, False):
        y = wide - wide.mean(axis=1, keepdims=True) if is_centered else wide
        y = y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5)
        for weight, bias in ((None, None), (w, None), (w, b)):
            found = floats.Normalize(length, is_centered, 1e-5, weight, bias)(x)
            wanted = y * (1 if weight is None else w) + (0 if bias is None else b)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


VIEWS: dict[str, Any] = {
    "transposed": lambda x: x.transpose(3, 1, 0, 2),
    "reversed": lambda x: x[:, ::-1, :, ::-2],
    "repeated": lambda x: np.broadcast_to(x[:, :1], (2, 5, 3, 4)),
    "rows": lambda x: x[1:, 2:4],
}


@pytest.mark.parametrize("name", VIEWS)
def test_floats_move_as_views(name: str) -> None:
    x = normal(2, 5, 3, 4)
    found = floats.Move(VIEWS[name], dtype=floats.F32)(x)
    assert same(found, np.ascontiguousarray(VIEWS[name](x)))


def test_floats_are_taken_joined_and_shuffled() -> None:
    x, places = normal(2, 5, 8), np.array([3, 4, 0, -1, 3])
    assert same(floats.Take(places, 1, floats.F32)(x), x[:, places])
    joined = floats.Concat(1, floats.F32)(x, normal(2, 1, 8))
    assert same(joined, np.concatenate([x, normal(2, 1, 8)], axis=1))
    image = normal(1, 3, 2, 8)
    parts = image.reshape(1, 3, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3)
    shuffled = floats.pixel_shuffle(2, floats.F32)(image)
    assert same(shuffled, parts.reshape(1, 6, 4, 2))
    assert same(floats.pixel_unshuffle(2, floats.F32)(shuffled), image)


STEPS: dict[str, Any] = {
    "pointwise": (lambda: floats.Conv2d(normal(24, 8, 1, 1)), (1, 30, 9, 8)),
    "images": (lambda: floats.Conv2d(normal(9, 8, 3, 3)), (4, 9, 9, 8)),
    "lines": (
        lambda: floats.Conv2d(normal(9, 8, 3, 3), stride=(2, 1), padding=(1,) * 4),
        (1, 33, 9, 8),
    ),
    "columns": (lambda: floats.Linear(normal(200, 40)), (2, 40)),
    "windows": (
        lambda: floats.Conv2d(normal(32, 8, 3, 3), stride=(2, 1), padding=(1,) * 4),
        (1, 33, 9, 8),
    ),
    "depthwise": (
        lambda: floats.Conv2d(normal(9, 1, 5, 5), groups=9, padding=(2,) * 4),
        (1, 21, 9, 9),
    ),
    "max_pool": (lambda: floats.MaxPool((3, 3), (2, 2), (1,) * 4), (1, 31, 9, 9)),
    "avg_pool": (lambda: floats.AvgPool((2, 2), (2, 2)), (3, 8, 8, 9)),
    "mean": (lambda: floats.Mean(), (4, 9, 9, 8)),
    "softmax": (lambda: floats.Softmax(), (90, 17)),
    "softmax of columns": (lambda: floats.Softmax(-2), (9, 7, 30)),
    "normalize": (lambda: floats.Normalize(17, True, 1e-5), (90, 17)),
    "moves": (lambda: floats.Move(np.transpose, dtype=floats.F32), (30, 9, 40)),
    "elementwise": (lambda: floats.Elementwise(Instruction(ops.EXP)), (90, 300)),
}


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "count"), [*product(STEPS, [2, 3, 4])])
def test_pieces_write_the_bytes_of_the_step(name: str, count: int) -> None:
    make, shape = STEPS[name]
    program, x = Program(), normal(*shape)
    slot = program.input(shape, np.float32)
    made = program.build([program.append(make(), slot)])
    layout = made._layout
    whole = np.full(layout.size, 0xA5, np.uint8)
    layout.view(whole, slot)[...] = x
    pieced = whole.copy()
    run_alone(layout.rows, whole, made._constants)
    parts = split.cut(layout.rows[0], count)
    assert 1 < len(parts) <= count
    for part in reversed(parts):
        run_alone(part.reshape(1), pieced, made._constants)
    start = layout.rows[0].scratch_bytes
    assert np.array_equal(pieced[start:], whole[start:])


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["conv", "gate"])
def test_pieces_read_the_second_input_at_their_place(kind: str) -> None:
    program, x = Program(), normal(1, 40, 9, 24)
    inputs = [program.input(x.shape, np.float32)]
    if kind == "conv":
        sums = program.append(floats.Conv2d(normal(24, 24, 1, 1)), inputs[0])
        step = floats.Elementwise(Instruction(ops.ADD, 0, 1))
        result = program.append(step, sums, inputs[0])
    else:
        inputs.append(program.input((1, 1, 1, 24), np.float32))
        step = floats.Elementwise(Instruction(ops.MUL, 0, 1))
        result = program.append(step, *inputs)
    made = program.build([result])
    arrays = [x, normal(1, 1, 1, 24, seed=1)][: len(inputs)]
    wanted = made(*arrays)[0]
    layout = made._layout
    arena = np.zeros(layout.size, np.uint8)
    for slot, array in zip(inputs, arrays, strict=True):
        layout.view(arena, slot)[...] = array
    parts = split.cut(layout.rows[0], 3)
    assert len(layout.rows) == 1 and len(parts) > 1
    for part in parts:
        run_alone(part.reshape(1), arena, made._constants)
    assert same(layout.view(arena, made.outputs[0]), wanted)


# Chains of steps: the joined program gives the bytes of all steps alone.

BINARIES = st.sampled_from([ops.ADD, ops.SUB, ops.MUL, ops.MAXIMUM])
UNARIES = st.sampled_from(
    [*range(6), ops.SIGMOID, ops.MUL_NUMBER, ops.ABS, ops.TO_FLOAT16, ops.TO_BFLOAT16]
)


@given(st.data())
def test_joined_steps_give_the_bytes_of_all(data: Any) -> None:
    program, shape = Program(), (1, 3, 4, 8)
    values = [program.input(shape, np.float32) for _ in range(2)]
    for number in range(data.draw(st.integers(1, 7))):
        x = data.draw(st.sampled_from(values[-3:]))
        which = data.draw(st.integers(0, 3))
        if which == 0:
            step = floats.Conv2d(normal(8, 8, 1, 1, seed=number) / 4, normal(8))
            values.append(program.append(step, x))
        elif which == 1:
            kernel = normal(8, 1, 3, 3, seed=number) / 4
            step = floats.Conv2d(kernel, padding=(1,) * 4, groups=8)
            values.append(program.append(step, x))
        elif which == 2:
            one = Instruction(data.draw(UNARIES), low=0.5, high=0.75)
            values.append(program.append(floats.Elementwise(one), x))
        else:
            y = data.draw(st.sampled_from(values))
            one = Instruction(data.draw(BINARIES), 0, 1)
            values.append(program.append(floats.Elementwise(one), x, y))
    outputs = [values[-1]]
    if data.draw(st.booleans()):
        outputs.append(data.draw(st.sampled_from(values[2:])))
    made = program.build(outputs)
    arrays = normal(*shape, seed=3), normal(*shape, seed=4)
    seen = dict(zip((s[3] for s in program.steps), made.values(*arrays), strict=True))
    for slot, found in zip(outputs, made(*arrays), strict=True):
        assert same(found, seen[slot])


def test_what_is_read_twice_is_not_joined() -> None:
    program = Program()
    x = program.input((4,), np.float32)
    y = program.append(floats.Elementwise(Instruction(ops.EXP)), x)
    z = program.append(floats.Elementwise(Instruction(ops.MUL, 0, 1)), y, y)
    left, done_by = fuse(program.steps, [z])
    assert list(left) == [0, 1] and done_by == [0, 1]
    assert [row[0].kind for _, row, _, _ in left.values()] == [
        kinds.ELEMENTWISE_F32
    ] * 2


MATRICES = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))


@given(MATRICES, st.sampled_from([(), (1,), (3,), (2, 1), (2, 3)]))
def test_a_constant_matrix_on_the_left(sizes: Any, batch: Any) -> None:
    m, k, n = sizes
    weight, x = normal(m, k), normal(*batch, k, n, seed=1)

    def run() -> Any:
        program = Program()
        given_ = program.input(x.shape, np.float32)
        step = floats.LeftLinear(weight)
        result = program.append(step, given_)
        assert result.shape == step.output_shape(x.shape)
        assert step.macs(x.shape) == x.size * m and step.bytes >= weight.nbytes
        return program.build([result])(x)[0]

    found = [on(name, run) for name in ISAS]
    assert all(same(one, found[0]) for one in found)
    assert np.allclose(found[0], weight.astype(np.float64) @ x, atol=1e-4)


@given(MATRICES, st.sampled_from([(1,), (2,), (2, 3)]))
def test_a_constant_stack_on_the_left(sizes: Any, stack: Any) -> None:
    m, k, n = sizes
    weight, x = normal(*stack, m, k), normal(k, n, seed=1)

    def run() -> Any:
        program = Program()
        step = floats.LeftLinear(weight)
        result = program.append(step, program.input(x.shape, np.float32))
        assert result.shape == step.output_shape(x.shape) == (*stack, m, n)
        assert step.macs(x.shape) == weight.size * n and step.bytes >= weight.nbytes
        return program.build([result])(x)[0]

    found = [on(name, run) for name in ISAS]
    assert all(same(one, found[0]) for one in found)
    assert np.allclose(found[0], weight.astype(np.float64) @ x, atol=1e-4)


@given(MATRICES, st.sampled_from([(), (1,), (2, 3)]))
def test_turned_matrices(sizes: Any, batch: Any) -> None:
    x = normal(*batch, *sizes[:2])
    assert same(np.ascontiguousarray(np.swapaxes(x, -1, -2)), floats.Turn()(x))
