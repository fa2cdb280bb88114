"""Inference touches no element: no array is made, however large tensors would be."""

import gc
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
from support.each import each
from support.samples import sample

import mdtensor as md
from mdtensor import TensorSpec

OPERATIONS = [f for name, f in md.operations().items() if name.startswith("mdtensor.")]
#: Where tracemalloc keeps the memory of NumPy's arrays.
ARRAYS = np.lib.tracemalloc_domain


def spec(x: Any) -> Any:
    if isinstance(x, md.Tensor):
        return TensorSpec(type(x), x.shape, getattr(x, "qparams", None))
    return x


def inference(operation: Any) -> tuple[Any, dict[str, Any]]:
    """The sample call with specs for tensors, in options too."""
    arguments, options = sample(operation)
    specs = tuple(map(spec, arguments))
    given = (specs,) if operation.operation.sequence else specs
    return given, {name: spec(value) for name, value in options.items()}


@contextmanager
def numpy_calls() -> Iterator[list[str]]:
    """Every function of NumPy that is called inside, compiled or not."""
    found: list[str] = []

    def record(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            owner = type(getattr(called, "__self__", None)).__module__
            module = getattr(called, "__module__", None) or ""
            if owner.startswith("numpy") or module.startswith("numpy"):
                found.append(f"{module}.{called.__name__}")
        elif event == "call" and "/numpy/" in frame.f_code.co_filename:
            found.append(frame.f_code.co_qualname)

    sys.setprofile(record)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_the_recorder_sees_what_makes_arrays() -> None:
    x = np.ones(3)
    with numpy_calls() as found:
        np.empty(2)
        x.sum()
        np.broadcast_to(x, (2, 3))
    assert {"numpy.empty", "broadcast_to"} <= set(found)
    assert any(name.endswith("sum") for name in found)


@each("operation", OPERATIONS)
def test_no_function_of_numpy_is_called(operation: Any) -> None:
    arguments, options = inference(operation)
    # The import of methods, on use, calls NumPy; with this file alone it happens here.
    assert operation.operation.methods
    with numpy_calls() as found:
        md.infer(operation, *arguments, **options)
    assert found == []


def test_no_array_is_allocated() -> None:
    """Over all operations together, by NumPy's own account."""
    calls = [(operation, *inference(operation)) for operation in OPERATIONS]
    gc.collect()
    tracemalloc.start()
    try:
        kept = [md.infer(f, *arguments, **options) for f, arguments, options in calls]
        arrays = tracemalloc.DomainFilter(inclusive=True, domain=ARRAYS)
        taken = tracemalloc.take_snapshot().filter_traces([arrays])
        assert sum(trace.size for trace in taken.traces) == 0
        some = np.empty(1000)
        seen = tracemalloc.take_snapshot().filter_traces([arrays])
        assert sum(trace.size for trace in seen.traces) == some.nbytes  # it can see
    finally:
        tracemalloc.stop()
    assert len(kept) == len(OPERATIONS)


def test_tensors_larger_than_any_memory() -> None:
    """A petabyte of specs takes less than 100 kB to infer from."""
    wide = TensorSpec(md.Float64Tensor, (2**20, 2**27))
    md.infer("matmul", wide, md.infer("matrix_transpose", wide))
    tracemalloc.start()
    try:
        for name in ("exp", "sort", "sum", "argmax", "cumulative_sum"):
            options = {"axis": 1} if name == "cumulative_sum" else {}
            md.infer(name, wide, **options)
        for name in ("add", "less", "pow"):
            md.infer(name, wide, TensorSpec(md.Int8Tensor, (2**27,)))
        assert md.infer("matmul", wide, md.infer("matrix_transpose", wide)).shape == (
            2**20,
            2**20,
        )
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
