"""Damaged files of arrays: values, or errors of ours, in little time and memory."""

import io
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.damaged_bytes import mutate

import mdtensor as md
from mdtensor import safetensors
from mdtensor.cli.samples import read_arrays
from mdtensor.quant.gguf import Blocks, read_gguf, write_gguf

SECONDS = 20
PARTS, FILES = 20, 1000


def of_safetensors(folder: Path) -> list[bytes]:
    """A plain file, and one whose codes have scales and metadata."""
    codes = md.quant.quantize(md.ones((2, 3)), qparams=md.quant.QParams(0.5, 3))
    whole = {"a": md.ones((2, 3)), "b": md.arange(4), "c": md.ones(2, dtype=md.bool)}
    files = (whole, {"q": codes, "half": md.ones(3, dtype=md.float16)})
    found = []
    for number, tensors in enumerate(files):
        safetensors.save_file(tensors, folder / f"{number}")
        found.append((folder / f"{number}").read_bytes())
    return found


def of_gguf(folder: Path) -> list[bytes]:
    """A file with blocks of 8 and 4 bits, a vector, and metadata of each kind."""
    metadata = {"t": ["ab"], "r": np.array([1, 2], np.uint8), "n": 7, "x": 0.5}
    tensors = {"b": md.ones(2)}
    for kind in ("Q8_0", "Q4_0"):
        tensors[kind] = Blocks.quantize(md.ones((1, 32)), kind)
    write_gguf(folder / "whole", tensors, metadata)
    return [(folder / "whole").read_bytes()]


def of_numpy(folder: Path) -> list[bytes]:
    """A .npy file of each version, and archives with and without compression."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    found = []
    for version in ((1, 0), (2, 0), (3, 0)):
        file = io.BytesIO()
        np.lib.format.write_array(file, array, version)
        found.append(file.getvalue())
    for write in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        write(file, x=array, y=np.int64(3))
        found.append(file.getvalue())
    return found


def read_safetensors(path: Path) -> None:
    """Read a file whole, and tensor by tensor."""
    with safetensors.safe_open(path) as file:
        for name in file:
            file[name]
    safetensors.load_file(path)


def read_blocks(path: Path) -> None:
    """Read the tensors of a GGUF file, and their numbers."""
    for blocks in read_gguf(path).values():
        blocks.tensor()
        blocks.dequantize()


FORMATS: dict[str, tuple[Callable[[Path], list[bytes]], Callable[[Path], Any]]] = {
    "safetensors": (of_safetensors, read_safetensors),
    "gguf": (of_gguf, read_blocks),
    "numpy": (of_numpy, read_arrays),
}


def survive(kind: str, seeds: range, folder: Path) -> int:
    """Read damaged files; return how many were read. Fail with the seeds of others."""
    write, read = FORMATS[kind]
    wholes, path, failures, count = write(folder), folder / "damaged", {}, 0
    for seed in seeds:
        rng = random.Random(seed)
        path.write_bytes(mutate(rng.choice(wholes), rng))
        start = time.process_time()
        try:
            # A foreign warning is printed for the user, so it is an error, too.
            with warnings.catch_warnings(action="error"):
                read(path)
            count += 1
        except md.MdtensorError as error:
            assert str(error)
        except Exception as error:
            failures[seed] = f"{type(error).__name__}: {error}"[:200]
        if time.process_time() - start > SECONDS:
            failures[seed] = "too slow"
    assert not failures
    return count


@pytest.mark.long
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files(kind: str, tmp_path: Path, little_memory: None) -> None:
    for whole in FORMATS[kind][0](tmp_path):
        (tmp_path / "whole").write_bytes(whole)
        FORMATS[kind][1](tmp_path / "whole")
    assert 0 < survive(kind, range(300), tmp_path) < 300


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_at_length(
    kind: str, part: int, tmp_path: Path, little_memory: None
) -> None:
    survive(kind, range(FILES * part, FILES * (part + 1)), tmp_path)
