"""Comparison of a generated loop with the interpreter, byte by byte."""

import numpy as np

from mdtensor.kernels.cpu.generic.opcodes import INPUTS
from mdtensor.kernels.cpu.program.elementwise import walk

#: Elements of an input: some blocks of the interpreter, and a rest of no vector.
COUNT = 3 * 1024 + 77
#: Numbers at which formulas and their order of operations differ.
SPECIAL = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 0.5, 1e-45, -1e-45, 1.2e-38, 3.4e38),
        *(-3.4e38, np.inf, -np.inf, np.nan, 88.7, -87.4, 104.0, -104.0, 1 + 2**-23),
    ],
    np.float32,
)


def samples(formula):
    """Return inputs of a formula: special and normal numbers, and any bits."""
    rng = np.random.default_rng(2024)
    found = []
    for one in formula.inputs:
        special = rng.choice(SPECIAL, COUNT // 3)
        anything = rng.integers(0, 2**32, COUNT // 3, np.uint32).view(np.float32)
        rest = COUNT - len(special) - len(anything)
        parts = special, anything, rng.standard_normal(rest, np.float32) * 4
        x = rng.permutation(np.concatenate(parts))
        found.append(x if one.is_whole else x[:1].copy())
    return found


def sampled(formula):
    """Return the formula for inputs of `samples`."""
    shape = (COUNT,)
    return formula._replace(
        inputs=tuple(
            walk(shape if one.is_whole else (), shape) for one in formula.inputs
        ),
        constants=tuple((array, walk((), shape)) for array, _ in formula.constants),
        elements=COUNT,
    )


def agree(run, other, table, numbers, inputs):
    """Return whether two functions write the same bytes, NaNs being equal.

    Args:
        run, other: take the arguments of `run_chain`.
        table, numbers: of the chain of the formula of `sampled`.
        inputs: of `samples`.
    """
    rows = [*inputs, *[np.zeros(1, np.float32)] * (INPUTS - len(inputs))]
    results = []
    for function in (run, other):
        # A piece that a thread would run begins later.
        for start in (0, 1000):
            out = np.full(COUNT - start, np.float32(1e10))
            function(table, numbers, *rows, start, out)
            out[np.isnan(out)] = np.nan
            results.append(out.tobytes())
    return results[:2] == results[2:]
