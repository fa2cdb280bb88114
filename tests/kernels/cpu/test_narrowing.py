"""Roundings to float16 and bfloat16, against the casts of NumPy and ml_dtypes."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdtensor.kernels.cpu.generic import opcodes as ops
from mdtensor.kernels.cpu.generic.narrowing import nearest_bfloat16, nearest_float16
from mdtensor.kernels.cpu.program import floats
from mdtensor.kernels.cpu.program.program import Program

KINDS = {ops.TO_FLOAT16: np.float16, ops.TO_BFLOAT16: ml_dtypes.bfloat16}
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Let uncompiled kernels wrap and make NaN as compiled ones do."""
    with np.errstate(all="ignore"):
        yield


def rounded(kind: int, x: Any) -> Any:
    program = Program()
    slot = program.input(x.shape, np.float32)
    step = floats.Elementwise(floats.Instruction(kind))
    return program.build([program.append(step, slot)])(x)[0]


def same(x: Any, y: Any) -> bool:
    both = np.isnan(x) & np.isnan(y)
    return bool((both | (x.view(np.uint32) == y.view(np.uint32))).all())


def cast(kind: int, x: Any) -> Any:
    with np.errstate(all="ignore"):
        return x.astype(KINDS[kind]).astype(np.float32)


@each_kind
def test_a_few_patterns_of_bits(kind: int) -> None:
    rng = np.random.default_rng(9)
    x = rng.integers(0, 1 << 32, 500, dtype=np.uint32).view(np.float32)
    assert same(rounded(kind, x), cast(kind, x))


@pytest.mark.compiled
@each_kind
def test_every_number_its_neighbours_and_every_midpoint(kind: int) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(KINDS[kind]).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    middle = ((every[:-1].astype(np.float64) + every[1:]) / 2).astype(np.float32)
    middle = np.append(middle, every[-1:] * np.float32(1.0003))
    both = np.concatenate([every, middle])
    up, down = (
        np.nextafter(both, np.float32(np.inf)),
        np.nextafter(both, -np.float32(np.inf)),
    )
    x = np.concatenate([both, up, down])
    assert same(rounded(kind, x), cast(kind, x))


@pytest.mark.compiled
@each_kind
@pytest.mark.parametrize("seed", range(4))
def test_a_million_patterns_of_bits(kind: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(np.float32)
    assert same(rounded(kind, x), cast(kind, x))


@pytest.mark.slow
@each_kind
def test_every_float32(kind: int) -> None:
    size = 1 << 22
    for first in range(0, 1 << 32, size):
        x = np.arange(first, first + size, dtype=np.uint64).astype(np.uint32)
        x = x.view(np.float32)
        assert same(rounded(kind, x), cast(kind, x)), hex(first)


@each_kind
def test_nan_keeps_its_sign_and_upper_bits_and_is_quiet(kind: int) -> None:
    bits = np.uint32([0x7F800001, 0xFFABCDEF, 0x7FFFFFFF, 0xFF812345])
    kept = 13 if kind == ops.TO_FLOAT16 else 16
    wanted = (bits >> kept << kept) | 0x400000
    assert (
        rounded(kind, bits.view(np.float32)).view(np.uint32).tolist() == wanted.tolist()
    )


def test_the_functions_run_uncompiled() -> None:
    found = [f(np.float32(0.1)) for f in (nearest_float16, nearest_bfloat16)]
    assert found == [np.float32(np.float16(0.1)), np.float32(ml_dtypes.bfloat16(0.1))]
