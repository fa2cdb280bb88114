"""Eager calls of float32 functions have the bytes of steps, wherever elements lie."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mdtensor as md
from mdtensor.kernels.cpu import float_calls, isa
from mdtensor.kernels.cpu.generic import opcodes
from mdtensor.kernels.cpu.program.elementwise import Elementwise, Instruction
from mdtensor.kernels.cpu.program.floats import Normalize, Softmax
from mdtensor.kernels.cpu.program.program import Program
from mdtensor.kernels.cpu.program.reductions import LogSoftmax
from mdtensor.kernels.numpy.threads import ThreadPool

OPERATIONS: dict[str, Any] = {
    name: getattr(md, name.removesuffix("_tanh")) for name in float_calls.MAPS
} | {"softplus": md.softplus}
COUNT = 2_000 if isa.IS_JIT_DISABLED else 200_000
#: Bits of float32 all over, and numbers where functions change.
EVERY = np.concatenate(
    [
        np.linspace(0, 2**32 - 1, COUNT).astype(np.uint32).view(np.float32),
        np.linspace(-120, 120, COUNT, dtype=np.float32),
        np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45]),
    ]
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def raw(x: Any) -> Any:
    x = np.asarray(x)
    return x.shape, np.where(np.isnan(x), np.float32(np.nan), x).tobytes()


def call(name: str, x: Any) -> Any:
    options = {"approximate": "tanh"} if name.endswith("_tanh") else {}
    return OPERATIONS[name](md.from_numpy(x), **options)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_call_has_the_bytes_of_a_step(name: str) -> None:
    # The numbers of softplus; others read none.
    one = Instruction(getattr(opcodes, name.upper()), low=1.0, high=20.0)
    step = Elementwise(one)
    assert raw(call(name, EVERY)) == raw(step(EVERY))


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_element_is_computed_alone(name: str) -> None:
    x = np.random.default_rng(1).normal(size=(6, 5, 7)).astype(np.float32)
    wanted = np.asarray(call(name, x.reshape(-1))).reshape(x.shape)
    fixed = x.copy()
    fixed.flags.writeable = False
    for at in (x, fixed, x.T.copy().T, x.transpose(1, 0, 2).copy().transpose(1, 0, 2)):
        assert raw(call(name, at)) == raw(wanted)
    assert raw(call(name, x[::-1, ::2])) == raw(wanted[::-1, ::2])
    assert raw(call(name, x.T)) == raw(wanted.T)
    assert raw(call(name, x[1, 2, 3])) == raw(wanted[1, 2, 3])
    assert call(name, x[:, :0]).shape == (6, 0, 7)
    assert x.tobytes() == fixed.tobytes()


@pytest.mark.compiled
@pytest.mark.parametrize("name", OPERATIONS)
def test_large_arrays_on_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.resize(EVERY, (1 << 20) + 77)
    wanted = raw(np.resize(np.asarray(call(name, EVERY)), x.size))
    for threads in (1, 2, 3):
        monkeypatch.setattr(float_calls, "POOL", ThreadPool(threads))
        assert raw(call(name, x)) == wanted


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 1, 33), (1, 70, 1), (1, 1, 1)])
def test_softmax_has_the_bytes_of_a_step(shape: tuple[int, ...], axis: int) -> None:
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32) * 30
    x[0, 0, 0] = -np.inf
    step = Softmax(axis % 3 - 3)
    for at in (x, x.T.copy().T):
        assert raw(md.softmax(md.from_numpy(at), axis=axis)) == raw(step(x))
    assert md.softmax(md.zeros((0, 3)), axis=0).shape == (0, 3)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    "shape",
    [
        *[(3, 4, 5), (2, 1, 33), (1, 150, 1), (1, 1, 1)],
        pytest.param((2, 140, 300), marks=pytest.mark.compiled),
    ],
)
def test_log_softmax_has_the_bytes_of_its_steps(
    shape: tuple[int, ...], axis: int
) -> None:
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32) * 30
    x[0, 0, 0] = -np.inf
    program = Program()
    given = program.input(shape, x.dtype)
    run = program.build([program.append(LogSoftmax(axis), given)])
    for at in (x, x.T.copy().T):
        found = md.log_softmax(md.from_numpy(at), axis=axis)
        assert raw(found) == raw(run(x)[0])
    assert md.log_softmax(md.zeros((0, 3)), axis=0).shape == (0, 3)


def test_log_softmax_of_special_rows() -> None:
    rows = np.float32([[np.inf, 1, 2], [np.nan, 1, 2], [-np.inf] * 3, [5, -np.inf, 5]])
    found = np.asarray(md.log_softmax(md.from_numpy(rows), axis=1))
    assert np.isnan(found[:3]).all()
    assert found[3].tolist() == [
        -np.log(np.float32(2)),
        -np.inf,
        -np.log(np.float32(2)),
    ]
    columns = np.asarray(md.log_softmax(md.from_numpy(rows.T.copy()), axis=0)).T
    assert raw(columns) == raw(found)


@pytest.mark.compiled
@pytest.mark.parametrize("axis", [0, 1])
def test_log_softmax_is_near_float64(axis: int) -> None:
    x = np.random.default_rng(4).normal(size=(700, 300)).astype(np.float32) * 5
    wide = x.astype(np.float64)
    wanted = wide - np.logaddexp.reduce(wide, axis=axis, keepdims=True)
    found = np.asarray(md.log_softmax(md.from_numpy(x), axis=axis))
    # A rounding of x - most, of the logarithm, and of their difference.
    assert (abs(found - wanted) <= 3 * np.spacing(np.float32(40))).all()


@pytest.mark.parametrize("is_centered", [True, False])
@pytest.mark.parametrize("has_weight", [True, False])
def test_norms_have_the_bytes_of_steps(is_centered: bool, has_weight: bool) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(3, 2, size=(4, 5, 6)).astype(np.float32)
    weight, bias = rng.normal(size=(2, 5, 6)).astype(np.float32)
    given = [md.from_numpy(a) if has_weight else None for a in (weight, bias)]
    arrays = [a.reshape(-1) if has_weight else None for a in (weight, bias)]
    if not is_centered:
        given, arrays[1] = given[:1], None
    norm = md.layer_norm if is_centered else md.rms_norm
    found = norm(md.from_numpy(x.T.copy().T), *given, normalized_shape=(5, 6), eps=0.1)
    step = Normalize(30, is_centered, 0.1, *arrays)
    assert raw(found) == raw(step(x.reshape(4, 30)).reshape(x.shape))
    assert (
        norm(md.zeros((0, 3)), *[None] * len(given), normalized_shape=3).shape[1] == 3
    )
