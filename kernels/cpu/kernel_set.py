"""The kernels of each ISA, by name: the one place that knows all ISAs.

A process has its own set, `HOST`; a context can select another one. Kernels are
entries, so this module loads no compiler; packing and sizes are plain Python.
"""

from contextvars import ContextVar
from functools import cache
from importlib import import_module
from types import SimpleNamespace

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.avx2 import packing as of_avx2
from mdtensor.kernels.cpu.dot8 import packing as of_dot8
from mdtensor.kernels.cpu.entry import PACKAGE, Entry
from mdtensor.kernels.cpu.generic import float_packing, packing as of_generic

#: The kernels of each family. An ISA replaces whole families, see `modules`.
FAMILIES = {
    "conv": ("depthwise_u8s8u8", "depthwise_u8s8s32", "im2col_u8", "im2col_pitch"),
    "elementwise": (
        *("lookup_u8", "add_u8u8u8", "mul_u8u8u8"),
        *("quantize_f32u8", "quantize_nchw_f32u8"),
    ),
    "code_windows": ("windows_u8s8u8",),
    "matmul": ("pack_codes", "gemm_u8s8u8", "gemm_u8u8u8", "gemm_u8s8s32"),
    "reduction": ("mean_u8u8",),
    "row_words": ("gemm_s16s8s32",),
    "float_conv": ("windows_act_f32",),
    "float_depthwise": ("depthwise_f32",),
    "float_matmul": ("gemm_act_f32", "gemm_f32f32f32", "gemm_from_f32"),
    "weight_only": ("gemm_f32s8f32", "gemm_f32u4f32"),
}
#: Kernels that all ISAs share, by module of `generic/`.
SHARED = {
    "copies": ("move_u8", "transpose_f32", "take_u8", "concat_u8"),
    "elementwise": (
        *("lookup_channels_u8", "slopes_u8"),
        *("choose_u8", "dequantize_u8f32"),
    ),
    "float_elementwise": ("elementwise_f32",),
    "float_pool": ("max_pool_f32", "avg_pool_f32", "mean_f32"),
    "float_reduce": ("reduce_f32",),
    "float_resize": ("resample_f32",),
    "float_rows": ("softmax_f32", "normalize_f32"),
    "normalization": ("normalize_u8",),
    "pool": ("max_pool_u8", "avg_pool_u8"),
    "recurrent": ("lstm_f32", "gru_f32", "rnn_f32"),
    "softmax": ("softmax_u8",),
}


def modules(name):
    """Return {family: module} of the kernels of the ISA `name`, below `cpu`.

    An intrinsic that the CPU lacks would abort the process, so on such a CPU `dot8/` is
    emulated. A process compiles `dot8/` for one ISA.
    """
    if name in isa.DOT_ISAS and name != isa.DOT_ISA:
        raise ValueError(f"{name}: this process has {isa.DOT_ISA}")
    return modules_of(name, not isa.lacking("avx2", isa.FEATURES))


# An ISA takes only the families that it gains from; AVX2's depthwise tiles beat AVX-512
# without VNNI (decision 0034).
def modules_of(name, has_avx2=True):
    """Return the modules of the ISA `name` on a CPU that has it.

    Args: has_avx2: of an x86 CPU; one that emulates the ISA may lack it.
    """
    found = {family: f"generic.{family}" for family in FAMILIES}
    found["reduction"] = "generic.pool"
    if name not in ("generic", "neon") and has_avx2:
        fast = ("float_conv", "float_depthwise", "float_matmul", "weight_only")
        fast += ("row_words",)
        if name in ("avx2", "avxvnni", "avx512"):
            fast += ("code_windows", "conv", "elementwise", "matmul")
        found |= {family: f"avx2.{family}" for family in fast}
    return found | {family: f"dot8.{family}" for family in DOT_FAMILIES.get(name, ())}


#: The families of `dot8/` that make an ISA faster.
DOT_FAMILIES = {
    "avxvnni": ("matmul",),
    "neon": ("conv", "matmul"),
    "avx512": ("elementwise", "matmul", "reduction"),
    "vnni": ("conv", "elementwise", "matmul", "reduction"),
}


