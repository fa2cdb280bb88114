"""The support table: the element types that each operation takes on each device.

A cell of the table is one call with tensors of one element type on one device. The cell
is found by selecting a method and inferring the result from specs, so it is computed
without elements and without the device. Only the declaration of an operation is used:
parameter names tell which parameters are tensors and what the others may be; ranks and
sizes are tried until the shape rule accepts them. So your own operations have cells.

    form = find_form(md.conv2d.operation)     # ranks 4 and 4, every size 2
    probe(md.conv2d.operation, md.Int8Tensor, form)   # the method for int8
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import combinations, product
from typing import Any, NamedTuple

from mdtensor import dtypes
from mdtensor.device import Device, cpu, device as find_device, devices
from mdtensor.dispatch.method import Method, Selection
from mdtensor.dispatch.operation import Generic, Operation, operations
from mdtensor.dispatch.suggestions import closest
from mdtensor.dtypes import DType
from mdtensor.errors import (
    AmbiguousDispatchError,
    CastError,
    DeviceError,
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

#: Values of parameters that are not tensors, by the name of the parameter.
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
    "part": lambda x: "codes",
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
#: The dispatched parameters among `VALUES`; all other dispatched ones are tensors.
NO_TENSORS = {"destination", "device", "dtype", "n", "repeats", "repetitions", "source"}
#: Options with defaults, of which a call needs one nevertheless.
ONE_OF = ("scale_factor",)
#: Errors that other shapes or options would not avoid.
OF_TYPES = (DeviceError, DispatchError, PromotionError, CastError)
#: Element types of indices, of conditions, and of weights next to floats.
FIXED = (dtypes.int64, dtypes.bool_, dtypes.int8)
# Weights of several gates have several times the rows, which only 0 fits.
# Boxes have 4 coordinates, or 5 numbers with that of their image.
SIZES = (2, 3, 1, 0, 4, 5)
RANKS = (2, 4, 3, 1, 0)


class Form(NamedTuple):
    """The form of a call, independent of the element type.

    Args:
        ranks: the ranks of the tensors.
        size: the size of every axis.
        fixed: places with a fixed element type, with that type.
        given: options to pass although they have defaults.
    """

    ranks: tuple[int, ...]
    size: int = SIZES[0]
    fixed: tuple[tuple[int, DType], ...] = ()
    given: tuple[str, ...] = ()


def probe(operation: Operation, kind: type[Tensor], form: Form) -> Selection:
    """Return the selection of a call in this form, with tensors of the type `kind`.

    Promotion is off, so that a type does not count as supported because it promotes to
    another.

    Raises:
        MdtensorError: no method fits the types, or the shape rule raises.
    """
    arguments, options = call_of(operation, kind, form)
    types = [x.type if isinstance(x, TensorSpec) else type(x) for x in arguments]
    # Selection does not depend on the rules, but the shape rule does.
    with promotion_rules("strict"):
        selection = operation.select(*types)
        try:
            selection.deduce(*arguments, **options)
        except MdtensorError as error:
            # Imported late, as for errors of calls.
            from mdtensor.dispatch.call_errors import call_text

            call = error.call or call_text(operation, tuple(types))
            raise error.within(call) from None
    return selection


def call_of(
    operation: Operation, kind: type[Tensor], form: Form
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments and options of the call, with specs as tensors.

    Raises:
        OptionError: `VALUES` does not have a required option.
    """
    fixed = dict(form.fixed)
    tensors = [
        (kind.with_dtype(fixed[at]) if at in fixed else kind).spec((form.size,) * rank)
        for at, rank in enumerate(form.ranks)
    ]
    # Options depend on a tensor of the requested type, not on one with a fixed type.
    first = next((x for at, x in enumerate(tensors) if at not in fixed), tensors[0])
    rest = iter(tensors)
    arguments = tuple(
        VALUES[name](first) if name in NO_TENSORS else next(rest)
        for name in _required(operation)
    )
    return arguments, _options(operation, first, form.given)


def _required(operation: Operation) -> list[str]:
    """Return the required dispatched parameters; for a sequence, two items."""
    names = [
        name
        for name in operation.dispatched
        if operation.signature.parameters[name].default is operation.signature.empty
    ]
    # Two items, because one would not show whether types combine.
    return names * 2 if operation.sequence else names


