"""The work on one partition: read, run, write; the same in every engine."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor import quant
from mdtensor.cli.partitions.store import Partition
from mdtensor.cli.samples import parse_shapes, read_samples
from mdtensor.errors import MdtensorError
from mdtensor.quant import QuantizedTensor, dequantize
from mdtensor.quant.model.load import load
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.onnx.files import write_file


@dataclass(frozen=True)
class Task:
    """One partition, and all that a process elsewhere needs to run it.

    Args:
        model: the model file.
        shapes: the texts of --shape.
        threads: the threads of the model.
        partition: where samples and results are.
    """

    model: Path
    shapes: tuple[str, ...]
    threads: int
    partition: Partition


@dataclass(frozen=True)
class Done:
    """What became of a partition.

    Args:
        name: the partition.
        samples: the number of samples that it has.
        seconds: the time that it took.
        problem: why there is no result; None if there is one.
    """

    name: str
    samples: int
    seconds: float
    problem: str | None = None


def run_task(task: Task) -> Done:
    """Run a model on the samples of a partition, and write the results to its file."""
    start, name = time.perf_counter(), task.partition.name
    try:
        changed = task.model.stat().st_mtime_ns
        network = _loaded(task.model, changed, task.shapes)
        samples = read_samples([task.partition.source], network)
        with quant.threads(task.threads), np.errstate(all="ignore"):
            rows = [_outputs(network, sample) for sample in samples]
        task.partition.target.parent.mkdir(parents=True, exist_ok=True)
        write_file(task.partition.target, packed(rows))
    except MdtensorError as error:
        return Done(name, 0, 0.0, f"{type(error).__name__}: {error}")
    except OSError as error:
        return Done(name, 0, 0.0, f"{error.filename}: {error.strerror}")
    return Done(name, len(samples), time.perf_counter() - start)


@lru_cache(maxsize=2)
def _loaded(path: Path, changed: int, shapes: tuple[str, ...]) -> Model:
    """Return a model; a worker loads it once, until the file changes."""
    return load(path, parse_shapes(shapes))


def _outputs(network: Model, sample: dict[str, Any]) -> dict[str, Any]:
    found = network(**sample)
    tensors = found if isinstance(found, tuple) else (found,)
    reals = (dequantize(t) if isinstance(t, QuantizedTensor) else t for t in tensors)
    return dict(zip(network.outputs, map(np.asarray, reals), strict=True))


def packed(rows: list[dict[str, Any]]) -> bytes:
    """Return a .npz file with each output of all samples.

    Outputs whose first size is 1 are joined along it, others along a new first axis. If
    shapes differ between samples, outputs are numbered: `boxes.0`, `boxes.1`.
    """
    arrays: dict[str, Any] = {}
    for name in rows[0]:
        parts = [row[name] for row in rows]
        if len({part.shape for part in parts}) > 1:
            arrays |= {f"{name}.{i}": part for i, part in enumerate(parts)}
        else:
            join = np.concatenate if parts[0].shape[:1] == (1,) else np.stack
            arrays[name] = join(parts)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
