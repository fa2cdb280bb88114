"""The functions that Python calls, with the types of their arguments.

A library holds these functions and what they call. numba compiles all others at their
first call. A type is a NumPy type; `[]` follows it for an array of one axis, `[,]` for
two. `step` is the record of a step, `window` the tuple of its window.
"""

from mdtensor.kernels.cpu import kernel_set
from mdtensor.kernels.cpu.float_calls import NAMES, PAIRS, WIDE
from mdtensor.kernels.cpu.program import kinds

#: What every function that runs one step takes.
STEP = "step[] int64 uint8[] uint8[] uint8[] uint8[] uint8[]"
_PRODUCT = "uint8[] int64 int64 int64 int8[] int64 int32[]"
_ROUNDING = "float32[] int64[,] int32[] int64 int64 int64 uint8[] int64"
_FLOAT_PRODUCT = "float32[] int64 int64 int64 {}[] int64"
_GRID = "float32[] float32[] int64 float32[] float32[] int64"

#: 16-bit floats: their casts, and functions of the names of NumPy.
HALVES = ("float16", "bfloat16")
_CASTS = {"to_float32": "uint16[] float32[]", "from_float32": "float32[] uint16[]"}
_PAIRS, _TRUTHS = "uint16[] uint16[] uint16[]", "uint16[] uint16[] boolean[]"
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "minimum", "maximum")
_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_ROUNDINGS = ("floor", "ceil", "trunc", "rint")

#: Reductions along an axis, by the type of their elements.
_FOLDS = {
    "add_rows": "{0}[] int64 {0}[]",
    "extreme_rows": "int64 {0}[] int64 {0}[]",
    "fold_columns": "int64 {0}[] int64 int64 {0}[]",
    "accumulate": "int64 {0}[] int64 int64 {0}[]",
}

#: Places of the first elements of sorted lines, likewise.
_LEADING = {
    "leading_rows": "int64 {0}[] int64 int64 int64[]",
    "leading_columns": "int64 {0}[] int64 int64 int64 int64[]",
}

#: Functions of one module for all ISAs.
SHARED = {
    "program.run.run": "int64 int64[] step[] int64[,] int64[] uint8[] uint8[]",
    "program.run.run_placed": "int64[]",
    "program.run_chain.run_chain": (
        "int64[] float32[] float32[] float32[] float32[] float32[] int64 float32[]"
    ),
    **dict.fromkeys(
        (
            "program.run_narrow_chain.run_float16",
            "program.run_narrow_chain.run_bfloat16",
        ),
        "int64[] float32[] uint16[] uint16[] uint16[] uint16[] int64 uint16[]",
    ),
    **{f"generic.float_maps.{name}_f32": "float32[] float32[]" for name in NAMES},
    "generic.float_maps.softplus_f32": "float32[] float32 float32 float32[]",
    "generic.float_circle.sin_f32": "float32[] float32[]",
    "generic.float_circle.cos_f32": "float32[] float32[]",
    **{f"generic.wide_functions.{name}_f32": "float32[] float32[]" for name in WIDE},
    **{
        f"generic.wide_pairs.{name}_f32": "float32[] float32[] float32[]"
        for name in PAIRS
    },
    **{
        f"generic.axis_folds.{name}:{kind}": text.format(kind)
        for name, text in _FOLDS.items()
        for kind in ("float32", "float64")
    },
    **{
        f"generic.leading.{name}:{kind}": text.format(kind)
        for name, text in _LEADING.items()
        for kind in ("float32", "float64")
    },
    "generic.pair_codes.lookup_pairs_u8": "uint8[] uint8[] uint8[] uint8[]",
    "generic.float_rows.softmax_f32": "float32[] int64 float32[]",
    "generic.float_rows.softmax_columns_f32": "float32[] int64 int64 float32[]",
    "generic.float_rows.log_softmax_f32": "float32[] int64 float32[]",
    "generic.float_rows.log_softmax_columns_f32": "float32[] int64 int64 float32[]",
    "generic.float_rows.normalize_f32": (
        "float32[] int64 int64 float32 float32[] float32[] float32[]"
    ),
    "threads.work_queue.finish": "int64[]",
    "threads.work_queue.withdraw": "int64[]",
    "generic.copies.copy_f32": "uint32[] uint32[]",
    "generic.weight_only.interleave": "uint8[,] uint8[,,]",
    "generic.filter_packing.pack_panels_f32": (
        "float32[] float32[] int64 int64 int64 float32[]"
    ),
    "generic.filter_packing.pack_blocks_f32": "float32[] float32[] int64 float32[]",
    "rounding.find_multipliers": "float64[] int64 int64 int64[] float32[]",
    "rounding.find_exception_sums": (
        "float32[,] float64[] int64[,] int64 int64[] int64[] int32[]"
    ),
    "rounding.requantize_s32u8": "int32 float32 int64[,] int64 int64 int64 int64",
    "generic.elementwise.lookup_u16:uint16": "uint16[] uint16[] uint16[]",
    "generic.elementwise.lookup_u16:uint8": "uint16[] uint8[] uint8[]",
    "generic.elementwise.dequantize_u8f32": "uint8[] float64 int64 float32[]",
    "generic.elementwise.dequantize_u8f32:int8": "int8[] float64 int64 float32[]",
    **{".".join(place): STEP for place in kinds.FUNCTIONS},
    **{
        f"generic.{dtype}.{name}": text
        for dtype in HALVES
        for name, text in _CASTS.items()
    },
    **{f"generic.{dtype}.{name}": _PAIRS for dtype in HALVES for name in _ARITHMETIC},
    **{f"generic.{dtype}.{name}": _TRUTHS for dtype in HALVES for name in _COMPARISONS},
    **{f"generic.bfloat16.{name}": "uint16[] uint16[]" for name in _ROUNDINGS},
}
#: Kernels that an ISA may replace, by name.
KERNELS = {
    "gemm_u8s8u8": f"{_PRODUCT} {_ROUNDING}",
    "im2col_u8": "uint8[] window int64 int64 int64 int64 uint8[]",
    "quantize_f32u8": "float32[] float64 int64 int64 int64 uint8[]",
    "gemm_f32f32f32": f"{_FLOAT_PRODUCT} float32[] float32[] int64".format("float32"),
    "gemm_f32s8f32": f"{_FLOAT_PRODUCT} {_GRID}".format("int8"),
    "gemm_f32u4f32": f"{_FLOAT_PRODUCT} {_GRID}".format("uint8"),
}


def signatures(isa_name):
    """Return {module and name: argument types} for the library of an ISA."""
    own = kernel_set.entries(isa_name)
    return SHARED | {own[name].key: KERNELS[name] for name in KERNELS}