def _options(
    operation: Operation, x: TensorSpec, given: tuple[str, ...]
) -> dict[str, Any]:
    empty = operation.signature.empty
    required = [name for name, default in operation.options.items() if default is empty]
    unknown = [name for name in required if name not in VALUES]
    if unknown:
        raise OptionError(f"an example value for the option {unknown[0]} is not known")
    return {name: VALUES[name](x) for name in (*required, *given)}


# Ranks and options are tried, so that third-party operations need no list either
# (decision 0016).
def find_form(operation: Operation) -> Form | None:
    """Return a form of call that some element type accepts; None if there is none.

    If float32 works only with integers or bools at one place, as in `take` and `where`,
    the element type of that place is fixed; or that of the last places is int64, as in
    `decision_trees`; or two places have one other type, as in `dynamic_lstm`.
    """
    count = sum(name not in NO_TENSORS for name in _required(operation))
    alike = Form(ranks=(0,) * count)
    # A single tensor has the type of the cell, so nothing can be fixed.
    places = range(count if count > 1 and not operation.sequence else 0)
    mixed = [alike._replace(fixed=(one,)) for one in product(places, FIXED)]
    last = [
        tuple((place, dtypes.int64) for place in places[start:])
        for start in range(1, len(places) - 1)
    ]
    mixed += [alike._replace(fixed=fixed) for fixed in last]
    two = combinations(places if count > 4 else (), 2)
    pairs = [((a, kind), (b, kind)) for a, b in two for kind in FIXED]
    mixed += [alike._replace(fixed=fixed) for fixed in pairs]
    first, *others = _types_to_try()
    starts = [*product([first], [alike, *mixed]), *product(others, [alike])]
    found = (_search(operation, kind, start) for kind, start in starts)
    return next(filter(None, found), None) or _ambiguous_form(operation, starts)


def _ambiguous_form(
    operation: Operation, starts: Iterable[tuple[type[Tensor], Form]]
) -> Form | None:
    """Return a form that several methods fit equally well; None if there is none."""
    for kind, form in starts:
        try:
            probe(operation, kind, form)
        except AmbiguousDispatchError:
            return form
        except MdtensorError:
            continue
    return None


def _types_to_try() -> list[type[Tensor]]:
    """Return Float32Tensor, one host type of each other kind, then all others."""
    on_host = [kind for kind in leaves() if kind.device is cpu]
    kinds = {kind.dtype.kind: kind for kind in on_host}
    floats = leaf(dtypes.float32)
    # float32 comes first, because most operations take it.
    del kinds[floats.dtype.kind]
    # Some operations take only short integers.
    first = [floats, *kinds.values()]
    return [*first, *(kind for kind in on_host if kind not in first)]


def _search(operation: Operation, kind: type[Tensor], start: Form) -> Form | None:
    """Return the first form whose shapes and options are accepted."""
    options = [name for name in ONE_OF if name in operation.options]
    given = [(), *((name,) for name in options)]
    # Sizes vary slowest: most operations accept 2, and ranks decide.
    for size, ranks, extra in product(SIZES, _ranks(len(start.ranks)), given):
        form = start._replace(size=size, ranks=ranks, given=extra)
        try:
            probe(operation, kind, form)
        # Other shapes cannot help if the type itself is rejected.
        except OF_TYPES:
            return None
        except MdtensorError:
            continue
        return form
    return None


def _ranks(count: int) -> Iterator[tuple[int, ...]]:
    """Yield ranks for `count` tensors: all equal, one or two larger, and any two."""
    yield from ((rank,) * count for rank in RANKS)
    yield from ((rank, *(1,) * (count - 1)) for rank in RANKS)
    if count > 2:
        yield from ((rank, *(rank - 1,) * (count - 1)) for rank in RANKS if rank > 2)
        # Operands of a product, and a scale.
        yield from ((*(rank,) * (count - 1), 1) for rank in RANKS)
        # Images, boxes, and a number for each box.
        yield (4, *range(count - 1, 0, -1))
        # A sequence, and matrices with a scale each.
        yield tuple(3 if at == 0 else 1 + at % 2 for at in range(count))
        # Two matrices among vectors, as the rows and the children of decision trees.
        for place in range(2, count):
            yield tuple(2 if at in (0, place) else 1 for at in range(count))
    # All pairs are few for two tensors; for three they would be 125.
    if count == 2:
        yield from product(RANKS, repeat=count)


