"""Which element types every operation takes, on every device: asked, not listed.

A cell of the table is one call with tensors of one element type on one device. A method
is selected for it and its result deduced, on tensors without elements: nothing is
computed, and the device need not be there. What a stranger registers is asked too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from typing import Any

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device, devices
from mdtensor.dispatch.call_errors import call_text
from mdtensor.dispatch.method import Method, Selection
from mdtensor.dispatch.operation import Generic, Operation, operations
from mdtensor.dispatch.suggestions import closest
from mdtensor.dtypes import DType
from mdtensor.errors import (
    AmbiguousDispatchError,
    CastError,
    DispatchError,
    MdtensorError,
    OptionError,
    PromotionError,
    shown,
)
from mdtensor.promotion import promotion_rules
from mdtensor.registry import devices_of
from mdtensor.spec.spec import TensorSpec
from mdtensor.tensor import Tensor, leaf, leaves

# A call of an operation for each element type, on tensors without elements.
#
# Nothing is known of an operation but its declaration: of its parameters, names tell
# which are tensors and what the others may be; ranks and sizes are tried until its
# deduction takes them. So operations of strangers are probed as ours are.
#
#     form = find_form(md.conv2d.operation)     # ranks 4 and 4, every size 2
#     probe(md.conv2d.operation, md.Int8Tensor, form)   # what such a call selects

#: What is given where no tensor is, by the name of the parameter.
VALUES: dict[str, Callable[[TensorSpec], Any]] = {
    "axes": lambda x: tuple(range(x.ndim)),
    "axis": lambda x: 0,
    "destination": lambda x: 0,
    "device": lambda x: x.type.device,
    "downscale_factor": lambda x: 1,
    "dtype": lambda x: x.dtype,
    "fill_value": lambda x: True,
    "kernel_size": lambda x: 1,
    "key": lambda x: 0,
    "n": lambda x: 1,
    "normalized_shape": lambda x: x.shape[-1:],
    "num_groups": lambda x: 1,
    "out": lambda x: x.qparams or _grids()[0],
    "output_size": lambda x: 1,
    "pad_width": lambda x: [(1, 0)] * x.ndim,
    "qparams": lambda x: x.qparams or _grids()[0],
    "repeats": lambda x: 1,
    "repetitions": lambda x: (1,),
    "scale_factor": lambda x: 1.0,
    "shape": lambda x: x.shape,
    "shift": lambda x: 1,
    "source": lambda x: 0,
    "upscale_factor": lambda x: 1,
    "value": lambda x: x.with_shape(x.shape[1:]),
}
#: Of these, the ones that are dispatched on; all others dispatched on are tensors.
NO_TENSORS = {"destination", "device", "dtype", "n", "repeats", "repetitions", "source"}
#: Options that have defaults, and yet one of them must be given.
ONE_OF = ("scale_factor",)
#: Errors that no other shape and no other option would mend.
OF_TYPES = (DispatchError, PromotionError, CastError)
#: Element types of indices and of conditions.
FIXED = (dtypes.int64, dtypes.bool_)
SIZES = (2, 3, 1)
RANKS = (2, 4, 3, 1, 0)


@dataclass(frozen=True)
class Form:
    """How an operation is called, whatever the element type.

    Args:
        ranks: of its tensors.
        size: of every axis.
        fixed: places whose element type is always the same, with that type.
        given: options that are given although they have defaults.
    """

    ranks: tuple[int, ...]
    size: int = SIZES[0]
    fixed: tuple[tuple[int, DType], ...] = ()
    given: tuple[str, ...] = ()


def probe(operation: Operation, kind: type[Tensor], form: Form) -> Selection:
    """What a call in this form selects for tensors of the leaf `kind`.

    Nothing is promoted meanwhile, so that no type is taken for the sake of another.

    Raises:
        MdtensorError: the call is refused, by its types or by deduction.
    """
    arguments, options = call_of(operation, kind, form)
    types = [x.type if isinstance(x, TensorSpec) else type(x) for x in arguments]
    with promotion_rules("strict"):
        selection = operation.select(*types)
        try:
            selection.deduce(*arguments, **options)
        except MdtensorError as error:
            raise error.within(
                error.call or call_text(operation, tuple(types))
            ) from None
    return selection


def call_of(
    operation: Operation, kind: type[Tensor], form: Form
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments and options of the call, tensors without their elements.

    Raises:
        OptionError: an option is needed that nothing is known of.
    """
    fixed = dict(form.fixed)
    tensors = [
        (kind.with_dtype(fixed[at]) if at in fixed else kind).spec((form.size,) * rank)
        for at, rank in enumerate(form.ranks)
    ]
    first = next((x for at, x in enumerate(tensors) if at not in fixed), tensors[0])
    rest = iter(tensors)
    arguments = tuple(
        VALUES[name](first) if name in NO_TENSORS else next(rest)
        for name in _required(operation)
    )
    return arguments, _options(operation, first, form.given)


