"""Races whose rounds take turns: each is measured in the whole time of all.

A virtual machine has spells of 0.2 to 2 seconds in which its processors are the two
threads of one core of its host: a line of the cache goes from one to the other and back
in 28 ns, at other times in 67, and a second thread gains nothing. A row alone can lie
in such a spell. Of rows in turns each meets its share, and its median is that of the
machine at most times.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from bench.harness.machine import pinned
from bench.harness.reading import Reading
from bench.harness.row import Race, Row
from bench.harness.turns import Effort, collected


def read(rows: Sequence[Row], effort: Effort) -> Iterator[tuple[Row, list[Reading]]]:
    """Each row with its readings, in order; neighbours that are spread in turns."""
    for threads, group in groupby(rows, _spread_on):
        if threads:
            races = [row for row in group if isinstance(row, Race)]
            yield from _in_turns(races, threads, effort)
        else:
            yield from ((row, row.read(effort)) for row in group)


def _spread_on(row: Row) -> int:
    """On how many processors it is spread; 0: it is not."""
    return row.threads if isinstance(row, Race) and row.is_spread else 0


def _in_turns(
    races: Sequence[Race], threads: int, effort: Effort
) -> Iterator[tuple[Row, list[Reading]]]:
    with pinned(threads):
        going = [race.rounds(effort) for race in races]
        rounds = [[next(one) for one in going] for _ in range(effort.rounds)]
    for race, own in zip(races, zip(*rounds, strict=True), strict=True):
        yield race, race.readings(collected(own))
