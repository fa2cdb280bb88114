"""Trial calls: a selected call runs once under observation, on copies or on ones."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from mdtensor.device import cpu
from mdtensor.dispatch.call_errors import call_text, refuse_out
from mdtensor.dispatch.introspect import without_traces
from mdtensor.dispatch.method import Selection, Trial
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import DeviceError, MdtensorError, OptionError, no_method_on
from mdtensor.kernels import observe
from mdtensor.promotion import is_weak, result_type
from mdtensor.registry import devices_of
from mdtensor.spec.spec import TensorSpec
from mdtensor.support_table import VALUES, Form, call_of, find_form
from mdtensor.tensor import Tensor

_NUMBERS = (bool, int, float, complex)


def try_call(selection: Selection) -> Trial:
    """Run a selected call once; if it raises, the trial holds the error."""
    with without_traces():
        return _try(selection)


def _try(selection: Selection) -> Trial:
    if (missing := _missing_device(selection)) is not None:
        return Trial(error=missing)
    try:
        # Apart from the call: if no arguments are known, nothing has been tried.
        arguments, options = _call(selection)
    except MdtensorError as error:
        return Trial(unknown=str(error))
    with observe.observe_kernels() as seen:
        try:
            options = selection.operation.fill(options)
            result = _function(selection, options)(*arguments, **options)
        except Exception as error:  # whatever the call raises is its result
            return Trial(error=error, kernels=tuple(seen.kernels))
    promotion = _promotion(selection, arguments, result, seen.casts)
    found = _specs(result), None, promotion, tuple(seen.casts), tuple(seen.kernels)
    return Trial(*found)


Selection.try_call = staticmethod(try_call)


def _missing_device(selection: Selection) -> MdtensorError | None:
    """Return the error of tensors on a device that cannot run the method here."""
    homes = {t.device for t in selection.types if hasattr(t, "device")}
    call = call_text(selection.operation, selection.types)
    for home in sorted(homes, key=lambda home: home is not cpu):
        if home.missing:
            return DeviceError(f"{home}: {home.missing}", "Use cpu", call)
        if len(homes) == 1 and home not in devices_of(selection.method):
            return no_method_on(home, call, selection.types)
    return None


def _function(selection: Selection, options: dict[str, Any]) -> Any:
    """Return what the call runs, given options that are filled in."""
    if (refusal := Operation.refusal(selection)) is not None:
        return refusal
    if "out" not in options:
        return selection.function
    if selection.method.rounds:
        return selection.method.implementation

    # The call would raise this error, so the trial must do the same.
    def refuse(*arguments: Any, **given: Any) -> Any:
        refuse_out(selection.operation, *arguments, **given)

    return refuse


def _call(selection: Selection) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments and options that the trial may change."""
    operation, types = selection.operation, selection.types
    given = selection.arguments
    asked: tuple[Any, ...] = types if given is None else given
    asked = (*asked, *_missing_defaults(operation, len(asked)))
    options = dict(selection.options)
    if (
        any(isinstance(x, type) for x in asked)
        or _required_options(operation) - options.keys()
    ):
        asked, options = _fill_in(operation, asked, options)
    return [_value_of(x) for x in asked], {k: _value_of(v) for k, v in options.items()}


def _missing_defaults(operation: Any, given: int) -> list[Any]:
    """Return the defaults of the arguments after the first `given` ones."""
    # Its one parameter stands for any number of tensors.
    if operation.sequence:
        return []
    parameters = operation.signature.parameters
    return [parameters[name].default for name in operation.dispatched[given:]]


def _required_options(operation: Any) -> set[str]:
    """Return the options that have no default."""
    empty = operation.signature.empty
    return {name for name, given in operation.options.items() if given is empty}


def _fill_in(
    operation: Any, asked: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the call with specs and values in the place of types."""
    form = find_form(operation)
    first = next((x for x in asked if _is_tensor_type(x)), None)
    if form is None or first is None:
        raise OptionError(
            f"no arguments of {operation.name} are known for these types",
            "Give values, or specs and options",
        )
    ranks, found = iter(form.ranks), []
    names = operation.dispatched * (len(asked) if operation.sequence else 1)
    for name, kind in zip(names, asked, strict=False):
        rank = next(ranks, 1) if _is_tensor(kind) else 0
        found.append(_of_type(name, kind, (form.size,) * rank, first))
    return tuple(found), _defaults(operation, first, form) | options


def _defaults(operation: Any, first: Any, form: Form) -> dict[str, Any]:
    return call_of(operation, first, form)[1]


def _is_tensor_type(x: Any) -> bool:
    return isinstance(x, type) and issubclass(x, Tensor) and hasattr(x, "dtype")


def _is_tensor(x: object) -> bool:
    return _is_tensor_type(x) or isinstance(x, (Tensor, TensorSpec))


def _of_type(name: str, kind: Any, shape: tuple[int, ...], first: Any) -> Any:
    """Return a spec or value of the type `kind`; return `kind` if it is not a type."""
    if not isinstance(kind, type):
        return kind
    if _is_tensor_type(kind):
        return kind.spec(shape)  # type: ignore[attr-defined]
    if kind in _NUMBERS:
        return kind(1)
    if kind is type(None):
        return None
    if name in VALUES:
        return VALUES[name](first.spec(shape or (2, 2)))
    raise OptionError(f"{name} is a type, {kind.__name__}", "Give a value of it")


def _value_of(x: object) -> Any:
    """Return ones for a spec, a copy of a tensor; other values as they are."""
    if isinstance(x, TensorSpec):
        return _ones(x)
    # An operation may write into its argument, as `setitem` does.
    return deepcopy(x) if isinstance(x, Tensor) else x


def _ones(spec: TensorSpec) -> Any:
    # Unknown sizes become 1, which broadcasts with every other size.
    shape = tuple(
        size if isinstance(size, int) and size >= 0 else 1 for size in spec.shape
    )
    if spec.qparams is None:
        ones = np.ones(shape, spec.dtype.storage)
        return spec.type.wrap(spec.device.from_host(ones))
    # Codes of 1 exist in each quantized type.
    return spec.type(np.ones(shape, np.int8).tolist(), spec.qparams)


def _promotion(selection: Selection, arguments: Any, result: Any, casts: Any) -> Any:
    """Return the common element type, where the result or a cast shows its use."""
    operands = [x for x in arguments if isinstance(x, Tensor) or is_weak(x)]
    kinds = {type(x) for x in operands}
    if len(kinds) < 2 or not any(isinstance(x, Tensor) for x in operands):
        return None
    try:
        common = result_type(*operands)
    except MdtensorError:
        return None
    if any(cast.target == common.name for cast in casts):
        return common
    # A Python number is made in the common type: no cast shows. Where operands cannot
    # change places, as in `repeat`, it is not an operand.
    has_number = any(map(is_weak, operands))
    is_common = getattr(result, "dtype", None) is common
    if not (has_number and is_common):
        return None
    turned = selection.operation.find(selection.types[::-1])
    return None if turned is None else common


def _specs(result: object) -> Any:
    """Return specs in the place of tensors."""
    if isinstance(result, Tensor):
        return TensorSpec(type(result), result.shape, getattr(result, "qparams", None))
    if isinstance(result, (tuple, list)):
        return tuple(_flat(result))
    return result


def _flat(results: Any) -> Iterator[Any]:
    return (_specs(each) for each in results)
