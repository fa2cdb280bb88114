"""The GPU that `wgpu` finds, requested once."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

NO_PACKAGE = "wgpu is not installed: pip install wgpu"
NO_ADAPTER = (
    "wgpu finds no adapter: install a Vulkan driver, such as the software driver "
    "mesa-vulkan-drivers (apt-get install mesa-vulkan-drivers)"
)
#: Limits that are raised to what the adapter has.
LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
)


def missing() -> str:
    """Return why no WebGPU adapter can be used; an empty text if one can."""
    try:
        request()
    except ImportError:
        return NO_PACKAGE
    except (RuntimeError, OSError):
        return NO_ADAPTER
    return ""


@cache
def request() -> Any:
    """Return the device of the first adapter.

    Raises:
        ImportError: wgpu is not installed.
        RuntimeError: it finds no adapter.
    """
    import wgpu

    with _runtime_folder():
        adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    if adapter is None:
        raise RuntimeError(NO_ADAPTER)
    limits = {name: adapter.limits[name] for name in LIMITS}
    return adapter.request_device_sync(required_limits=limits)


@contextmanager
def _runtime_folder() -> Iterator[None]:
    """Name a folder, without which the loader of drivers prints lines of errors."""
    is_new = "XDG_RUNTIME_DIR" not in os.environ
    if is_new:
        os.environ["XDG_RUNTIME_DIR"] = tempfile.gettempdir()
    try:
        yield
    finally:
        if is_new:
            del os.environ["XDG_RUNTIME_DIR"]


@cache
def most_groups() -> int:
    """Return the largest number of blocks of a launch, whose threads do all the work.

    A driver in software runs threads one after another: fewer of them read the
    arguments of a launch less often.
    """
    found = request().adapter.info["adapter_type"]
    return 64 if found == "CPU" else 65535
