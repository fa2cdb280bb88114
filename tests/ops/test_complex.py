"""Arithmetic of a complex with a real operand, by the array API's tables."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

import mdtensor as md

PARTS = [0.0, -0.0, 1.5, -2.0, math.inf, -math.inf, math.nan]
PAIRS = list(itertools.product(PARTS, PARTS, PARTS))
Z = md.asarray([complex(a, b) for a, b, _ in PAIRS], dtype=md.complex128)
C = md.asarray([c for _, _, c in PAIRS], dtype=md.float64)
A, B, REAL = Z.buffer.real, Z.buffer.imag, C.buffer


def same(found: Any, real: Any, imag: Any) -> None:
    """Compare both parts, with the signs of zeros."""
    for part, wanted in ((found.buffer.real, real), (found.buffer.imag, imag)):
        np.testing.assert_array_equal(part, wanted)
        is_known = ~np.isnan(wanted)
        signs = (np.signbit(x)[is_known] for x in (part, wanted))
        np.testing.assert_array_equal(*signs)


@pytest.mark.filterwarnings("ignore")
def test_every_pair_of_special_numbers() -> None:
    same(Z + C, A + REAL, B)
    same(C + Z, A + REAL, B)
    same(Z - C, A - REAL, B)
    same(C - Z, REAL - A, -B)
    same(Z * C, A * REAL, B * REAL)
    same(C * Z, A * REAL, B * REAL)
    same(Z / C, A / REAL, B / REAL)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("c", [0.0, -0.0, 2.5, -math.inf, math.nan, 3, True])
def test_python_numbers_are_real(c: Any) -> None:
    one = np.float64(c)
    same(Z * c, A * one, B * one)
    same(c - Z, one - A, -B)
    same(Z + c, A + one, B)
    same(Z / c, A / one, B / one)


def test_types_shapes_and_in_place() -> None:
    z = md.asarray([[1j], [2 + 0j]], dtype=md.complex64)
    for dtype in (md.int8, md.bfloat16, md.float16, md.float32):
        found = z * md.asarray([2, 3], dtype=dtype)
        assert (found.dtype, found.shape) == (md.complex64, (2, 2))
        assert found.tolist() == [[2j, 3j], [4, 6]]
    assert (z * md.asarray([1.0], dtype=md.float64)).dtype is md.complex128
    z *= 2.0
    assert z.tolist() == [[2j], [4]]
    outer = md.linalg.outer(md.asarray([complex(math.inf, 1)]), md.asarray([2.0]))
    assert outer.tolist() == [[complex(math.inf, 2)]]


def test_the_sign_of_a_zero_selects_the_branch() -> None:
    z = md.asarray([complex(-4, -0.0)], dtype=md.complex128)
    for same_number in (z + 0.0, z - 0.0, z * 1.0, z / 1.0):
        assert md.sqrt(same_number).tolist() == [-2j]
        assert md.log(same_number).buffer.imag.tolist() == [-math.pi]


def test_expm1_of_zeros() -> None:
    zeros = [complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)]
    found = md.expm1(md.asarray(zeros, dtype=md.complex128))
    same(found, np.zeros(4), np.asarray([0.0, -0.0, 0.0, -0.0]))
