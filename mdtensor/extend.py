"""Building blocks for operations of your own package; see `docs/how-to/extending.md`.

The module has types for annotations, shape rules for `generic`, functions for methods,
and the checks of shapes, windows and options that mdtensor uses itself.
`mdtensor.quant` is such a package: it imports nothing else of mdtensor but its public
names and errors.

    deduced(operation, *operands, **options)    # checks, then returns type and shape
    compute(operation, kernel, *operands)       # the same, then runs your kernel
    describe("f", x)                            # the text of a call, for your errors
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from mdtensor import ledger as ledger
from mdtensor.audited import LOGS as LOGS, audits_later as audits_later
from mdtensor.contraction import (
    contract_terms as contract_terms,
    parse_equation as parse_equation,
)
from mdtensor.device import (
    device as find_device,
    register_later as register_later,
)
from mdtensor.dispatch.call_errors import explain_wrong_calls as explain_wrong_calls
from mdtensor.dispatch.classes import keep as keep
from mdtensor.dispatch.later import methods_later as methods_later
from mdtensor.dispatch.settings import (
    add_setting as add_setting,
    default_settings as default_settings,
    run_under as run_under,
    settings as settings,
)
from mdtensor.dispatch.suggestions import hint_in as hint_in
from mdtensor.errors import OptionError, RegistrationError, describe, shown
from mdtensor.files import (
    replacing as replacing,
    require_writable as require_writable,
    write_problem as write_problem,
)
from mdtensor.generics.reduction import reduction as reduction
from mdtensor.infer import infer as infer
from mdtensor.kernels.numpy.conversion import promote
from mdtensor.kernels.numpy.float16 import widen
from mdtensor.kernels.numpy.ufunc import run_and_round
from mdtensor.ops.operands import (
    Dense as Dense,
    Inexact as Inexact,
    Operand as Number,
    Real as Real,
    deduced,
    number as operand_array,
)
from mdtensor.printing import (
    join_parts as join_parts,
    summary_indices as summary_indices,
    take_grid as take_grid,
)
from mdtensor.promotion import result_type
from mdtensor.rendered import (
    is_rendered,
    on_rendered_device as on_rendered_device,
    register as register_rendered,
)
from mdtensor.siblings import siblings as siblings
from mdtensor.spec.elementwise import (
    along as along,
    arithmetic as arithmetic,
    broadcast as broadcast,
    comparison as comparison,
    fractional as fractional,
    predicate as predicate,
    same as same,
)
from mdtensor.spec.indices import (
    is_mask as is_mask,
    is_pick as is_pick,
    key_parts as key_parts,
)
from mdtensor.spec.options import (
    file_path as file_path,
    flag as flag,
    number as number,
)
from mdtensor.spec.shapes import (
    are_like as are_like,
    broadcast_shapes as broadcast_shapes,
    check_broadcast as check_broadcast,
    check_nonempty as check_nonempty,
    integers as integers,
    linear_shape as linear_shape,
    matmul_shape as matmul_shape,
    moveaxis_order as moveaxis_order,
    normalize_axes as normalize_axes,
    normalize_axis as normalize_axis,
    pad_widths as pad_widths,
    permutation as permutation,
    roll_steps as roll_steps,
)
from mdtensor.spec.spec import TensorSpec
from mdtensor.spec.windows import (
    Window as Window,
    check_image as check_image,
    conv_shape as conv_shape,
    conv_window as conv_window,
    padding4 as padding4,
    pair as pair,
    pool1d_window as pool1d_window,
    pool_window as pool_window,
)
from mdtensor.tensor import Tensor, announce_write as announce_write

# What an extension package needs besides the public names of `mdtensor`, by topic.
#: Types for annotations of methods.
__all__ = ["Dense", "Inexact", "Number", "Real"]
#: Results of operations, and shape rules for `generic` and `method`.
__all__ += ["compute", "deduced", "shape_rule"]
__all__ += ["along", "arithmetic", "broadcast", "comparison", "fractional"]
__all__ += ["predicate", "reduction", "same"]
#: Shapes, axes and indices.
__all__ += ["are_like", "broadcast_shapes", "check_broadcast", "check_nonempty"]
__all__ += ["is_mask", "is_pick", "key_parts", "linear_shape", "matmul_shape"]
__all__ += ["moveaxis_order", "normalize_axes", "normalize_axis", "pad_widths"]
__all__ += ["permutation", "roll_steps"]
#: Windows of convolutions and pools.
__all__ += ["Window", "check_image", "conv_shape", "conv_window", "padding4", "pair"]
__all__ += ["pool1d_window", "pool_window"]
#: Options, the text of a call for errors, and of names that a module does not have.
__all__ += ["explain_wrong_calls"]
__all__ += ["describe", "file_path", "flag", "hint_in", "integers", "number"]
#: Counts of lossy results in `checked` blocks; more of them are in `_LATER`.
__all__ += ["LOGS", "audits_later"]
#: Context variables that change results, writes into tensors, devices by name, and
#: modules with methods that are imported on use.
__all__ += ["add_setting", "announce_write", "find_device", "methods_later"]
#: Types and methods for devices that run rendered loops; more of them are in `_LATER`.
__all__ += ["infer", "ledger", "on_rendered_device", "register_rendered", "siblings"]
#: Reprs and files.
__all__ += ["join_parts", "replacing", "require_writable", "summary_indices"]
__all__ += ["take_grid", "write_problem"]

# Most programs check nothing, have no device that runs rendered loops, and no recurrent
# layers.
#: Names that are imported at first use, with their module and their name there.
_LATER = {
    name: (f"mdtensor.{home}", there)
    for home, names in {
        "checking": {n: n for n in ("Case", "Headroom", "Lost", "audit", "counting")},
        "kernels.loops.kernel": {"Kernel": "Kernel"},
        "rendered.constants": {"constant": "array", "remembered": "remembered"},
        "ops.recurrent_words": {
            n: n for n in ("recurrent_word_states", "recurrent_word_step")
        },
        "rendered.launches": {
            "bind_launch": "bind",
            **{n: n for n in ("count_true", "launch", "launch_counting", "types_of")},
        },
        "rendered.methods": {"add_rendered": "add"},
        "rendered.pool": {"pool_counts": "counts", "pool_taps": "seen"},
        "rendered.products": {n: n for n in ("filters", "matrices", "reshaped")},
        "rendered.tiling": {"contract": "contract"},
        "rendered.wgsl": {"render_wgsl": "render_wgsl"},
        "rendered.windows": {"bordered": "bordered"},
    }.items()
    for name, there in names.items()
}
__all__.extend(_LATER)


def __getattr__(name: str) -> object:
    """Import what checks results, and what devices with rendered loops need."""
    if name in _LATER:
        module, there = _LATER[name]
        found = getattr(importlib.import_module(module), there)
        return globals().setdefault(name, found)
    fix = hint_in("extend", name, __all__)
    raise AttributeError(f"module 'mdtensor.extend' has no attribute {name!r}.{fix}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def shape_rule(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Return the shape rule that an operation declares.

    Args:
        operation: what `generic` declared.

    Returns:
        A function of specs, and of the options of the operation, that returns the spec
        of the result.

    Example:
        >>> import mdtensor as md
        >>> rule = shape_rule(md.matmul)
        >>> x = md.TensorSpec(md.Int8Tensor, (2, 3))
        >>> rule(x, md.TensorSpec(md.Int8Tensor, (3, 4)))
        TensorSpec(Int8Tensor[2,4])
    """
    declared: Any = operation
    return declared.operation.rule  # type: ignore[no-any-return]