def _required(operation: Operation) -> list[str]:
    """The parameters dispatched on that have no default; two items of a sequence."""
    names = [
        name
        for name in operation.dispatched
        if operation.signature.parameters[name].default is operation.signature.empty
    ]
    return names * 2 if operation.sequence else names


def _options(
    operation: Operation, x: TensorSpec, given: tuple[str, ...]
) -> dict[str, Any]:
    empty = operation.signature.empty
    required = [name for name, default in operation.options.items() if default is empty]
    unknown = [name for name in required if name not in VALUES]
    if unknown:
        raise OptionError(f"nothing is known of the option {unknown[0]}")
    return {name: VALUES[name](x) for name in (*required, *given)}


# Ranks and options are tried, so that third-party operations need no list either
# (decision 0016).
def find_form(operation: Operation) -> Form | None:
    """A form of call that is taken for some element type; None if none was found.

    Where float32 alone is refused, but is taken beside one place of indices or truth
    values, that place is fixed, as in `take` and `where`.
    """
    count = sum(name not in NO_TENSORS for name in _required(operation))
    alike = Form(ranks=(0,) * count)
    places = range(count if count > 1 and not operation.sequence else 0)
    mixed = [replace(alike, fixed=(one,)) for one in product(places, FIXED)]
    first, *others = _one_of_each_kind()
    starts = [*product([first], [alike, *mixed]), *product(others, [alike])]
    found = (_search(operation, kind, start) for kind, start in starts)
    return next(filter(None, found), None) or _ambiguous_form(operation, starts)


def _ambiguous_form(
    operation: Operation, starts: Iterable[tuple[type[Tensor], Form]]
) -> Form | None:
    """A form that several methods fit equally well, whatever the shapes are."""
    for kind, form in starts:
        try:
            probe(operation, kind, form)
        except AmbiguousDispatchError:
            return form
        except MdtensorError:
            continue
    return None


def _one_of_each_kind() -> list[type[Tensor]]:
    """float32, then a leaf of the host for each other kind of element type."""
    on_host = [kind for kind in leaves() if kind.device is cpu]
    kinds = {kind.dtype.kind: kind for kind in on_host}
    floats = leaf(dtypes.float32)
    del kinds[floats.dtype.kind]
    return [floats, *kinds.values()]


def _search(operation: Operation, kind: type[Tensor], start: Form) -> Form | None:
    """The first shapes and options that are taken."""
    options = [name for name in ONE_OF if name in operation.options]
    given = [(), *((name,) for name in options)]
    for size, ranks, extra in product(SIZES, _ranks(len(start.ranks)), given):
        form = replace(start, size=size, ranks=ranks, given=extra)
        try:
            probe(operation, kind, form)
        except OF_TYPES:
            return None
        except MdtensorError:
            continue
        return form
    return None


def _ranks(count: int) -> Iterator[tuple[int, ...]]:
    """Of `count` tensors: all alike, one beside vectors, and any two."""
    yield from ((rank,) * count for rank in RANKS)
    yield from ((rank, *(1,) * (count - 1)) for rank in RANKS)
    if count == 2:
        yield from product(RANKS, repeat=count)


def _grids() -> list[Any]:
    """The grids of the types that have one."""
    specs = (kind.spec(()) for kind in leaves())
    return [spec.qparams for spec in specs if spec.qparams is not None]


#: What a cell may be.
STATES = ("runs", "rounds", "missing", "refused", "ambiguous", "unknown")


