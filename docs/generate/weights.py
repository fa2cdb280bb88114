"""Write the tables of docs/how-to/weights.md from measurements on synthetic layers.

    python docs/generate/weights.py

The script replaces the text between `begin` and `end` and keeps the prose.
tests/quant/weights/test_page.py compares the page with a new measurement.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mdtensor import quant
from mdtensor.quant.observers import OBSERVERS

PAGE = Path(__file__).parents[1] / "how-to" / "weights.md"
OUTPUTS, INPUTS, HIDDEN, SAMPLES = 256, 512, 64, 2048
#: Granularity: the name of a row, and the options.
FORMATS: dict[str, dict[str, Any]] = {
    "4 bits, per row": {"dtype": quant.qint4},
    "4 bits, blocks of 128": {"dtype": quant.qint4, "block_size": 128},
    "4 bits, blocks of 32": {"dtype": quant.qint4, "block_size": 32},
    "3 bits, blocks of 128": {"dtype": quant.qint4, "bits": 3, "block_size": 128},
    "8 bits, per row": {},
}
METHODS: dict[str, dict[str, Any]] = {
    "rtn": {"method": "rtn"},
    "mse": {"method": "mse"},
    "hqq": {"method": "hqq"},
    "awq": {"method": "awq"},
    "gptq, in order": {"method": "gptq", "act_order": False},
    "gptq": {"method": "gptq"},
}


def layer(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return heavy-tailed weights, input samples, and held-out samples.

    Inputs are mixed from 64 hidden numbers, with noise of 0.3, and 6 of them are 12
    times as large as the rest, as in the networks that are hard to quantize.
    """
    rng = np.random.default_rng(seed)
    weights = rng.standard_t(5, (OUTPUTS, INPUTS)) / np.sqrt(INPUTS)
    gain = np.ones(INPUTS)
    gain[rng.choice(INPUTS, 6, replace=False)] = 12
    mix = rng.standard_normal((HIDDEN, INPUTS)) / np.sqrt(HIDDEN)

    def draw() -> np.ndarray:
        hidden = rng.standard_normal((SAMPLES, HIDDEN)) @ mix
        return (hidden + 0.3 * rng.standard_normal((SAMPLES, INPUTS))) * gain

    return weights, draw(), draw()


def output_errors(**format: Any) -> dict[str, float]:
    """Return the relative error on held-out samples, by method."""
    weights, samples, held_out = layer()
    seen, unseen = quant.InputMoments(INPUTS), quant.InputMoments(INPUTS)
    seen.observe(samples)
    unseen.observe(held_out)
    return {
        name: quant.output_error(
            weights,
            quant.quantize_weights(weights, samples=seen, **chosen, **format),
            unseen,
        )
        for name, chosen in METHODS.items()
    }


#: The five distributions, each of 200,000 numbers in samples of 1000.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda r, n: r.standard_normal(n),
    "Laplace": lambda r, n: r.laplace(size=n),
    "relu of normal": lambda r, n: np.maximum(r.standard_normal(n), 0),
    "0.01 % outliers, 60 times as large": lambda r, n: np.r_[
        r.standard_normal(n - n // 10_000), 60 * r.standard_normal(n // 10_000)
    ],
    "Student's t, 3 degrees of freedom": lambda r, n: r.standard_t(3, n),
}


#: Tables of observers: the name of a block, and the codes.
OBSERVED = {"observers8": quant.quint8, "observers4": quant.quint4}


def decibels(values: np.ndarray, grid: quant.QParams) -> float:
    """Return 10 log10(E[x²] / E[(x - grid(x))²])."""
    step, zero = float(grid.scale), grid.zero
    codes = np.clip(np.rint(values / step) + zero, grid.minimum, grid.maximum)
    wrong = np.square(values - (codes - zero) * step).sum()
    return float(10 * np.log10(np.square(values).sum() / wrong))


def observed(name: str, dtype: Any, count: int = 200_000) -> dict[str, float]:
    """Return the signal-to-noise ratio for one distribution, by observer."""
    values = DISTRIBUTIONS[name](np.random.default_rng(0), count)
    found = {}
    for short, kind in OBSERVERS.items():
        observer = kind()
        observer.observe(values.reshape(-1, 1000))
        found[short] = decibels(values, observer.qparams(dtype))
    return found


def table(rows: dict[str, dict[str, float]], form: str) -> Iterator[str]:
    """Return a Markdown table with the columns of the first row."""
    columns = list(next(iter(rows.values())))
    yield "| | " + " | ".join(columns) + " |"
    yield "| --- |" + " ---: |" * len(columns)
    for name, row in rows.items():
        cells = (format(row[column], form) for column in columns)
        yield f"| {name} | " + " | ".join(cells) + " |"


def page(text: str) -> str:
    """Return the page with every generated block written again."""
    outputs = {name: output_errors(**options) for name, options in FORMATS.items()}
    blocks = {"outputs": "\n".join(table(outputs, ".1%"))}
    for block, dtype in OBSERVED.items():
        levels = {name: observed(name, dtype) for name in DISTRIBUTIONS}
        blocks[block] = "\n".join(table(levels, ".1f"))
    marked = re.compile(r"(<!-- begin: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
    return marked.sub(lambda m: f"{m[1]}\n\n{blocks[m[2]]}\n\n{m[3]}", text)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
