"""Who brought a module: the distribution that was installed to have it."""

from __future__ import annotations

from functools import cache
from importlib import metadata


def distribution(module: str) -> str:
    """The distribution of a module, or its outermost package if nobody says.

    Example:
        >>> distribution("mdtensor.quant.ops.arithmetic")
        'mdtensor'
    """
    package = module.partition(".")[0]
    owners = _owners().get(package, ())
    return owners[0] if owners else package


@cache
def _owners() -> dict[str, list[str]]:
    """Reading what is installed takes a while: once, and only for findings."""
    found = metadata.packages_distributions()
    return {package: sorted(set(names)) for package, names in found.items()}