def families(name):
    """Return the modules with the kernels of the ISA `name`, which load numba."""
    return SimpleNamespace(
        **{
            family: import_module(f"{PACKAGE}.{module}")
            for family, module in modules(name).items()
        }
    )


def entries(name):
    """Return {kernel: entry} of the ISA `name`."""
    return entries_in(modules(name), name, Entry)


def entries_in(own, name, kind):
    """Return the entries of an ISA, given its modules and the class of an entry."""
    places = [(own[family], FAMILIES[family]) for family in FAMILIES]
    places += [(f"generic.{module}", SHARED[module]) for module in SHARED]
    found = {
        kernel: kind(module, kernel, name)
        for module, kernels in places
        for kernel in kernels
    }
    # One kernel reads codes of either sign; a library holds it for each.
    signed = kind("generic.elementwise", "dequantize_u8f32", name, "int8")
    return found | {"dequantize_s8f32": signed}


@cache
def compiled(name):
    """Return the kernels of the ISA `name` as numba compiles them, by name."""
    found = entries(name).items()
    return SimpleNamespace(**{kernel: entry.compiled for kernel, entry in found})


@cache
def packing(module, name):
    """Return how a module packs for the ISA `name`."""
    folder = module.split(".")[0]
    if folder == "dot8":
        return of_dot8.Packing(name)
    return {"generic": of_generic, "avx2": of_avx2}[folder]


def with_packing(name, own, found):
    """Return the kernels `found` of an ISA, and how those in its modules pack."""
    products, depthwise, windows, codes = (
        packing(own[family], name)
        for family in ("matmul", "conv", "float_conv", "elementwise")
    )
    return SimpleNamespace(
        name=name,
        **found
        | {
            "pack_s8": products.pack_s8,
            "padded_columns": of_generic.padded_columns,
            "PANEL_COLUMNS": products.PANEL_COLUMNS,
            "packed_column_bytes": products.packed_column_bytes,
            "TERM_BYTES": products.TERM_BYTES,
            "PRODUCTS_TAKE_EXCEPTION_SUMS": products.PRODUCTS_TAKE_EXCEPTION_SUMS,
            "DEPTHWISE_BITS": of_generic.DEPTHWISE_BITS,
            "DEPTHWISE_TAKES_EXCEPTION_SUMS": depthwise.DEPTHWISE_TAKES_EXCEPTION_SUMS,
            "MOST_FACTOR": depthwise.MOST_FACTOR,
            "pack_depthwise": depthwise.pack_depthwise,
            "im2col_pitch": depthwise.im2col_pitch,
            "pack_f32": float_packing.pack_f32,
            "SUMS_TAKE_CHECKED_MULTIPLIERS": codes.SUMS_TAKE_CHECKED_MULTIPLIERS,
            "MULTIPLIES_PAIRS": products.MULTIPLIES_PAIRS,
            "MULTIPLIES_WINDOWS": windows.MULTIPLIES_WINDOWS,
            "pack_rows": float_packing.pack_rows,
            "pack_grid": float_packing.pack_grid,
        },
    )


@cache
def kernels(name):
    """Return the kernels of the ISA `name` and their properties, by name."""
    return with_packing(name, modules(name), entries(name))


HOST = kernels(isa.ISA)
#: The kernels for steps and layers that this context makes.
CHOSEN: ContextVar[SimpleNamespace] = ContextVar("isa", default=HOST)


def make_on(own, make, *arguments):
    """Call make(*arguments) so that new steps and layers use the ISA `own`."""
    token = CHOSEN.set(own)
    try:
        return make(*arguments)
    finally:
        CHOSEN.reset(token)


def isa_of(kernel):
    """Return the ISA of a kernel."""
    folder = kernel.__module__.split(".")[-2]
    if folder == "dot8":
        return getattr(kernel, "isa", isa.DOT_ISA)
    return folder if folder in isa.ISAS else "generic"
