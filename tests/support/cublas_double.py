"""A double of cuBLAS: the products of matrices by columns that mdtensor asks for."""

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

#: cudaDataType, and the sums of cublasComputeType.
TYPES = {0: np.float32, 1: np.float64, 2: np.float16, 14: ml_dtypes.bfloat16}
SUMS = {68: np.float32, 70: np.float64}


def _matrix(address: int, kind: Any, shape: tuple[int, int], line: int) -> Any:
    """Return the columns of a matrix with a leading dimension."""
    assert line >= max(shape[0], 1), (shape, line)
    item = np.dtype(kind).itemsize
    size = (line * (shape[1] - 1) + shape[0]) * item
    memory = (ctypes.c_uint8 * size).from_address(address)
    flat = np.frombuffer(memory, np.uint8).view(kind)
    return np.lib.stride_tricks.as_strided(flat, shape, (item, line * item))


def _number(address: int, kind: Any) -> Any:
    size = np.dtype(kind).itemsize
    return np.frombuffer(ctypes.string_at(address, size), kind)[0]


def install(monkeypatch: Any, stream: Any, calls: list[tuple[Any, ...]]) -> None:
    """Put the double in the place of CuPy's module.

    Args:
        stream: returns the stream with an address; a stream has `add`.
        calls: a list that gets the products.
    """
    state: dict[str, Any] = {}

    def gemm(*given: Any) -> None:
        calls.append(("gemm", *given[1:6], given[-3]))
        *_, sums, _algo = given
        # These are of the host, and read at the call.
        assert _number(given[6], SUMS[sums]) == 1
        assert _number(given[15], SUMS[sums]) == 0
        stream(state["stream"]).add(lambda: _gemm(*given))

    module = SimpleNamespace(
        create=lambda: 1,
        setMathMode=lambda handle, mode: state.update(mode=mode),
        setStream=lambda handle, at: state.update(stream=at),
        gemmStridedBatchedEx=gemm,
    )
    monkeypatch.setitem(sys.modules, "cupy_backends.cuda.libs.cublas", module)


def _gemm(
    handle: int, turn_a: int, turn_b: int, m: int, n: int, k: int, alpha: int,
    a: int, type_a: int, line_a: int, step_a: int,
    b: int, type_b: int, line_b: int, step_b: int, beta: int,
    c: int, type_c: int, line_c: int, step_c: int, count: int, sums: int, algo: int,
) -> None:  # fmt: skip
    """C = A · B by columns, group by group; `alpha` is 1, `beta` 0."""
    for at in range(count):
        x, y, z = (
            address + at * step * np.dtype(TYPES[kind]).itemsize
            for address, step, kind in (
                *((a, step_a, type_a), (b, step_b, type_b), (c, step_c, type_c)),
            )
        )
        left = _matrix(x, TYPES[type_a], (k, m) if turn_a else (m, k), line_a)
        right = _matrix(y, TYPES[type_b], (n, k) if turn_b else (k, n), line_b)
        left, right = left.T if turn_a else left, right.T if turn_b else right
        found = left.astype(SUMS[sums]) @ right.astype(SUMS[sums])
        _matrix(z, TYPES[type_c], (m, n), line_c)[...] = found.astype(TYPES[type_c])
