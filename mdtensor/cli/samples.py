"""Arrays from files: the inputs of `run`, the samples of `quantize`."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor.errors import DataError, OptionError
from mdtensor.graph.inputs import split_samples, split_together
from mdtensor.quant.model.model import Model
from mdtensor.quant.model.quantize.calibrate import sample_feeds

SUFFIXES = (".npy", ".npz")


def parse_shapes(texts: Sequence[str]) -> Any:
    """Parse `1,3,48,192` to sizes, `a=1,3` and `b=2` to sizes by name.

    Returns:
        The sizes, a dictionary of them, or None for no text.

    Raises:
        OptionError: a size is not a positive integer, or one of several lacks a name.
    """
    named = [text.rpartition("=") for text in texts]
    if len(named) == 1 and not named[0][0]:
        return _sizes(texts[0])
    if not all(name for name, _, _ in named):
        raise OptionError(
            "several shapes, not all with a name", "Pass --shape NAME=SIZES for each"
        )
    return {name: _sizes(text) for name, _, text in named} or None


def _sizes(text: str) -> tuple[int, ...]:
    parts = text.split(",")
    if not all(p.strip().isdecimal() and int(p) > 0 for p in parts):
        problem = f"expected positive sizes, not {text!r}"
        raise OptionError(problem, "Pass --shape such as 1,3,48,192")
    return tuple(map(int, parts))


def read_array(path: Path) -> Any:
    """Read the array in a .npy file, or the only one in a .npz file.

    Raises:
        DataError: the file does not exist, or does not hold one plain array.
    """
    found = read_arrays(path)
    if isinstance(found, dict):
        if len(found) == 1:
            return next(iter(found.values()))
        raise DataError(
            f"expected one array in {path}, not {len(found)} named arrays",
            "Save each in its own .npy file, with numpy.save",
        )
    return found


def read_arrays(path: Path) -> Any:
    """Read the array in a .npy file, or the arrays in a .npz file by name.

    Raises:
        DataError: the file does not exist, or does not hold plain arrays.
    """
    try:
        # numpy.load does not close a damaged file, so this opens it.
        with path.open("rb") as file:
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
    # Archive, compression, header and pickle raise errors of many classes.
    except Exception:
        raise _no_array(path) from None
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise _no_array(path)
    return arrays


def _no_array(path: Path) -> DataError:
    return DataError(
        f"{path} does not hold a plain NumPy array, or is cut short",
        "Write it with numpy.save, without pickled objects",
    )


def read_samples(data: Sequence[Path], network: Model) -> list[dict[str, Any]]:
    """Read samples by input, each fit for the network; the first axis counts samples.

    Raises:
        DataError: a file or folder does not hold arrays, or a sample does not fit.
    """
    if not network.inputs:
        raise DataError("the model has no inputs, so nothing depends on data")
    samples = [
        sample_feeds(network.graph, sample, f"{path}, sample {number}")
        for path in sample_files(data)
        for number, sample in enumerate(_samples(read_arrays(path), network), 1)
    ]
    if not samples:
        listed = ", ".join(map(str, data))
        raise DataError(f"there are no samples in {listed}", "Pass at least one")
    return samples


def sample_files(data: Sequence[Path]) -> Iterator[Path]:
    """Yield the files of samples; for a folder each .npy and .npz file in it.

    Raises:
        DataError: a folder has no .npy and no .npz file.
    """
    for path in data:
        if not path.is_dir():
            yield path
            continue
        # Sorted, because the order of a folder differs between file systems, and
        # calibration depends on the order of samples.
        found = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
        if not found:
            raise DataError(f"no .npy or .npz file in {path}", "Pass another folder")
        yield from found


def _samples(loaded: object, network: Model) -> Iterator[dict[str, Any] | Any]:
    """Yield the samples of one file: for the only input, or for each by name."""
    inputs = network.inputs
    if len(inputs) == 1:
        arrays = loaded.values() if isinstance(loaded, dict) else [loaded]
        for array in arrays:
            yield from split_samples(array, inputs)
    # All names or none: a file for another model should fail as a whole.
    elif isinstance(loaded, dict) and set(loaded) == set(inputs):
        yield from split_together(loaded, inputs)
    else:
        yield loaded


def read_labels(path: Path | None) -> list[str]:
    """Read the lines of a text file; without a file there are none.

    Raises:
        DataError: the file cannot be read as text.
    """
    if path is None:
        return []
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "Check the path") from None
    except UnicodeDecodeError:
        raise DataError(
            f"{path} is not a UTF-8 text file", "Save it as UTF-8"
        ) from None
