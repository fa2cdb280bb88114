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
    parser.add_argument("-o", "--out", help="an .npy file, or .npz for several results")
    parser.add_argument("--threads", type=int, default=1, help="for several images")
    given = parser.parse_args(arguments)
    try:
        network = run(given.plan)
        if not given.inputs:
            print(network)
            return
        arrays = [np.load(name, allow_pickle=False) for name in given.inputs]
        found = network(*arrays, threads=given.threads)
    except (PlanError, OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    results = found if isinstance(found, tuple) else (found,)
    if given.out is None:
        for value, result in zip(network.outputs, results, strict=True):
            print(f"{value.name}: {value}\n{result}")
    elif len(results) == 1:
        np.save(Path(given.out).with_suffix(".npy"), results[0])
    else:
        names = (value.name for value in network.outputs)
        np.savez(given.out, **dict(zip(names, results, strict=True)))


if __name__ == "__main__":
    main()
