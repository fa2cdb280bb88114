"""What would run: the method that a call selects, without calling it."""

from __future__ import annotations

from typing import Any

from mdtensor.errors import OptionError, shown
from mdtensor.selection import Selection


def which(operation: Any, /, *arguments: Any) -> Selection:
    """The method of `operation` for arguments of these types; prints as one line.

    Args:
        operation: what `generic` declared.
        arguments: tensors and Python scalars, of which only the types count, or types.
            Those at the end that have defaults may be left out.

    Raises:
        OptionError: `operation` is none.
        DispatchError: no method fits, or two fit equally well.

    Example:
        >>> import mdtensor as md
        >>> print(md.which(md.relu, md.Float32Tensor))  # doctest: +ELLIPSIS
        relu(Float32Tensor) -> relu(RealTensor)  mdtensor/ops/activation.py:...
        >>> md.which(md.add, md.asarray([1]), 2).method.rounds
        False

    Source: Julia, `@which`.
    """
    if not hasattr(operation, "operation"):
        raise OptionError(f"{shown(operation)} is no operation", "See md.operations()")
    types = (x if isinstance(x, type) else type(x) for x in arguments)
    found: Selection = operation.select(*types)
    return found


def why(selection: Selection) -> str:
    """Why this method: what else fits the types, and is less specific.

    Example:
        >>> import mdtensor as md
        >>> from mdtensor.quant import QInt8Tensor
        >>> why(which(md.neg, md.Int8Tensor))
        'the only method that fits'
        >>> why(which(md.mul, QInt8Tensor, QInt8Tensor))[:19]
        'more specific than '

    Source: Julia, "Methods"; plum, "Method Precedence".
    """
    fitting = [m for m in selection.operation.methods if m.accepts(selection.types)]
    others = [str(m) for m in fitting if m is not selection.method]
    if not others:
        return "the only method that fits"
    return f"more specific than {' and '.join(others)}"
