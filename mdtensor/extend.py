"""Building blocks for operations of your own package; see `docs/how-to/extending.md`.

There are types for annotations, shape rules for `generic`, and functions for methods:

    deduced(operation, *operands, **options)    # checks, then returns type and shape
    compute(operation, kernel, *operands)       # the same, then runs your kernel
    describe("f", x)                            # the text of a call, for your errors
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor.errors import OptionError, RegistrationError, describe, shown
from mdtensor.generics.reduction import reduction as reduction
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import widen
from mdtensor.kernels.numpy.ufunc import run_and_round
from mdtensor.ops.operands import (
    Dense as Dense,
    Inexact as Inexact,
    Operand as Number,
    Real as Real,
    deduced,
    number,
)
from mdtensor.promotion import result_type
from mdtensor.spec.elementwise import (
    arithmetic as arithmetic,
    broadcast as broadcast,
    comparison as comparison,
    fractional as fractional,
    predicate as predicate,
    same as same,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

__all__ = [
    "Dense",
    "Inexact",
    "Number",
    "Real",
    "arithmetic",
    "broadcast",
    "comparison",
    "compute",
    "deduced",
    "describe",
    "fractional",
    "predicate",
    "reduction",
    "same",
]


def compute(
    operation: Any, kernel: Callable[..., Any], /, *operands: Any, **options: Any
) -> Tensor:
    """Compute a tensor with your own kernel, element by element.

    The shape rule of the operation runs first, so operands that do not fit raise before
    the kernel runs. The kernel receives NumPy arrays of the promoted type; narrow
    floats (16 bits or less) are float32. Its result is rounded once to the element
    type that the shape rule returns. Floating-point warnings are off.

    Args:
        operation: what `generic` declared, with a shape rule.
        kernel: a function of one array per operand. The arrays broadcast, and the
            kernel must not write to them.
        operands: tensors of the host, and Python numbers.
        options: passed to the shape rule and to the kernel.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: the operands do not fit.
        RegistrationError: the kernel's result does not have the inferred shape.

    Example:
        >>> import mdtensor as md
        >>> @md.generic(deduce=md.extend.arithmetic)
        ... def middle(x1, x2, /): ...
        >>> @md.method(middle)
        ... def middle(x1: md.extend.Number, x2: md.extend.Number, /):
        ...     return md.extend.compute(middle, lambda a, b: (a + b) / 2, x1, x2)
        >>> middle(md.asarray([1.0, 2.0], dtype=md.float16), 3)
        Float16Tensor[2]([2. , 2.5])
    """
    if not callable(kernel):
        problem = f"the kernel {shown(kernel)} is not callable"
        raise OptionError(problem, "Give a function of arrays")
    result: TensorSpec = deduced(operation, *operands, **options)
    joint = result_type(*operands)
    arrays = [widen(promote(number(x, joint), joint.storage)) for x in operands]

    def run(*given: Any) -> Any:
        return kernel(*given, **options)

    found = np.asarray(run_and_round(run, result.dtype.storage, *arrays))
    if found.shape != result.shape:
        raise RegistrationError(
            f"the kernel gave shape {found.shape}, deduced is {result.shape}",
            "Change the kernel, or the deduction",
            describe(operation.__name__, *operands),
        )
    made: Tensor = result.type.wrap(found)
    return made
