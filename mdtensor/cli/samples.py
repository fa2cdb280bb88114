"""Arrays from files: inputs for `run`, samples for `quantize`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.errors import DataError, OptionError
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.calibrate import checked_sample

SUFFIXES = (".npy", ".npz")


def parse_shapes(texts: Sequence[str]) -> Any:
    """`1,3,48,192` as sizes; `a=1,3` and `b=2` as sizes by name; None for nothing.

    Raises:
        OptionError: not sizes from 1 on, or more than one without a name.
    """
    named = [text.rpartition("=") for text in texts]
    if len(named) == 1 and not named[0][0]:
        return _sizes(texts[0])
    if not all(name for name, _, _ in named):
        raise OptionError(
            "several shapes, not all with a name", "Give --shape NAME=SIZES for each"
        )
    return {name: _sizes(text) for name, _, text in named} or None


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        raise OptionError(f"the shape is {text!r}", "Give sizes such as 1,3,48,192")
    return tuple(map(int, parts))


def read_array(path: Path) -> Any:
    """The array in a .npy file.

    Raises:
        DataError: there is no such file, or it holds no plain array.
    """
    found = read_arrays(path)
    if isinstance(found, dict):
        raise DataError(
            f"{path} holds {len(found)} named arrays, and an input is one array",
            "Save each in a .npy file of its own, with numpy.save",
        )
    return found


def read_arrays(path: Path) -> Any:
    """The array in a .npy file, or the arrays in a .npz file by name.

    Raises:
        DataError: there is no such file, or it holds no plain arrays.
    """
    try:
        with path.open("rb") as file:  # numpy.load leaves it open if it is damaged
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return loaded
            arrays = dict(loaded)
    except OSError as error:
        raise DataError(
            f"{path}: {error.strerror or 'it cannot be read'}", "Check the path"
        ) from None
    except MemoryError:
        raise DataError(f"{path} does not fit into memory") from None
    except Exception:  # of the archive, the compression, the header, the pickle
        raise _no_array(path) from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise _no_array(path)
    return arrays


def _no_array(path: Path) -> DataError:
    return DataError(
        f"{path} holds no plain NumPy array, or is cut short",
        "Write it with numpy.save, without pickled objects",
    )


def read_samples(data: Sequence[Path], network: Model) -> list[dict[str, Any]]:
    """Samples by input, each fit for the network; one a step along the first axis.

    Raises:
        DataError: no files, files that hold no arrays, or samples that do not fit.
    """
    if not network.inputs:
        raise DataError("the model has no inputs, so nothing depends on data")
    samples = [
        checked_sample(network.graph, sample, f"{path}, sample {number}")
        for path in _files(data)
        for number, sample in enumerate(_samples(read_arrays(path), network), 1)
    ]
    if not samples:
        listed = ", ".join(map(str, data))
        raise DataError(f"there are no samples in {listed}", "Give at least one")
    return samples


def _files(data: Sequence[Path]) -> Iterator[Path]:
    for path in data:
        if not path.is_dir():
            yield path
            continue
        found = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
        if not found:
            raise DataError(f"{path} holds no .npy or .npz file", "Name another folder")
        yield from found


def _samples(loaded: Any, network: Model) -> Iterator[dict[str, Any] | Any]:
    """What is in one file: arrays for the only input, or one for each by name."""
    inputs = network.inputs
    if len(inputs) == 1:
        arrays = loaded.values() if isinstance(loaded, dict) else [loaded]
        for array in arrays:
            yield from _steps(array, next(iter(inputs.values())).shape)
    elif isinstance(loaded, dict) and set(loaded) == set(inputs):
        yield from _together(
            {n: list(_steps(loaded[n], spec.shape)) for n, spec in inputs.items()}
        )
    else:
        yield loaded


def _together(steps: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """The samples of several inputs, step by step."""
    if len({len(arrays) for arrays in steps.values()}) > 1:
        listed = ", ".join(f"{len(arrays)} for {n!r}" for n, arrays in steps.items())
        raise DataError(
            f"different numbers of samples: {listed}", "Give as many for each input"
        )
    for each in zip(*steps.values(), strict=True):
        yield dict(zip(steps, each, strict=True))


def _steps(array: Any, wanted: tuple[int, ...]) -> Iterator[Any]:
    if array.ndim == len(wanted) and wanted and wanted[0] in (1, -1):
        yield from (array[i : i + 1] for i in range(len(array)))
    else:
        yield array


def read_labels(path: Path | None) -> list[str]:
    """The lines of a text file; none without a file.

    Raises:
        DataError: it cannot be read as text.
    """
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "Check the path") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8", "Save it as UTF-8") from None
