"""Rounding rules: each reproduces the results of one library, bit for bit.

Libraries round the same int8 sum in different ways. `exact` is the rational result,
rounded once, half to even. Every other name stands for the results of one library:

    onnx         dequantize, operate and quantize in float32, as ONNX specifies it
    ort_cpu      ONNX Runtime's operators of quantized tensors on x86
    tflite_ref   LiteRT's reference kernels
    tflite_opt   LiteRT's optimized kernels, without a delegate
    xnnpack_x86  XNNPACK on x86, to which LiteRT delegates by default
    xnnpack_arm  XNNPACK on Arm

A call uses the rule of its `rounding=`; else the rule of the grid `out=`; else the rule
of the context, `with quant.rounding(...)`; else `exact`.
"""

from contextvars import ContextVar
from typing import Generic, TypeVar

from mdtensor import OptionError
from mdtensor.errors import shown, written
from mdtensor.extend import add_setting, explain_wrong_calls

T = TypeVar("T")


class Scope(Generic[T]):
    """A context variable that `with` blocks set at their start and reset at their end.

    A value applies to one thread, or one asynchronous task.

    Args:
        variable: the variable that the blocks set.

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
        # The outer values belong to the context instead of the block: several threads
        # or tasks can enter one block at a time, and a block can be nested in itself.
        self._outer: ContextVar[tuple[T, ...]] = ContextVar("outer", default=())

    def enter(self, value: T) -> None:
        """Set the value until `leave`."""
        self._outer.set((*self._outer.get(), self.variable.get()))
        self.variable.set(value)

    def leave(self) -> None:
        """Reset the value to the outer one; do nothing in a context without one."""
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
#: The rule of this context; it is a part of the key of bound calls.
CURRENT: ContextVar[str] = ContextVar("rounding", default=EXACT)
add_setting(CURRENT)
_BLOCKS = Scope(CURRENT)


def check_rule(name: object) -> str:
    """Return `name` if it is the name of a rounding rule.

    Raises:
        OptionError: a rule of this name does not exist; the error lists the names.
    """
    if isinstance(name, str) and name in NAMES:
        return name
    # A name may have any length, and a comparison takes quadratic time.
    text = name[:99] if isinstance(name, str) else shown(name)
    # Imported late, because it takes longer than all of this module.
    from difflib import get_close_matches

    near = get_close_matches(text, NAMES, n=1)
    hint = f"Did you mean {near[0]!r}? There are" if near else "Use one of"
    problem = f"{written('rounding')} is {shown(name)}"
    raise OptionError(problem, f"{hint} {', '.join(NAMES)}")


def current() -> str:
    """Return the rule of this context, which applies to calls without a rule."""
    return CURRENT.get()


# A rule is chosen by name and travels in the grid, so that no method needs a parameter
# for it (decision 0019).
@explain_wrong_calls
class rounding:
    """A context that rounds quantized results by a rounding rule.

    The rule applies to this thread, or asynchronous task, and to the code that it
    calls. The rule of a call or of a model takes precedence over it.

    Args:
        rule: the name of the rule.

    Raises:
        OptionError: a rule of this name does not exist.

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
