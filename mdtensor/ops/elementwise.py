"""`elementwise`: operations from Python functions of single elements."""

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from mdtensor.dispatch.declaration import parameter_docs
from mdtensor.dispatch.operation import generic, method
from mdtensor.dtypes import DType, dtype as find_dtype
from mdtensor.errors import (
    DispatchError,
    PromotionError,
    RegistrationError,
    ShapeError,
    checked,
)
from mdtensor.kernels.numpy import threads
from mdtensor.kernels.numpy.layout import Operand as Elements, address
from mdtensor.ops.for_each import kernel, number, plain_function, translate_errors
from mdtensor.ops.operands import Operand, allocate, deduced, on_host
from mdtensor.ops.views import operand
from mdtensor.promotion import result_type
from mdtensor.spec.shapes import broadcast_shapes
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor

#: The fewest elements for one thread.
GRAIN = 1 << 16
#: Descriptions of parameters that the function's docstring does not describe.
EACH = "any shape, or a number."
OUT = "the tensor to write, of the result's type and shape."
#: The fix for functions that cannot name an operation, such as lambdas.
DEFINE = "Write def f(x, y): return ..."
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@overload
def elementwise(function: Callable[..., Any], /, *, dtype: Any = None) -> Any: ...
@overload
def elementwise(*, dtype: Any = None) -> Callable[[Callable[..., Any]], Any]: ...
# The function becomes an ordinary operation, so that it is selected, inferred and
# extended like all others (decision 0012).
def elementwise(
    function: Callable[..., Any] | None = None, /, *, dtype: object = None
) -> Any:
    """Declare an operation that applies `function` to the elements of its arguments.

    The result has the promoted type of the tensors, and the shape to which they
    broadcast. Numba compiles the function at the first call for these element types.
    Inside it, floats of 16 bits or less are float32 and other elements keep their type;
    Python's numbers are float64 and int64, and not rounded to the tensors' type.
    Each return value is rounded once. Division by zero does not raise: it gives 0 for
    integers, inf or nan for floats. You can use `select` and `which` on the operation
    and add methods with `method`. It also takes `out=`, the tensor to write.

    Args:
        function: takes numbers and returns a number. The operation has its parameters,
            which you may pass by position or by name, and its docstring.
        dtype: the element type of the result, if it is not the promoted type: bool for
            a predicate, a floating type for fractions of integers.

    Returns:
        The operation, for tensors on the host.

    Raises:
        RegistrationError: the function does not have a name or parameters, or has
            parameters that are not positional.
        CompileError: at a call; numba cannot compile the function for these types, its
            result does not fit the element type, or it combines uint64 with a signed
            integer where the result may be wrong: by //, % and comparisons.
        DataError: at a call; the function shifts an integer by a negative count, or
            raises one to a negative power.

    Example:
        >>> import mdtensor as md
        >>> @md.elementwise
        ... def smoothstep(x, low, high):
        ...     t = min(max((x - low) / (high - low), 0.0), 1.0)
        ...     return t * t * (3.0 - 2.0 * t)
        >>> smoothstep(md.asarray([[0.0], [0.25], [2.0]]), 0.0, 0.5)
        Float32Tensor[3,1]([[0. ],
                            [0.5],
                            [1. ]])
        >>> smoothstep(md.asarray([0.25]), 0.0, md.asarray([[0.5], [1.0]])).tolist()
        [[0.5], [0.15625]]

    Source: NumPy, `frompyfunc`; numba, `vectorize`; fVDB, `for_each` with flat views.
    """
    if function is None:
        return lambda function: elementwise(function, dtype=dtype)
    function = checked(
        "elementwise", (function,), lambda: plain_function(function, DEFINE)
    )
    chosen = None if dtype is None else find_dtype(dtype)
    operands = _parameters(function)
    out = Parameter("out", Parameter.KEYWORD_ONLY, default=None, annotation=Any)

    def declaration(*_: Any, **__: Any) -> Any: ...

    _dress(declaration, function, [*operands, out])
    # Callers may pass the operands by name, in contrast to built-in operations.
    declaration.is_named = True  # type: ignore[attr-defined]
    operation = generic(declaration, deduce=_rule(chosen))

    def implementation(*arguments: Any, out: Any = None) -> Any:
        given = arguments if out is None else (*arguments, out)
        return checked(
            operation.__name__,
            given,
            lambda: _compute(operation, function, arguments, out),
        )

    typed = [parameter.replace(annotation=Operand) for parameter in operands]
    _dress(implementation, function, [*typed, out])
    return method(operation)(implementation)


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of the function as positional-only ones.

    Raises:
        RegistrationError: there are none, or some are not positional.
    """
    name = function.__name__
    found = list(signature(function).parameters.values())
    fix = DEFINE
    if not name.isidentifier():
        raise RegistrationError(f"{name} is not a name for an operation", fix)
    if not found or any(p.kind not in _POSITIONAL or p.name == "out" for p in found):
        raise RegistrationError(f"{name} has parameters that are not positional", fix)
    return [p.replace(kind=Parameter.POSITIONAL_ONLY, annotation=Any) for p in found]


def _dress(
    made: Any, function: Callable[..., Any], parameters: list[Parameter]
) -> None:
    """Give `made` the name, signature and source location of `function`."""
    made.__name__, made.__qualname__ = function.__name__, function.__qualname__
    made.__module__ = function.__module__ or "__main__"  # exec sets None
    # `inspect` and documentation tools find the source through this attribute.
    made.__wrapped__ = function
    made.__signature__ = Signature(parameters)
    made.__annotations__ = {p.name: p.annotation for p in parameters}
    made.__doc__ = _docstring(function, [p.name for p in parameters])


def _docstring(function: Callable[..., Any], names: list[str]) -> str:
    """Return the function's docstring, completed by the parameters it omits."""
    text = cleandoc(function.__doc__ or f"{function.__name__}, element by element.")
    known = parameter_docs(function)
    entries = [
        f"    {name}: {OUT if name == 'out' else EACH}"
        for name in names
        if name not in known
    ]
    head, section, rest = text.partition("Args:\n")
    if not section:
        head = f"{text}\n\n"
    return "\n".join([f"{head}Args:", *entries, rest])


