"""What `mdtensor info` says about this installation and this CPU."""

import importlib.metadata
import platform
from typing import Any

import mdtensor
from mdtensor.kernels.cpu import isa

PACKAGES = (
    "numpy",
    "plum-dispatch",
    "numba",
    "ml_dtypes",
    "onnx",
    "typer",
    "rich",
    "onnxruntime",
    "rapidocr-onnxruntime",
    "scikit-image",
    "threadpoolctl",
)


def describe_host() -> dict[str, Any]:
    """Versions, CPU, runway and why it was chosen."""
    return {
        "mdtensor": mdtensor.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "packages": {name: _version(name) for name in PACKAGES},
        "cpu": isa.describe(),
        "devices": ["cpu"],
        "tensor_types": len(mdtensor.leaves()),
        "operations": len(mdtensor.operations()),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
