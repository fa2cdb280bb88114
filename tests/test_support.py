"""The table of operations, types and devices: each cell is called, and agrees."""

import pickle
from typing import Any

import numpy as np
import pytest
from support.samples import call, sample
from support.shelf import shelved

import mdtensor as md
from mdtensor import quant, registry
from mdtensor.dispatch.operation import _OPERATIONS
from mdtensor.errors import DeviceError, MdtensorError, NoMethodError, OptionError
from mdtensor.support_table import STATES, Support

LEAVES = [leaf for leaf in md.leaves() if leaf.device is md.cpu]
PLAIN = LEAVES[:15]
OPERATIONS = {
    name: f for name, f in md.operations().items() if name.startswith("mdtensor.")
}
#: Places, or options, whose type the operation fixes: conditions and indices.
FIXED = {
    md.where: {0},
    md.take: {1},
    md.take_along_axis: {1},
    md.scatter: {1},
    md.embedding: {0},
    md.decision_trees: {2, 3, 4},
    md.scaled_dot_product_attention: {"attn_mask"},
    md.searchsorted: {"sorter"},
    md.lstm: {7},
    md.gru: {5},
    md.rnn: {5},
    md.roi_align: {2},
    md.dynamic_matmul: {1},
    md.dynamic_conv2d: {1},
    md.dynamic_lstm: {1, 3},
}
#: Options of samples that are for floats, or for another type than the tensor's.
OPTIONS = {md.clip: {"min": 1, "max": 2}, md.full_like: {"fill_value": True}}
#: Steps of codes from 0 to 7 of which all stand for numbers with a value.
STEPS = {**dict.fromkeys([md.asin, md.acos, md.atanh], 0.125), md.acosh: 1.0}
#: Operations whose last argument, a bias, has another type than the others if those
#: are quantized; it may be left out.
NORMS = (md.layer_norm, md.rms_norm)
BIASED = {md.conv2d, md.linear}


def elements(x: Any, leaf: Any, step: float) -> Any:
    """The numbers of a sample as elements of `leaf`; small integers of its eighths."""
    if isinstance(x, quant.QuantizedTensor):
        x = quant.dequantize(x)
    numbers = np.asarray(x).real
    if leaf.dtype.kind == "quantized":
        codes = (np.abs(numbers) * 8 % 8).astype(leaf.dtype.storage)
        return leaf(codes, quant.QParams(step, dtype=leaf.dtype))
    if not (leaf.dtype.is_floating or leaf.dtype.is_complex):
        numbers = numbers * (1 if x.dtype.is_integer else 8) % 9
    return leaf.wrap(numbers.astype(leaf.dtype.storage))