def _rule(dtype: DType | None) -> Callable[..., TensorSpec]:
    """Return a rule that infers the declared or promoted type and the joint shape."""

    def rule(*operands: Any, **_: Any) -> TensorSpec:
        tensors = [x for x in operands if isinstance(x, TensorSpec)]
        if not tensors:
            fix = "Use asarray(x) on one of them"
            raise DispatchError("none of the arguments is a tensor", fix)
        shape = broadcast_shapes(*(x.shape for x in tensors))
        found = dtype or result_type(*tensors)
        return tensors[0].with_dtype(found).with_shape(shape)

    return rule


def _compute(
    operation: Any, function: Any, arguments: tuple[Any, ...], out: Any
) -> Tensor:
    name = operation.__name__
    if out is not None:
        on_host(name, *arguments, out)
    spec = deduced(operation, *arguments)
    result = _result(name, spec, arguments) if out is None else out
    target = operand(name, result, writes=True)
    if out is not None:
        _check_out(spec, out)
    elements = [_elements(name, x, target.array) for x in arguments]
    if out is not None:
        # Writing one element must not change an operand that is still to be read.
        elements = [_apart(x, target.array) for x in elements]
    with translate_errors(function):
        work = kernel().elementwise(function, target, elements)
        threads.run(work, target.array.size, "uniform", GRAIN)
    return result


def _result(name: str, spec: TensorSpec, arguments: tuple[Any, ...]) -> Tensor:
    """Return a new tensor with the memory order of the first argument of its shape."""
    storage = spec.dtype.storage
    like = [x.buffer for x in arguments if getattr(x, "shape", None) == spec.shape]

    def make() -> Any:
        # With the strides of an operand, the loop runs over memory in order.
        if like:
            return np.empty_like(like[0], storage)
        return np.empty(spec.shape, storage)

    found: Tensor = spec.type.wrap(allocate(make, name, *arguments))
    return found


def _check_out(spec: TensorSpec, out: Tensor) -> None:
    if type(out) is not spec.type:
        fix = f"Use an out of {spec.dtype}, or elementwise(dtype={out.dtype})"
        raise PromotionError(
            f"out has dtype {out.dtype}, but the result has dtype {spec.dtype}", fix
        )
    if out.shape != spec.shape:
        problem = f"out has shape {out.shape}, but the result has shape {spec.shape}"
        raise ShapeError(problem, f"Pass an out of shape {spec.shape}")


def _elements(name: str, x: object, target: npt.NDArray[Any]) -> Any:
    """Return a number, or the operand broadcast to the shape of `target`."""
    if not isinstance(x, Tensor):
        return number(x)
    found = operand(name, x)
    # broadcast_to would make a read-only view without need.
    if found.array.shape == target.shape:
        return found
    return found._replace(array=np.broadcast_to(found.array, target.shape))


def _apart(x: object, target: npt.NDArray[Any]) -> Any:
    """Return the operand, or a copy if it overlaps `target` at other elements."""
    if not isinstance(x, Elements) or not np.may_share_memory(x.array, target):
        return x
    # At equal addresses and strides each element is read before it is written.
    is_same = x.array.strides == target.strides and address(x.array) == address(target)
    return x if is_same else x._replace(array=x.array.copy())
