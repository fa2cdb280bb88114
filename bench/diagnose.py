"""Time of the checker of method tables: for many small tables, and for a large one.

`sound` has methods for 49 pairs of types and one fallback; `random` draws the types of
every method, so that about ten ambiguities are found in each function, each with its
fix. Both are read from plum, analysed by every rule, and reported.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from random import Random
from typing import Any

import plum

from bench.harness import Bench, Contender, Found, Promise, Race, Reason, Row
from mdtensor.diagnose import analyze

SIZES = (1250, 2500, 5000, 10_000)
SOUND, RANDOM = (f"200 functions x 50 methods, {kind}" for kind in ("sound", "random"))
OURS = "mdtensor"


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


def small(is_sound: bool) -> tuple[list[Any], list[type]]:
    """200 functions with 50 methods each, and the types of their arguments."""
    random = Random(0)
    kinds, leaves = lattice()
    pool, last = (leaves, Root) if is_sound else ([*kinds, *leaves], None)
    return [function(f"f{at}", 50, pool, random, last) for at in range(200)], leaves


def large(count: int) -> tuple[list[Any], list[type]]:
    many = [type(f"Type{at}", (Root,), {}) for at in range(100)]
    return [function(f"large{count}", count, many, Random(0))], many


def analysis(name: str, given: tuple[list[Any], list[type]]) -> Contender:
    return Contender(name, lambda: analyze(*given))


def counted(
    results: Mapping[str, Any], wanted: Mapping[str, int], is_ambiguous: bool = False
) -> None:
    """Check that every method was read, and that ambiguities were found if any."""
    for name, found in results.items():
        assert found.methods == wanted[name], name
        assert bool(found.of("MDT001")) == is_ambiguous, name


def rows(quick: bool) -> Iterator[Row]:
    for name in (SOUND, RANDOM):
        make = partial(lambda n: [analysis(OURS, small(n == SOUND))], name)
        check = partial(counted, wanted={OURS: 10_000}, is_ambiguous=name == RANDOM)
        yield Race(name, make, check, "Many tables", sample_seconds=0)
    for count in SIZES[:1] if quick else SIZES:
        names = {f"{count:,} methods": count, f"{count // 2:,} methods": count // 2}
        yield Race(
            f"one function, {count:,} methods",
            partial(lambda of: [analysis(n, large(c)) for n, c in of.items()], names),
            partial(counted, wanted=names),
            "One large table",
            ours=f"{count:,} methods",
            sample_seconds=0,
        )


def largest(found: Found) -> float:
    return found.value(f"one function, {SIZES[-1]:,} methods", f"{SIZES[-1]:,} methods")


def growth(found: Found) -> float:
    row = f"one function, {SIZES[-1]:,} methods"
    return found.ratio(row, f"{SIZES[-1] // 2:,} methods")


BENCH = Bench(
    "Analysis of method tables, all rules",
    rows,
    rounds=7,
    promises=[
        *(
            Promise(f"seconds for {name}", 2.0, lambda f, n=name: f.value(n), " s")
            for name in (SOUND, RANDOM)
        ),
        Promise("seconds for 1 function x 10,000 methods", 1.0, largest, " s"),
        Promise("growth of time, 5,000 to 10,000 methods", 4.0, growth),
    ],
    reasons=[Reason("twice the methods have up to four times the pairs")],
    notes=(
        "sound: each function has methods for 49 pairs of types and one fallback; "
        "random: the types of the methods are drawn at random, so there are about ten "
        "ambiguities in each function. A large table is compared with a table of half "
        "as many methods."
    ),
)
