"""Sizes of tables: what must be registered for an operation, and what a run fills."""

import sys
from collections.abc import Iterator
from itertools import product

import mdtensor as md
from bench.harness import Count, Row

#: Element types of numbers on the host.
LEAVES = [leaf for leaf in md.leaves() if leaf.device is md.cpu]
NUMBERS = [leaf for leaf in LEAVES if issubclass(leaf, md.NumericTensor)]


def served() -> dict[str, float]:
    """Pairs of types that `add` takes: one method each in a dict of pairs."""
    pairs = list(product(NUMBERS, repeat=2))
    found = [md.add.operation.find(pair) for pair in pairs]
    methods = {id(one.method) for one in found if one is not None}
    return {"mdtensor": len(methods), "dict of pairs": len(found) - found.count(None)}


def entries() -> dict[str, float]:
    """Entries of the table that calls read after one call."""
    md.add.operation.clear_table()
    x = md.ones(1)
    md.add(x, x)
    row = md.add.operation.table
    pairs = len(NUMBERS) ** 2
    return {"mdtensor": sum(map(len, row.values())), "dict of pairs": pairs}


def table_bytes() -> dict[str, float]:
    """Bytes of these tables."""
    entries()
    table = md.add.operation.table
    inner = sum(map(sys.getsizeof, table.values()))
    full = dict.fromkeys(product(NUMBERS, repeat=2))
    keys = sum(map(sys.getsizeof, full))
    return {
        "mdtensor": sys.getsizeof(table) + inner,
        "dict of pairs": sys.getsizeof(full) + keys,
    }


def rows() -> Iterator[Row]:
    table = f"Tables of add, for {len(NUMBERS)} numeric types"
    yield Count("methods written for all pairs", served, "methods", table)
    yield Count("entries after the first call", entries, "entries", table)
    yield Count("bytes after the first call", table_bytes, "bytes", table)
