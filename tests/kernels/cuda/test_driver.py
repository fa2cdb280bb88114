"""What a machine has for CUDA, in one sentence each; and an NVRTC that is missing."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from mdtensor.kernels.cuda import driver, nvrtc


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    cupy: Any = None,
    has_nvrtc: Any = True,
) -> str:
    """Return the sentence of a machine with such a driver, CuPy and NVRTC."""

    def library(most: int) -> Any:
        if not has_nvrtc:
            raise nvrtc.NvrtcError("NVRTC is not installed: libnvrtc.so was not found.")

    monkeypatch.setattr(driver, "driver_version", lambda: version)
    monkeypatch.setattr(driver, "find_spec", lambda name: cupy)
    runtime = SimpleNamespace(getDeviceCount=cupy)
    found = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
    monkeypatch.setattr(driver, "cupy", lambda: found)
    monkeypatch.setattr(nvrtc, "library", library)
    return driver.missing()


def insufficient() -> int:
    raise RuntimeError("cudaErrorInsufficientDriver: the version is too low.\nmore")


@pytest.mark.parametrize(
    ("version", "cupy", "words"),
    [
        (0, None, "there is no NVIDIA driver on this machine: libcuda.so.1 was not"),
        (11040, None, "the driver supports CUDA 11.4, but CuPy needs 12.0 or later"),
        (
            12080,
            None,
            "but CuPy is not installed: pip install 'mdtensor[cuda12]'",
        ),
        (13000, None, "CuPy is not installed: pip install 'mdtensor[cuda13]'"),
        (13000, lambda: 0, "the driver supports CUDA 13.0, but finds no GPU"),
        (12040, insufficient, "12.4, but CuPy or NVRTC fails (cudaErrorInsufficient"),
        (12040, insufficient, "is too low): pip install 'mdtensor[cuda12]'"),
    ],
)
def test_the_sentence(
    version: int, cupy: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = pretend(monkeypatch, version, cupy)
    assert words in sentence
    assert "\n" not in sentence and not sentence.endswith(".")


def test_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pretend(monkeypatch, 13000, lambda: 1) == ""
    assert pretend(monkeypatch, 14020, lambda: 1) == ""
    without = pretend(monkeypatch, 13000, lambda: 1, has_nvrtc=False)
    assert "NVRTC is not installed" in without
    assert without.endswith("pip install 'mdtensor[cuda13]'")


def test_a_compiler_newer_than_the_driver_is_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvrtc.library.cache_clear()
    asked: list[str] = []

    def load(path: str) -> Any:
        asked.append(path)
        raise OSError(path)

    monkeypatch.setattr(nvrtc.ctypes, "CDLL", load)
    with pytest.raises(nvrtc.NvrtcError, match=r"installed: libnvrtc.so.12 was not"):
        nvrtc.library(12)
    assert asked and all("so.12" in path for path in asked)
    with pytest.raises(nvrtc.NvrtcError, match=r"libnvrtc.so.13 or libnvrtc.so.12"):
        nvrtc.library(13)
    nvrtc.library.cache_clear()


def test_import_does_not_import_cupy() -> None:
    code = (
        "import sys, mdtensor as md, mdtensor.quant\n"
        "md.cuda.missing, md.devices(), md.CudaFloat32Tensor, md.memory_stats('cuda')\n"
        "assert 'cupy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
