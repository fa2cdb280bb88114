"""The logarithm of a sum of exponentials: `logsumexp`."""

from typing import Any

from mdtensor.compositions import as_real, as_tensor
from mdtensor.dispatch.composed import composed
from mdtensor.dtypes import bfloat16, float16, float32
from mdtensor.errors import DispatchError, checked, describe
from mdtensor.generics.arithmetic import add, sub
from mdtensor.generics.conversion import astype
from mdtensor.generics.manipulation import reshape
from mdtensor.generics.math import exp, isfinite, log
from mdtensor.generics.reduction import max as largest, sum
from mdtensor.generics.sorting import where
from mdtensor.spec.options import flag


@composed
def logsumexp(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Return log(Σ exp(x)) over axes, where no exponential overflows.

    The largest element is subtracted before `exp` and added after `log`. Each step
    rounds; float16 and bfloat16 are computed in float32 and rounded once.

    Args:
        x: floating, at least one element in each result.
        axis: one axis, several, or None for all axes.
        keepdims: whether the axes stay, with size 1.

    Returns:
        The type of `x`.

    Raises:
        DispatchError: `x` is not floating.
        ShapeError: the axis does not exist, or it is empty.

    Example:
        >>> import mdtensor as md
        >>> md.logsumexp(md.asarray([1000.0, 1000.0])).item()
        1000.6931762695312

    Source: PyTorch, `torch.logsumexp`; SciPy, `scipy.special.logsumexp`.
    """
    x = as_tensor(x, "logsumexp")
    if x.dtype.kind != "bool":
        x = as_real(x, "logsumexp")
    if not x.dtype.is_floating:
        call = describe("logsumexp", x)
        raise DispatchError(f"x is {x.dtype}", "Use astype(x, float32)", call)
    checked("logsumexp", (x,), lambda: flag(keepdims, "keepdims"))
    wide = astype(x, float32) if x.dtype in (float16, bfloat16) else x
    top = largest(wide, axis=axis, keepdims=True)
    # An infinity minus itself is NaN: without it the sum is an infinity or 0.
    shift = where(isfinite(top), top, 0.0)
    total = sum(exp(sub(wide, shift)), axis=axis, keepdims=True)
    found = add(log(total), shift)
    if not keepdims:
        found = reshape(found, largest(wide, axis=axis).shape)
    return astype(found, x.dtype) if wide is not x else found
