"""The real CuPy has each name that mdtensor uses and that the double replaces.

CuPy comes from the extra `gpu-build`. It can be imported without a driver, and this
much can be asked of it; nothing here touches a GPU.
"""

import inspect
import os
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import cupy_double

from mdtensor.kernels.cuda import driver

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cupy() -> Any:
    if os.environ.get("MDTENSOR_NEEDS_NVRTC"):
        return driver.cupy()
    return pytest.importorskip("cupy")


def names_of(double: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of all that the double offers."""
    found = []
    for name, value in vars(double).items():
        if name.startswith("_"):
            continue
        found.append((*path, name))
        if isinstance(value, SimpleNamespace):
            found += names_of(value, (*path, name))
    return found


def test_every_name_of_the_double_is_one_of_cupy(cupy: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        paths = names_of(cupy_double.install(patch))
    assert len(paths) >= 18
    for path in paths:
        found = cupy
        for name in path:
            found = getattr(found, name)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("Stream", ("record", "wait_event", "synchronize", "__enter__", "__exit__")),
        ("ExternalStream", ("record", "wait_event", "synchronize", "__enter__")),
        ("Event", ("synchronize", "done")),
        ("Device", ("compute_capability", "synchronize", "__enter__", "__exit__")),
        ("MemoryPool", ("malloc", "free_bytes")),
        ("MemoryPointer", ("ptr",)),
        ("function.Module", ("load", "get_function")),
        ("function.Function", ("ptr",)),
        ("runtime.PointerAttributes", ("type",)),
    ],
)
def test_methods_that_we_call(cupy: Any, path: str, names: tuple[str, ...]) -> None:
    found = cupy.cuda
    for part in path.split("."):
        found = getattr(found, part)
    for name in names:
        assert hasattr(found, name), (path, name)


def test_arguments_that_we_pass_to_cublas(cupy: Any) -> None:
    """CuPy's module cannot be imported without cuBLAS, so its texts are read."""
    found = find_spec("cupy_backends.cuda.libs.cublas")
    assert found is not None and found.origin is not None
    texts = Path(found.origin).read_bytes()
    gemm = (
        "gemmStridedBatchedEx(intptr_t handle, int transa, int transb, int m, int n, "
        "int k, size_t alpha, size_t A, int Atype, int lda, long long strideA, "
        "size_t B, int Btype, int ldb, long long strideB, size_t beta, size_t C, "
        "int Ctype, int ldc, long long strideC, int batchCount, int computeType, "
        "int algo)"
    )
    others = (
        "create() -> intptr_t",
        "setMathMode(intptr_t handle, int mode)",
        "setStream(intptr_t handle, size_t stream)",
    )
    for text in (gemm, *others):
        assert text.encode() in texts, text


def test_arguments_that_we_pass(cupy: Any) -> None:
    launch = cupy.cuda.driver.launchKernel.__doc__
    assert launch.startswith("launchKernel(intptr_t f, unsigned int grid_dim_x")
    assert launch.endswith("intptr_t stream, intptr_t kernel_params, intptr_t extra)")
    copy = cupy.cuda.runtime.memcpyAsync.__doc__
    assert copy.endswith("(intptr_t dst, intptr_t src, size_t size, int kind, intptr_t "
                         "stream)")  # fmt: skip
    # Without a driver there is no array, but memory of others can be described.
    memory = cupy.cuda.UnownedMemory(0x1000, 64, None, 0)
    assert cupy.cuda.MemoryPointer(memory, 8).ptr == 0x1008
    assert "strides" in cupy.ndarray.__init__.__doc__ or inspect.isclass(cupy.ndarray)
