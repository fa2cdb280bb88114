"""Special functions, element by element."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.spec.elementwise import same


@generic(deduce=same)
def erf(x: Any, /, *, out: Any = None, rounding: Any = None) -> Any:
    """Return the error function, 2/√π · ∫ exp(-t²) dt from 0 to x.

    Within 1 ulp in float64; narrower floats are computed in float64, rounded once.

    Args:
        x: any shape, floating or quantized.
        out, rounding: grid and rounding rule of a quantized result.

    Example:
        >>> import mdtensor as md
        >>> md.erf(md.asarray([0.0, float("inf")])).tolist()
        [0.0, 1.0]

    Source: ONNX `Erf`; PyTorch, `torch.special.erf`.
    """