def arranged(operation: Any, leaf: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The sample with all its tensors of one type, but where the type is fixed."""
    arguments, options = sample(operation)
    arguments = arguments[:2] if operation in BIASED else arguments
    # Weights of a norm of codes stay floats.
    if operation in NORMS and leaf.dtype.kind == "quantized":
        arguments = arguments[:1]
    fixed = FIXED.get(operation, ())

    def made(place: Any, x: Any) -> Any:
        if isinstance(x, md.Tensor) and place not in fixed:
            return elements(x, leaf, STEPS.get(operation, 0.25))
        return leaf.dtype if isinstance(x, md.DType) else x

    options |= OPTIONS.get(operation, {})
    return (
        tuple(made(place, x) for place, x in enumerate(arguments)),
        {name: made(name, x) for name, x in options.items()},
    )


def works(operation: Any, leaf: Any, **more: Any) -> bool:
    arguments, options = arranged(operation, leaf)
    try:
        # A quotient of integers is one of the type that they promote to.
        with md.promotion_rules("strict"):
            call(operation, arguments, options | more)
    except MdtensorError:
        return False
    return True


def state(operation: Any, leaf: Any) -> str:
    """The state of a cell as a caller finds it."""
    if works(operation, leaf):
        return "runs"
    is_rounded = leaf.dtype.kind == "quantized" and "out" in operation.operation.options
    for grid in (leaf.dtype, quant.qint8) if is_rounded else ():
        if works(operation, leaf, out=quant.QParams(0.5, dtype=grid)):
            return "rounds"
    return "refused"


@pytest.mark.parametrize("name", OPERATIONS, ids=lambda n: n.rpartition(".")[2])
def test_every_cell_is_as_a_call_finds_it(name: str) -> None:
    said = {cell.dtype: cell.state for cell in md.support(name, device="cpu")}
    assert said == {leaf.dtype: state(OPERATIONS[name], leaf) for leaf in LEAVES}


def test_a_stranger_is_asked_as_well() -> None:
    @md.generic(deduce=lambda x: x)
    def flipped_sign(x: Any, /) -> Any:
        """-x."""

    @md.method(flipped_sign)
    def flipped_sign(x: md.SignedTensor, /) -> Any:
        return -x

    name = f"{__name__}.flipped_sign"
    try:
        cells = md.support("flipped_sign", device="cpu")
        assert {cell.name for cell in cells} == {name}
        assert [str(cell.dtype) for cell in cells if cell.runs] == [
            *("int8", "int16", "int32", "int64")
        ]
    finally:
        del _OPERATIONS[name]


def test_an_option_that_nobody_knows() -> None:
    @md.generic(deduce=lambda x, *, flavour: x)
    def seasoned(x: Any, /, *, flavour: Any) -> Any:
        """x, with `flavour`."""

    @md.method(seasoned)
    def seasoned(x: md.NumericTensor, /, *, flavour: Any) -> Any:
        return x

    try:
        cells = md.support("seasoned", device="cpu")
    finally:
        del _OPERATIONS[f"{__name__}.seasoned"]
    assert {cell.state for cell in cells} == {"unknown"}
    assert {cell.why for cell in cells} == {"no form of call was found that works"}


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("add", {"add"}),
        ("arithmetic.a*", {"abs", "add"}),
        ("linalg.d*", {"det", "diagonal"}),
        ("mdtensor.quant.*", {"dequantize", "quantize", "requantize"}),
    ],
)
def test_patterns(pattern: str, names: set[str]) -> None:
    assert {cell.operation for cell in md.support(pattern)} == names


@pytest.fixture(scope="module")
def here() -> dict[Any, str]:
    """The state of every cell of the host."""
    return {(c.name, c.dtype): c.state for c in md.support("mdtensor.*", device="cpu")}


def test_a_device_without_kernels_misses_what_runs_on_the_host(
    here: dict[Any, str],
) -> None:
    there = md.support("mdtensor.*", device="cuda:0")
    assert {cell.device for cell in there} == {md.device("cuda")}
    for cell in there:
        runs = here[cell.name, cell.dtype] in ("runs", "rounds")
        wanted = {"missing" if runs else "refused"}
        # Some methods of codes name types of the host, and no kind of them.
        wanted |= {"refused"} if cell.dtype.kind == "quantized" else set()
        assert cell.state in wanted, cell
    why = {cell.why for cell in there if cell.state == "missing"}
    assert why == {f"cuda:0: {md.cuda.missing}"}


def test_on_a_device_of_few_methods(here: dict[Any, str]) -> None:
    """Called on the device of the tests: what runs there, what is missing, refused."""
    with shelved([leaf.dtype for leaf in PLAIN]) as place:
        there = {(c.name, c.dtype): c for c in md.support("mdtensor.*", device=place)}
        for (name, dtype), cell in there.items():
            found = reached(OPERATIONS[name], md.leaf(dtype), place)
            assert cell.state == found or here[name, dtype] == "unknown", cell
        runs = {cell.operation for cell in there.values() if cell.runs}
    assert {"to", "zeros_like"} <= runs
    assert "add" not in runs
    why = {cell.why for cell in there.values() if cell.state == "missing"}
    assert why == {"no method for shelf yet"}


def reached(operation: Any, leaf: Any, place: Any) -> str:
    """The state of a cell of another device as a caller finds it."""
    arguments, options = arranged(operation, leaf)
    given = tuple(moved(x, place) for x in arguments)
    chosen = {name: moved(x, place) for name, x in options.items()}
    try:
        with md.promotion_rules("strict"):
            call(operation, given, chosen)
    except (DeviceError, NoMethodError):
        return "missing" if works(operation, leaf) else "refused"
    except MdtensorError:
        return "refused"
    return "runs"


def moved(x: Any, place: Any) -> Any:
    return md.to(x, place) if isinstance(x, md.Tensor) else x


def test_cells_say_why() -> None:
    by_type = {cell.dtype: cell for cell in md.support("exp", device="cpu")}
    assert by_type[md.float32] == Support(
        "mdtensor.generics.math.exp", md.float32, md.cpu, "runs"
    )
    assert by_type[quant.qint8].state == "rounds" and by_type[quant.qint8].runs
    refused = by_type[md.int8]
    assert (refused.family, refused.operation) == ("math", "exp")
    assert refused.why.startswith("exp(Int8Tensor): no method: x is Int8Tensor")
    assert not refused.runs


def test_a_tie_is_told_apart_from_a_refusal() -> None:
    """Whether some types are left that are taken, or none."""
    for first, second, ties in (
        (md.RealTensor, md.FloatingTensor, {"float16", "float32"}),
        (md.Tensor, md.NumericTensor, {"int8", "float32", "complex64"}),
    ):
        with registry.restored():

            @md.generic
            def blend(x1: Any, x2: Any, /) -> Any:
                """Halfway."""

            for types in ((first, second), (second, first)):
                md.method(blend, types=types)(lambda x1, x2: x1)
            found = {c.dtype.name: c for c in md.support("blend", device="cpu")}
        assert {found[name].state for name in ties} == {"ambiguous"}
        assert found["bool"].state == "refused" and not found["int8"].runs
        tie = "blend(Float32Tensor, Float32Tensor): more than one method fits"
        assert found["float32"].why.startswith(tie)


def test_cells_are_plain_data() -> None:
    cells = md.support("a*")
    assert pickle.loads(pickle.dumps(cells)) == cells
    assert {cell.state for cell in cells} <= set(STATES)


def test_nothing_fits() -> None:
    with pytest.raises(OptionError) as caught:
        md.support("no_such*")
    assert str(caught.value) == (
        "no operation matches 'no_such*'. See md.operations()."
    )
    with pytest.raises(DeviceError):
        md.support(device="tpu")
