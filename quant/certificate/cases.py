"""All cases, in the order of the hash."""

from functools import cache

from mdtensor.quant.certificate import calls, elementwise, kernels, limits, products
from mdtensor.quant.certificate.digest import Case


@cache
def every_case() -> tuple[Case, ...]:
    """The cases by title; titles differ."""
    parts = (kernels, products, elementwise, calls, limits)
    found = [case for part in parts for case in part.cases()]
    assert len({case.title for case in found}) == len(found), "two cases of one title"
    return tuple(sorted(found, key=lambda case: case.title))


def chosen(quick: bool) -> tuple[Case, ...]:
    """All cases, or those that compile in seconds."""
    return tuple(case for case in every_case() if case.is_quick or not quick)
