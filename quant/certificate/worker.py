"""A process that computes the cases: `python -m mdtensor.quant.certificate.worker`.

The ISA is chosen when kernels are imported, so each ISA has its own process; if the CPU
aborts one, the others go on. The output is an .npz file. For each number of threads it
has the seconds of the run, `1/seconds`, and the results in the order of the cases,
`1/0` and so on. stdout gets a line at the start, and one for each case as soon as it is
computed.
"""

import argparse
import time

import numpy as np

from mdtensor.quant.certificate.case import THREADS, split_short_steps
from mdtensor.quant.certificate.cases import select_cases


def main() -> None:
    """Write the results to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    split_short_steps()
    found = {}
    print("ready", flush=True)
    for threads in THREADS:
        start = time.perf_counter()
        for i, case in enumerate(select_cases(given.quick)):
            found[f"{threads}/{i}"] = case.compute(threads)
            print(case.title, flush=True)
        found[f"{threads}/seconds"] = np.array(time.perf_counter() - start)
    np.savez(given.file, allow_pickle=False, **found)


if __name__ == "__main__":
    main()
