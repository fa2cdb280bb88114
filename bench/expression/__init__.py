"""What it costs to add a type, an operation, and one for the other, in edited lines.

Three small libraries do the same: by a match on an enum, by virtual methods, and by
multiple dispatch. Each is changed by the same three patches, which lie beside it. A
script applies them, checks that the result works, and counts: what a patch writes into
new files is new code, what it changes in existing files is the cost of change.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial

from bench.expression import sizes
from bench.expression.change import CHANGES, Cost, cost
from bench.harness import Bench, Count, Promise, Reason, Row

#: Ways, by the folders they lie in.
FOLDERS = {
    "mdtensor": "multiple_dispatch",
    "match on Enum": "enum_dispatch",
    "virtual methods": "virtual_methods",
}
NAMES = {
    "add_type": "a type that mixes with one other",
    "add_operation": "an operation",
    "add_both": "the new operation for the new type, in a third package",
}
COSTS: dict[str, Callable[[Cost], int]] = {
    "files edited": lambda found: found.files,
    "lines edited": lambda found: found.lines,
    "new lines": lambda found: found.new,
}


@cache
def costs(change: str) -> dict[str, Cost]:
    return {name: cost(folder, change) for name, folder in FOLDERS.items()}


def counted(change: str, read: Callable[[Cost], int]) -> dict[str, float]:
    return {name: read(found) for name, found in costs(change).items()}


def label(change: str, kind: str) -> str:
    return f"{NAMES[change]}: {kind}"


def rows(quick: bool) -> Iterator[Row]:
    for change in CHANGES:
        for kind, read in COSTS.items():
            count = partial(counted, change, read)
            unit = kind.split()[-1] if kind.startswith("new") else kind.split()[0]
            yield Count(label(change, kind), count, unit, "Cost of change")
    yield from sizes.rows()


BENCH = Bench(
    "The expression problem: the cost of a new type or operation",
    rows,
    rounds=1,
    promises=[
        Promise(
            f"{NAMES[change]}: lines edited in existing files",
            0,
            lambda found, change=change: found.value(label(change, "lines edited")),
        )
        for change in CHANGES
    ],
    reasons=[Reason("each method repeats its types in its signature", "*new lines")],
    notes=(
        "The same small library is written three times in `bench/expression`: with "
        "mdtensor, with `match` on an Enum, and with virtual methods. It has four "
        "operations and three types, not all of which mix. Patches add a type, an "
        "operation, and that operation for that type. All three libraries pass the "
        "same checks."
    ),
)
