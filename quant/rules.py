"""Rules of rounding: which of a library's answers a result is to equal, bit for bit.

There is no single int8 result. `exact` is the rational result rounded once, half to
even; each other name is what one library computes:

    onnx         dequantize, operate and quantize in float32, as ONNX writes it
    ort_cpu      ONNX Runtime's operators of quantized tensors on x86
    tflite_ref   LiteRT's reference kernels
    tflite_opt   LiteRT's optimized kernels, without a delegate
    xnnpack_x86  XNNPACK on x86, which LiteRT delegates to by default
    xnnpack_arm  XNNPACK on Arm

The rule of a call is that of its `rounding=`, else the one its `out=` carries, else
that of the context, `with quant.rounding(...)`, else `exact`.
"""

import difflib
from contextvars import ContextVar
from typing import Generic, TypeVar

from mdtensor import OptionError
from mdtensor.errors import shown, written

# Values that hold in a block, for this thread or this asynchronous task.

T = TypeVar("T")


class Scope(Generic[T]):
    """A context variable that blocks set, and put back when they are left.

    What to put back belongs to the context, not to the block: one block may be entered
    by several threads or tasks at a time, and again inside of itself.

    Args:
        variable: what the blocks set.

    Example:
        >>> scope = Scope(ContextVar("size", default=1))
        >>> scope.enter(2)
        >>> scope.variable.get()
        2
        >>> scope.leave()
        >>> scope.variable.get()
        1
    """

    def __init__(self, variable: ContextVar[T]) -> None:
        self.variable = variable
        self._outer: ContextVar[tuple[T, ...]] = ContextVar("outer", default=())

    def enter(self, value: T) -> None:
        """Set the value."""
        self._outer.set((*self._outer.get(), self.variable.get()))
        self.variable.set(value)

    def leave(self) -> None:
        """Put back what was there; nothing in a context that did not enter."""
        if outer := self._outer.get():
            self._outer.set(outer[:-1])
            self.variable.set(outer[-1])


EXACT = "exact"
NAMES = (
    EXACT,
    "onnx",
    "ort_cpu",
    "tflite_ref",
    "tflite_opt",
    "xnnpack_x86",
    "xnnpack_arm",
)
#: The rule of this context; a part of the key of bound calls.
CURRENT: ContextVar[str] = ContextVar("rounding", default=EXACT)
_BLOCKS = Scope(CURRENT)


def check_rule(name: object) -> str:
    """`name`, if it is that of a rule.

    Raises:
        OptionError: it is not; the error lists the names.
    """
    if isinstance(name, str) and name in NAMES:
        return name
    near = difflib.get_close_matches(str(name)[:99], NAMES, n=1)
    hint = f"Did you mean {near[0]!r}? There are" if near else "Use one of"
    problem = f"{written('rounding')} is {shown(name)}"
    raise OptionError(problem, f"{hint} {', '.join(NAMES)}")


def current() -> str:
    """The rule of this context, for results whose call names none."""
    return CURRENT.get()


# A rule is chosen by name and travels in the grid, so that no method needs a parameter
# for it (decision 0019).
class rounding:
    """A context whose quantized results are rounded by a rule.

    It holds for this thread, or this asynchronous task, and what is called from it; a
    rule that a call or a model names stands above it.

    Args:
        rule: its name.

    Raises:
        OptionError: no rule has this name.

    Example:
        >>> from mdtensor import quant
        >>> x = quant.QInt8Tensor([1], scale=0.5)
        >>> with quant.rounding("tflite_ref"):
        ...     found = quant.requantize(x, out=quant.QParams(1.0))
        >>> found.codes.tolist(), found.rounding
        ([1], 'tflite_ref')
        >>> quant.requantize(x, out=quant.QParams(1.0)).codes.tolist()
        [0]
    """

    def __init__(self, rule: str) -> None:
        self.rule = check_rule(rule)

    def __enter__(self) -> str:
        _BLOCKS.enter(self.rule)
        return self.rule

    def __exit__(self, *_: object) -> None:
        _BLOCKS.leave()

    def __repr__(self) -> str:
        return f"rounding({self.rule!r})"