def compute(
    operation: Any, kernel: Callable[..., Any], /, *operands: Any, **options: Any
) -> Tensor:
    """Compute a tensor with your own kernel, element by element.

    The shape rule of the operation runs first, so operands that do not fit raise before
    the kernel runs. The kernel receives NumPy arrays of the promoted type; narrow
    floats (16 bits or less) are float32. Its result is rounded once to the element
    type that the shape rule returns. Floating-point warnings are off.

    On a device that runs rendered loops, such as a GPU, the kernel is called once with
    arrays that stand for the elements; its ufuncs become one kernel of the device. For
    that the method must be for every device: `@method(operation, anywhere=True)`.

    Args:
        operation: what `generic` declared, with a shape rule.
        kernel: a function of one array per operand. The arrays broadcast, and the
            kernel must not write to them.
        operands: tensors of one device, and Python numbers.
        options: passed to the shape rule and to the kernel.

    Raises:
        ShapeError, PromotionError, CastError, DeviceError: the operands do not fit.
        NoMethodError: on a device, the kernel uses more than ufuncs, numbers and
            `np.where`: an index, or a condition on elements.
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
    if any(isinstance(x, Tensor) and is_rendered(x.device) for x in operands):
        # Here, because most programs have no such device.
        from mdtensor.rendered import traced

        made: Tensor = traced.compute(operation, kernel, operands, options)
        return made
    result: TensorSpec = deduced(operation, *operands, **options)
    joint = result_type(*operands)
    arrays = [widen(promote(operand_array(x, joint), joint.storage)) for x in operands]

    def run(*given: Any) -> Any:
        return kernel(*given, **options)

    found = np.asarray(run_and_round(run, result.dtype.storage, *arrays))
    if found.shape != result.shape:
        raise RegistrationError(
            f"the kernel returned shape {found.shape}, but the shape rule gives "
            f"{result.shape}",
            "Change the kernel, or the shape rule",
            describe(operation.__name__, *operands),
        )
    made = result.type.wrap(found)
    return made
