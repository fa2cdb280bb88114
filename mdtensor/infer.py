"""Inference: type and shape of a result from specs, without computing elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mdtensor.dispatch.call import items
from mdtensor.dispatch.catalog import get_op
from mdtensor.dispatch.method import Selection
from mdtensor.dispatch.operation import Operation
from mdtensor.errors import (
    DeviceError,
    DispatchError,
    GridError,
    MdtensorError,
    OptionError,
    shown,
    type_and_shape,
)
from mdtensor.spec.spec import TensorSpec, TileSpec, is_tensor


# Inference uses the rule that methods check with, so it cannot promise what a call
# would reject (decision 0010).
def infer(operation: object, /, *arguments: Any, **options: Any) -> Any:
    """Return type and shape of the result of a call, without reading any element.

    Args:
        operation: an operation or its name, as `get_op` takes it.
        arguments: a `TensorSpec` or `TileSpec` for each tensor, or the tensor itself.
            Pass numbers and other arguments as in the call. Sizes may be unknown, -1,
            or named, `Dim("M")`.
        options: the options of the call.

    Returns:
        A spec, or a tuple of specs, with exactly the type and shape that the call would
        return under the active promotion rules. Sizes that are known only at run time
        are -1 or a `Dim`. Tiles give tiles. If an operation does not have methods, the
        shape rule of its declaration decides.

    Raises:
        MdtensorError: the error of the call, as far as it depends on types, shapes and
            options.
        DispatchError: there are too few or too many arguments, an undeclared option, or
            both tiles and tensors.

    Example:
        >>> import mdtensor as md
        >>> images = md.TensorSpec(md.UInt8Tensor, (md.Dim("batch"), 3, 224, 224))
        >>> scaled = md.infer(md.div, images, 255.0)
        >>> md.infer("mean", scaled, axis=(2, 3))
        TensorSpec(Float32Tensor[batch,3])

    Source: PyPTO, `create_op_call`; JAX, `eval_shape`.
    """
    # Imported late: most programs never ask (decision 0091).
    from mdtensor.dispatch.introspect import tensors

    call = get_op(operation) if isinstance(operation, str) else operation
    declared = getattr(call, "operation", None)
    if not isinstance(declared, Operation):
        raise OptionError(f"{shown(operation)} is not an operation", "See md.ops()")
    given = tensors(declared, arguments) if not declared.sequence else arguments
    specs = tuple(_specs(argument, declared.sequence) for argument in given)
    try:
        return _infer(operation, declared, specs, options)
    except MdtensorError as error:
        # An error of the rule that names its call is more exact than ours.
        if error.call:
            raise
        raise error.within(_call_text(declared, specs)) from None


def _infer(
    operation: object,
    declared: Operation,
    specs: tuple[Any, ...],
    given: dict[str, Any],
) -> Any:
    from mdtensor.dispatch.call_errors import bind, no_rounding_error

    specs, options = bind(declared, specs, given)
    if declared.sequence:
        specs = items(declared.name, specs[0])
    tensors = [*_flat((*specs, *options.values()))]
    _check_grids(tensors)
    # A spec is dispatched as the tensor that it describes.
    types = tuple(x.type if isinstance(x, TensorSpec) else type(x) for x in specs)
    if options.get("out") is not None and not declared.select(*types).method.rounds:
        raise no_rounding_error(specs)
    if declared.methods:
        selected = declared.select(*types)
        rule = (
            selected.deduce
            if selected.method.deduce
            else _rule_of_declaration(selected)
        )
    else:
        # Without methods there is no selection that would check the types.
        declared.admit(types)
        rule = declared.rule
        options = declared.fill(options)
    _check_devices(tensors)
    rank = _tile_rank(operation, tensors)
    found = rule(*specs, **options)
    return found if rank is None else _tiles(found, rank)


def _rule_of_declaration(selected: Selection) -> Callable[..., Any]:
    """Return the declared shape rule, with an error for types that it cannot know.

    Raises:
        DispatchError: the rule fails, and an argument has a type of another package.
            Only a rule of that package's method can infer the result.
    """

    def rule(*specs: Any, **options: Any) -> Any:
        try:
            return selected.deduce(*specs, **options)
        except Exception as error:
            kinds = [type(x) for x in specs if not isinstance(x, TensorSpec)]
            packages = {k: k.__module__.partition(".")[0] for k in kinds}
            known = ("builtins", __package__)
            strange = [k.__name__ for k in kinds if packages[k] not in known]
            # Errors about shapes and options of known types are the call's own errors.
            if not strange:
                raise
            problem = f"the declared shape rule does not take {strange[0]}"
            fix = f"Pass deduce= to method, for {selected.method}"
            raise DispatchError(problem, fix) from error

    return rule


def _specs(argument: Any, several: bool) -> Any:
    """Return specs for tensors, also inside a list; other values unchanged."""
    # Only a sequence operation takes lists of tensors; elsewhere a list is an option.
    if several and isinstance(argument, Iterable) and not is_tensor(argument):
        return tuple(_specs(part, False) for part in argument)
    if is_tensor(argument) and not isinstance(argument, TensorSpec):
        kind = type(argument)
        # The class is asked: a tensor takes 20 us to say that it lacks an attribute.
        qparams = argument.qparams if hasattr(kind, "qparams") else None
        return TensorSpec(kind, argument.shape, qparams)
    return argument


def _flat(arguments: Iterable[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _flat(argument)
        else:
            yield argument


def _call_text(declared: Operation, specs: tuple[Any, ...]) -> str:
    """Return the text of the call for errors."""
    shown = specs[: len(declared.dispatched)]
    if declared.sequence and specs and isinstance(specs[0], tuple):
        shown = specs[0]
    texts = (_argument_text(x) for x in shown if x is not None)
    return f"{declared.name}({', '.join(texts)})"


def _argument_text(argument: object) -> str:
    is_spec = isinstance(argument, TensorSpec)
    return str(argument) if is_spec else type_and_shape(argument)


def _check_grids(tensors: Iterable[Any]) -> None:
    """Raise for specs of quantized types that lack their grid."""
    for x in tensors:
        dtype = getattr(x.type, "dtype", None) if isinstance(x, TensorSpec) else None
        if dtype is not None and dtype.kind == "quantized" and x.qparams is None:
            name = x.type.__name__
            raise GridError(
                f"a spec of {name} has no grid",
                f"Use TensorSpec({name}, shape, QParams(...))",
            )


def _check_devices(tensors: Iterable[Any]) -> None:
    """Raise if the operands are on different devices."""
    homes = dict.fromkeys(x.device.name for x in tensors if is_tensor(x))
    if len(homes) > 1:
        first, second = [*homes][:2]
        fix = "Move one with to(device)"
        raise DeviceError(f"operands are on {first} and {second}", fix)


def _tile_rank(operation: object, tensors: Iterable[Any]) -> int | None:
    """Return the largest `max_rank` of the tiles; None for tensors.

    Raises:
        DispatchError: there are tiles and tensors, or the prefix of the operation's
            name names the other one.
    """
    specs = [x for x in tensors if isinstance(x, TensorSpec)]
    ranks = [spec.max_rank for spec in specs if isinstance(spec, TileSpec)]
    if ranks and len(ranks) < len(specs):
        fix = "Give TileSpec or TensorSpec for all"
        raise DispatchError("tiles and tensors do not mix", fix)
    # Only before the dot: `tile` is also the name of an operation.
    prefix = operation.rpartition(".")[0] if isinstance(operation, str) else ""
    if specs and prefix == ("tensor" if ranks else "tile"):
        given = "TileSpec" if ranks else "TensorSpec"
        wanted = "TensorSpec" if ranks else "TileSpec"
        raise DispatchError(f"{operation} takes {wanted}, got {given}")
    # The result may need as many dimensions as the largest operand.
    return max(ranks, default=None)


def _tiles(found: Any, rank: int) -> Any:
    """Return the same specs as tiles."""
    if isinstance(found, TensorSpec):
        return TileSpec(found.type, found.shape, found.qparams, rank)
    # Named tuples keep their class, so that fields have names in tiles too.
    parts = (_tiles(part, rank) for part in found)
    return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
