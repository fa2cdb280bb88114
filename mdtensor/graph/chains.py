"""Neighbouring elementwise calls of float32, joined into one loop over their elements.

    calls     mul(%0, %1), add(%3, %2), hardswish(%4)
    joined    one loop, which reads %0, %1 and %2 and writes the result of hardswish

    calls     max(%0), sub(%0, %1), exp(%2), sum(%3), div(%3, %4)
    joined    one loop over rows, which stay in the caches: a softmax

    calls     matmul(%0, %1), add(%3, %2), relu(%4)
    joined    the product, and one loop that overwrites its fresh result

Reductions of the last axis that keep it take part if what follows has the shape of what
they reduce. A block then is whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mdtensor.graph.calls import Call, Output
from mdtensor.graph.groups import Group, number_of
from mdtensor.graph.links import Link, link_of
from mdtensor.graph.products import is_product


def chained(items: Sequence[Any], needed: Iterable[int]) -> list[Any]:
    """Return items in order, with elementwise calls joined into loops.

    Args:
        items: calls, and others that stand for several calls and have `reads`.
        needed: the numbers of the calls whose results other items read.
    """
    links = {
        item.number: link
        for item in items
        if isinstance(item, Call) and (link := link_of(item)) is not None
    }
    readers, rows = _readers(items, links), _rows(links)
    outside, groups = set(needed), dict[int, Group]()
    for number in reversed(links):
        owners = {
            id(groups[r]): groups[r] for r in readers.get(number, ()) if r is not None
        }
        is_inner = number not in outside and None not in readers.get(number, [None])
        if is_inner and len(owners) == 1:
            (group,) = owners.values()
            if group.take(links[number]):
                groups[number] = group
                continue
        groups[number] = Group(links[number], rows)
    _take_products(items, groups, readers, outside)
    return [x for item in items for x in _replaced(item, groups)]


def _rows(links: dict[int, Link]) -> set[int]:
    """Return the numbers of reductions, and of links that compute with them alone.

    Their results have one element for each row, which a loop repeats along its row.
    """
    found: set[int] = set()
    for number, link in links.items():
        is_narrow = link.shape[-1:] == (1,)
        reads = {number_of(x) for x in link.tensors}
        if link.reduces or (is_narrow and reads & found):
            found.add(number)
    return found


def _readers(
    items: Sequence[Any], links: dict[int, Link]
) -> dict[int, list[int | None]]:
    """Return which links read the result of each call; None stands for other items."""
    found: dict[int, list[int | None]] = {}
    for item in items:
        is_call = isinstance(item, Call)
        reader = item.number if is_call and item.number in links else None
        sources = item.sources if is_call else item.reads
        for source in sources:
            if isinstance(source, Output):
                found.setdefault(source.call.number, []).append(reader)
    return found


def _take_products(
    items: Sequence[Any],
    groups: dict[int, Group],
    readers: dict[int, list[int | None]],
    outside: set[int],
) -> None:
    """Give each group the last product that it alone reads, and add it to `groups`."""
    # The product runs where the loop does, so the last one waits the least.
    for item in reversed(items):
        if not is_product(item) or item.number in outside:
            continue
        found = readers.get(item.number, ())
        owners = {None if r is None else groups[r] for r in found}
        group = owners.pop() if len(owners) == 1 else None
        if group is not None and group.take_product(item):
            groups[item.number] = group


def _replaced(item: Any, groups: dict[int, Group]) -> Iterable[Any]:
    """Yield what runs in the place of an item: a group runs where its last call did."""
    group = groups.get(item.number) if isinstance(item, Call) else None
    if group is None or not group.pays:
        yield item
    elif group.links[-1].call is item:
        yield group.joined()
