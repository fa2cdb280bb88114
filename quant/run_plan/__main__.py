"""The command line: `python -m mdtensor_run net.mdt input.npy [-o out.npy]`."""

import argparse
import sys
from pathlib import Path

import numpy as np

from mdtensor_run.errors import PlanError
from mdtensor_run.runner import run


def main(arguments: list[str] | None = None) -> None:
    """Run a plan on arrays in files, and write or print its results."""
    parser = argparse.ArgumentParser(prog="python -m mdtensor_run")
    parser.description = "Run a network that `mdtensor compile` wrote."
    parser.add_argument("plan", help="the file, as net.mdt")
    parser.add_argument("inputs", nargs="*", help="an .npy file for each input")
    named = "an .npz file for the results, or .npy for one"
    parser.add_argument("-o", "--output", "--out", metavar="PATH", help=named)
    parser.add_argument(
        "--threads", type=int, default=1, help="at most; one if omitted"
    )
    given = parser.parse_args(arguments)
    try:
        network = run(given.plan)
        if not given.inputs:
            print(network)
            return
        _require_name(given.output, len(network.outputs))
        arrays = [np.load(name, allow_pickle=False) for name in given.inputs]
        found = network(*arrays, threads=given.threads)
    except (PlanError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    results = found if isinstance(found, tuple) else (found,)
    if given.output is None:
        for value, result in zip(network.outputs, results, strict=True):
            print(f"{value.name}: {value}\n{result}")
    elif given.output.endswith(".npy"):
        np.save(given.output, results[0])
    else:
        names = (value.name for value in network.outputs)
        np.savez(given.output, **dict(zip(names, results, strict=True)))


def _require_name(path: str | None, results: int) -> None:
    """Raise for a name that does not fit: NumPy would write another one.

    Raises:
        ValueError: the name ends neither in .npz nor in .npy, or in .npy although
            there are several results.
    """
    if path is None or path.endswith(".npz"):
        return
    fix = f"Use {Path(path).with_suffix('.npz')}."
    if not path.endswith(".npy"):
        raise ValueError(f"{path} is neither an .npz nor an .npy file. {fix}")
    if results != 1:
        raise ValueError(f"{path} holds one array, and there are {results}. {fix}")


if __name__ == "__main__":
    main()