@dataclass(frozen=True)
class Support:
    """Whether an operation takes an element type on a device.

    Args:
        name: qualified, as in `operations`.
        dtype: the element type.
        device: where the tensors are.
        state: `runs`; `rounds`, it runs where `out=` names the grid of the result;
            `missing`, it would run, but the device is not there or has no method yet;
            `refused`, the operation has no meaning for the type, or none that is
            exact; `ambiguous`, several methods fit equally well; `unknown`, nothing is
            known of an option that it needs.
        why: empty where it runs; else the error of the call, or what is missing.
    """

    name: str
    dtype: DType
    device: Device
    state: str
    why: str = ""

    @property
    def runs(self) -> bool:
        return self.state in ("runs", "rounds")

    @property
    def family(self) -> str:
        """`arithmetic` of `mdtensor.generics.arithmetic.add`."""
        above = [part for part in self.name.split(".")[:-1] if part != "generics"]
        return above[-1] if above else ""

    @property
    def operation(self) -> str:
        """`add` of `mdtensor.generics.arithmetic.add`."""
        return self.name.rpartition(".")[2]


def support(
    operation: str = "*", /, *, device: Device | str | None = None
) -> tuple[Support, ...]:
    """The table of operations, element types and devices, a cell each.

    Quantized types take part once `mdtensor.quant` is imported, and so do types and
    operations of strangers once their package is.

    Args:
        operation: pattern of names, such as `add`, `arithmetic.*` or `log*`.
        device: one device, or the name of one; all by default.

    Raises:
        OptionError: no operation is called like that.
        DeviceError: there is no such device.

    Example:
        >>> import mdtensor as md
        >>> [str(c.dtype) for c in md.support("sin", device="cpu") if c.state == "runs"]
        ... # doctest: +ELLIPSIS
        ['float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128'...]
    """
    if not isinstance(operation, str):
        problem = f"a pattern is text, not a {type(operation).__name__}"
        raise OptionError(problem, 'Use "add" or "log*"')
    chosen = [
        (name, call) for name, call in operations().items() if _fits(name, operation)
    ]
    if not chosen:
        near = closest(operation, {name.rpartition(".")[2] for name in operations()})
        verb = "are" if len(near) > 1 else "is"
        fix = f"Closest {verb} {', '.join(near)}" if near else "See md.operations()"
        raise OptionError(f"no operation matches {shown(operation)}", fix)
    places = devices() if device is None else (find_device(device),)
    return tuple(cell for name, call in chosen for cell in _cells(name, call, places))


def _fits(name: str, pattern: str) -> bool:
    """Whether the name, or what stands behind one of its dots, is as asked for."""
    parts = name.split(".")
    ends = (".".join(parts[at:]) for at in range(len(parts)))
    return any(fnmatchcase(end, pattern) for end in ends)


def _cells(name: str, call: Generic, places: tuple[Device, ...]) -> Iterator[Support]:
    operation = call.operation
    form = find_form(operation)
    for kind in leaves():
        if kind.device in places:
            state, why, _ = ask(operation, kind, form)
            yield Support(name, kind.dtype, kind.device, state, why)


# A cell is a call on specs, because a list of types per operation would go stale
# (decision 0016).
def ask(
    operation: Operation, kind: type[Tensor], form: Form | None
) -> tuple[str, str, Method | None]:
    """What a call with tensors of the leaf `kind` comes to.

    Args:
        operation: which.
        kind: the type of the tensors.
        form: of the call, as `find_form` gives it.

    Returns:
        The state and why, as of `Support`; the method that runs, or would where the
        device is missing.
    """
    if form is None:
        return "unknown", "no call was found that some element type takes", None
    try:
        state, selection = _try_call(operation, kind, form)
    except AmbiguousDispatchError as error:
        return "ambiguous", str(error), None
    except MdtensorError as error:
        return "refused", str(error), None
    missing = _missing(selection, kind.device)
    state = "missing" if missing else state
    return state, missing, selection.method


def _try_call(
    operation: Operation, kind: type[Tensor], form: Form
) -> tuple[str, Selection]:
    """How it runs, and what; `out` is given only where the call wants it."""
    try:
        return "runs", probe(operation, kind, form)
    except DispatchError:
        raise
    except MdtensorError:
        if "out" not in operation.options or kind.spec(()).qparams is None:
            raise
        rounded = replace(form, given=(*form.given, "out"))
        return "rounds", probe(operation, kind, rounded)


def _missing(selection: Selection, device: Device) -> str:
    """What keeps the method from running on `device`; empty if nothing does."""
    if device.missing:
        return f"{device}: {device.missing}"
    if device in devices_of(selection.method):
        return ""
    return f"no method for {device} yet"