def _grids() -> list[Any]:
    """Return the grids of the quantized types."""
    specs = (kind.spec(()) for kind in leaves())
    return [spec.qparams for spec in specs if spec.qparams is not None]


#: The states of a cell; see `Support`.
STATES = ("runs", "rounds", "missing", "refused", "ambiguous", "unknown")


class Support(NamedTuple):
    """Whether an operation takes an element type on a device.

    Args:
        name: qualified, as in `operations`.
        dtype: the element type.
        device: where the tensors are.
        state: `runs`; `rounds`, it runs with `out=`, the grid of the result;
            `missing`, it would run, but the device is absent or lacks a method;
            `refused`, the operation is undefined for the type, or not exact;
            `ambiguous`, several methods fit equally well; `unknown`, the value of a
            required option is not known.
        why: empty if it runs; else the error of the call, or the missing part.
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
        """Return the family: `arithmetic` for `mdtensor.generics.arithmetic.add`."""
        above = [part for part in self.name.split(".")[:-1] if part != "generics"]
        return above[-1] if above else ""

    @property
    def operation(self) -> str:
        """Return the bare name: `add` for `mdtensor.generics.arithmetic.add`."""
        return self.name.rpartition(".")[2]


def support(
    operation: str = "*", /, *, device: Device | str | None = None
) -> tuple[Support, ...]:
    """Return one cell for each operation, element type and device.

    Quantized types are included once `mdtensor.quant` is imported, and so are the types
    and operations of other packages.

    Args:
        operation: a pattern for names, such as `add`, `arithmetic.*` or `log*`.
        device: a device or its name; all devices by default.

    Raises:
        OptionError: no operation matches the pattern.
        DeviceError: there is no such device.

    Example:
        >>> import mdtensor as md
        >>> [str(c.dtype) for c in md.support("sin", device="cpu") if c.state == "runs"]
        ... # doctest: +ELLIPSIS
        ['float16', 'bfloat16', 'float32', 'float64', 'complex64', 'complex128'...]
    """
    if not isinstance(operation, str):
        problem = f"a pattern is a str, not a {type(operation).__name__}"
        raise OptionError(problem, 'Use "add" or "log*"')
    chosen = [
        (name, call) for name, call in operations().items() if _fits(name, operation)
    ]
    if not chosen:
        # Bare names, as users write them in patterns.
        near = closest(operation, {name.rpartition(".")[2] for name in operations()})
        verb = "are" if len(near) > 1 else "is"
        fix = f"Closest {verb} {', '.join(near)}" if near else "See md.operations()"
        raise OptionError(f"no operation matches {shown(operation)}", fix)
    places = devices() if device is None else (find_device(device),)
    return tuple(cell for name, call in chosen for cell in _cells(name, call, places))


def _fits(name: str, pattern: str) -> bool:
    """Return whether the pattern matches the name, or a part of it after a dot."""
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
    """Return the state of a cell, the reason, and the method.

    Args:
        operation: the operation.
        kind: the concrete type of the tensors.
        form: the form of the call, from `find_form`.

    Returns:
        State and reason as in `Support`, and the method that runs, or that would run
        if the device were there.
    """
    if form is None:
        return "unknown", "no form of call was found that works", None
    try:
        state, selection = _try_call(operation, kind, form)
    # Before its base class: an ambiguity is our mistake, a refusal is a decision.
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
    """Return "runs" or "rounds" (needs `out=`), and the selection of the call."""
    try:
        return "runs", probe(operation, kind, form)
    # No method fits the types, and a grid would not change that.
    except DispatchError:
        raise
    except MdtensorError:
        # A quantized call that fails may need only the grid of its result.
        if "out" not in operation.options or kind.spec(()).qparams is None:
            raise
        rounded = form._replace(given=(*form.given, "out"))
        return "rounds", probe(operation, kind, rounded)


def _missing(selection: Selection, device: Device) -> str:
    """Return the reason why the method cannot run on `device`; empty if it can."""
    # An absent device comes first, since no method could help.
    if device.missing:
        return f"{device}: {device.missing}"
    if device in devices_of(selection.method):
        return ""
    return f"no method for {device} yet"
