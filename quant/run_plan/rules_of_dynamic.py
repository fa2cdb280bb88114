"""What products of floats on grids of each call, or of each row, read and write.

`interpret_dynamic` and `interpret_row_words` of `mdtensor.kernels.cpu.program` have the
function of each kind; see `rules_of_codes.py`.
"""

from mdtensor_run.packing import round_up
from mdtensor_run.row import ALIGN, ITEM, SLACK, Row, product

#: Columns for which the kernels read constants.
PANEL = 16


def multiplies_floats(r: Row, m: int, n: int, k: int, before: int) -> None:
    """Check the weights and the scratch of a product of m rows with n columns.

    Args:
        before: bytes of scratch in front of those of the product.
    """
    f = r.fields
    padded = round_up(n, PANEL)
    r.require(f.depth == k, f"has depth {f.depth}, not {k}")
    r.require(f.padded_columns == padded, f"has {f.padded_columns} padded columns")
    size = r.packing.products(n, k)
    r.require(f.weight_bytes == size, f"has {f.weight_bytes} bytes of weights")
    r.reads_constants(f.weights, size)
    r.reads_constants(f.exception_sums, ITEM * padded)
    r.reads_constants(f.multipliers, ITEM * padded)
    (strip,) = r.ints("strip", most=m)
    sums = round_up(product((strip, n, ITEM)), ALIGN)
    r.uses_scratch(before + ALIGN + 2 * ITEM * padded + sums + product((m, k)))


def run_dynamic_linear(r: Row) -> None:
    """Check a DynamicLinear: rows of floats, and a bias if its place is not 0."""
    m, n, k = r.ints("rows", "columns", "depth")
    r.reads_x(product((ITEM, m, k)))
    multiplies_floats(r, m, n, k, 0)
    if r.fields.bias:
        r.reads_constants(r.fields.bias, ITEM * r.fields.padded_columns)
    r.writes(product((ITEM, m, n)))


def multiplies_words(r: Row, m: int, n: int, k: int, before: int) -> None:
    """Check the strip and the scratch of a product of m rows of words.

    Args:
        n: the most columns of a product.
        before: bytes of scratch in front of those of the product.
    """
    r.require(r.fields.depth == k, f"has depth {r.fields.depth}, not {k}")
    (strip,) = r.ints("strip", most=m)
    words = round_up(product((strip, round_up(k, 4), 2)) + SLACK, ALIGN)
    sums = product((strip, round_up(n, PANEL), ITEM))
    r.uses_scratch(before + round_up(strip * ITEM, ALIGN) + words + sums)


def reads_words(r: Row, at: int, n: int, k: int) -> None:
    """Check the place of weights that multiply words."""
    r.reads_constants(at, product((round_up(n, PANEL), round_up(k, 4))))


def run_word_linear(r: Row) -> None:
    """Check a WordLinear."""
    m, n, k = r.ints("rows", "columns", "depth")
    r.reads_x(product((ITEM, m, k)))
    multiplies_words(r, m, n, k, 0)
    reads_words(r, r.fields.weights, n, k)
    r.reads_constants(r.fields.multipliers, ITEM * n)
    r.reads_constants(r.fields.bias, ITEM * n)
    r.writes(product((ITEM, m, n)))


RULES = {
    "program.interpret_dynamic.run_dynamic_linear": run_dynamic_linear,
    "program.interpret_row_words.run_word_linear": run_word_linear,
}
