"""What the checker of method tables costs: many small tables, and one that is large.

`sound` has a method for each pair of 49 and one for all others; `random` draws the
types of every method, so that about ten ambiguities a function are found, each with its
fix. Both are read from plum, analysed by every rule, and reported.
"""

from random import Random

import harness
import plum

from mdtensor.diagnose import analyze

SIZES = (1250, 2500, 5000, 10_000)


class Root:
    """What all classes of a lattice derive from."""


def lattice() -> tuple[list[type], list[type]]:
    """Four kinds and four places, and 40 classes that each derive from one of both."""
    kinds = [type(f"Kind{at}", (Root,), {}) for at in range(4)]
    places = [type(f"Place{at}", (Root,), {}) for at in range(4)]
    leaves = [
        type(f"Leaf{at}", (kinds[at % 4], places[at // 4 % 4]), {}) for at in range(40)
    ]
    return [Root, *kinds, *places], leaves


def function(
    name: str, count: int, pool: list[type], random: Random, last: type | None = None
) -> plum.Function:
    """A function of plum with binary methods for different random pairs of types."""

    def call(*arguments: object) -> None: ...

    call.__name__ = call.__qualname__ = name
    made = plum.Dispatcher().abstract(call)
    drawn: dict[tuple[type, type], None] = {}
    while len(drawn) < count - (last is not None):
        drawn[random.choice(pool), random.choice(pool)] = None
    if last is not None:
        drawn[last, last] = None
    for types in drawn:
        made.register(_method(name), signature=plum.Signature(*types))
    return made


def _method(name: str) -> object:
    def chosen(a, b): ...

    chosen.__name__ = name
    return chosen


def main() -> None:
    options = harness.arguments(__doc__, rounds=7)
    random = Random(0)
    kinds, leaves = lattice()
    sound = [function(f"sound{at}", 50, leaves, random, Root) for at in range(200)]
    mixed = [*kinds, *leaves]
    drawn = [function(f"drawn{at}", 50, mixed, random) for at in range(200)]
    many = [type(f"Type{at}", (Root,), {}) for at in range(100)]
    large = {count: function(f"large{count}", count, many, random) for count in SIZES}
    inputs = {
        "200 functions x 50 methods, sound": (sound, leaves),
        "200 functions x 50 methods, random": (drawn, leaves),
        **{f"1 function x {n:,} methods": ([f], many) for n, f in large.items()},
    }
    contenders = [
        harness.Contender(name, lambda given=given: analyze(*given))
        for name, given in inputs.items()
    ]
    samples = harness.interleave(contenders, options.rounds, sample_seconds=0)
    medians = harness.medians(samples)
    rows = []
    for name, (functions, universe) in inputs.items():
        found = analyze(functions, universe)
        shown = (f"{1e3 * medians[name]:.0f}", f"{len(found.of('MDT001')):,}")
        rows.append((name, str(found.methods), str(found.universe), *shown))
    biggest, half = (f"1 function x {n:,} methods" for n in (SIZES[-1], SIZES[-2]))
    growth = harness.ratio(samples, biggest, half)
    limits = [
        harness.Limit(f"seconds for {name}", medians[name], 2.0, " s")
        for name in list(inputs)[:2]
    ]
    limits += [
        harness.Limit(f"seconds for {biggest}", medians[biggest], 1.0, " s"),
        harness.Limit("growth of time, 5,000 to 10,000 methods", growth.median, 4.0),
    ]
    harness.report(
        "diagnose",
        "Analysis of method tables, all rules",
        ("tables", "methods", "types", "ms", "ambiguities"),
        rows,
        limits,
        save=not options.no_save,
    )


if __name__ == "__main__":
    main()
