"""Typed tensors; every operation picks its method from the types of all arguments.

    import mdtensor as md

    x = md.asarray([1.0, 2.0])            # Float32Tensor[2]
    x + md.asarray([1, 2], dtype=md.int8)  # promoted to Float32Tensor by rule
    md.which(md.add, x, 1)                 # what runs for these types, and where it is

`mdtensor.quant` (quantized tensors and models), `mdtensor.safetensors` (files),
`mdtensor.tables` (dispatch tables) and `mdtensor.wide` (106-bit numbers) load on first
use.
"""

import builtins
import importlib
import pkgutil
from math import e as e, inf as inf, nan as nan, pi as pi
from types import ModuleType as _ModuleType

# With a wheel installed and a checkout as working directory, both must find
# mdtensor.kernels.
__path__ = pkgutil.extend_path(__path__, __name__)

from mdtensor import (
    dtypes as dtypes,
    fft as fft,
    linalg as linalg,
    ops as _ops,
    registry as registry,
)
from mdtensor.cuda import *
from mdtensor.device import (
    Device as Device,
    Event as Event,
    Stream as Stream,
    cpu as cpu,
    device as device,
    devices as devices,
    register_device as register_device,
)
from mdtensor.dispatch.builder import register as register
from mdtensor.dispatch.catalog import *
from mdtensor.dispatch.catalog import check_declarations as _check_declared
from mdtensor.dispatch.method import (
    Method as Method,
    Selection as Selection,
    Trial as _Trial,
)
from mdtensor.dispatch.operation import (
    Generic as Generic,
    Operation as Operation,
    generic as generic,
    method as method,
    operations as operations,
)
from mdtensor.dispatch.suggestions import hint as _hint
from mdtensor.dtypes import (
    DType as DType,
    bfloat16 as bfloat16,
    complex64 as complex64,
    complex128 as complex128,
    dtype as dtype,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from mdtensor.errors import *
from mdtensor.generics.activation import (
    celu as celu,
    elu as elu,
    gelu as gelu,
    glu as glu,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    log_softmax as log_softmax,
    logsigmoid as logsigmoid,
    mish as mish,
    prelu as prelu,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softmax as softmax,
    softplus as softplus,
    softsign as softsign,
)
from mdtensor.generics.arithmetic import (
    abs as abs,
    add as add,
    ceil as ceil,
    clip as clip,
    conj as conj,
    div as div,
    floor as floor,
    floor_divide as floor_divide,
    imag as imag,
    maximum as maximum,
    minimum as minimum,
    mul as mul,
    neg as neg,
    positive as positive,
    pow as pow,
    real as real,
    reciprocal as reciprocal,
    remainder as remainder,
    round as round,
    sign as sign,
    square as square,
    sub as sub,
    trunc as trunc,
)
from mdtensor.generics.attention import (
    embedding as embedding,
    one_hot as one_hot,
    scaled_dot_product_attention as scaled_dot_product_attention,
)
from mdtensor.generics.comparison import (
    bitwise_and as bitwise_and,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_or as bitwise_or,
    bitwise_right_shift as bitwise_right_shift,
    bitwise_xor as bitwise_xor,
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
)
from mdtensor.generics.conv import (
    conv1d as conv1d,
    conv2d as conv2d,
    conv_transpose2d as conv_transpose2d,
)
from mdtensor.generics.conversion import (
    astype as astype,
    reduce_precision as reduce_precision,
    to as to,
    view_as_complex as view_as_complex,
    view_as_real as view_as_real,
)
from mdtensor.generics.creation import (
    empty_like as empty_like,
    full_like as full_like,
    ones_like as ones_like,
    tril as tril,
    triu as triu,
    zeros_like as zeros_like,
)
from mdtensor.generics.detection import (
    non_max_suppression as non_max_suppression,
)
from mdtensor.generics.dynamic_quantization import (
    dynamic_conv2d as dynamic_conv2d,
    dynamic_matmul as dynamic_matmul,
    dynamic_quantize as dynamic_quantize,
)
from mdtensor.generics.dynamic_recurrent import dynamic_lstm as dynamic_lstm
from mdtensor.generics.estimators import (
    decision_trees as decision_trees,
    pairwise_probabilities as pairwise_probabilities,
)
from mdtensor.generics.indexing import (
    getitem as getitem,
    scatter as scatter,
    setitem as setitem,
    take as take,
    take_along_axis as take_along_axis,
)
from mdtensor.generics.integer_products import (
    conv2d_integer as conv2d_integer,
    matmul_integer as matmul_integer,
)
from mdtensor.generics.linalg import matrix_transpose as matrix_transpose
from mdtensor.generics.manipulation import (
    broadcast_to as broadcast_to,
    concat as concat,
    expand_dims as expand_dims,
    flip as flip,
    moveaxis as moveaxis,
    pad as pad,
    permute_dims as permute_dims,
    repeat as repeat,
    reshape as reshape,
    roll as roll,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    unstack as unstack,
)
from mdtensor.generics.math import (
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    copysign as copysign,
    cos as cos,
    cosh as cosh,
    erf as erf,
    exp as exp,
    expm1 as expm1,
    hypot as hypot,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    logaddexp as logaddexp,
    nextafter as nextafter,
    signbit as signbit,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    tan as tan,
    tanh as tanh,
)
from mdtensor.generics.matmul import (
    linear as linear,
    matmul as matmul,
    tensordot as tensordot,
    vecdot as vecdot,
)
from mdtensor.generics.normalization import (
    batch_norm as batch_norm,
    fold_batch_norm as fold_batch_norm,
    group_norm as group_norm,
    instance_norm as instance_norm,
    layer_norm as layer_norm,
    normalize as normalize,
    rms_norm as rms_norm,
)
from mdtensor.generics.pool import (
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_max_pool2d as adaptive_max_pool2d,
    avg_pool1d as avg_pool1d,
    avg_pool2d as avg_pool2d,
    global_avg_pool2d as global_avg_pool2d,
    max_pool1d as max_pool1d,
    max_pool2d as max_pool2d,
)
from mdtensor.generics.recurrent import gru as gru, lstm as lstm, rnn as rnn
from mdtensor.generics.reduction import (
    all as all,
    any as any,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    diff as diff,
    max as max,
    mean as mean,
    min as min,
    prod as prod,
    std as std,
    sum as sum,
    var as var,
)
from mdtensor.generics.resize import (
    interpolate as interpolate,
    pixel_shuffle as pixel_shuffle,
    pixel_unshuffle as pixel_unshuffle,
)
from mdtensor.generics.sampling import (
    grid_sample as grid_sample,
    roi_align as roi_align,
    roi_pool as roi_pool,
)
from mdtensor.generics.signals import convolve as convolve, correlate as correlate
from mdtensor.generics.sorting import (
    argmax as argmax,
    argmin as argmin,
    argsort as argsort,
    argwhere as argwhere,
    count_nonzero as count_nonzero,
    isin as isin,
    nonzero as nonzero,
    searchsorted as searchsorted,
    sort as sort,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
    where as where,
)
from mdtensor.infer import infer as infer
from mdtensor.interop import (
    NamespaceInfo as NamespaceInfo,
    __array_namespace_info__ as __array_namespace_info__,
)
from mdtensor.ledger import (
    Ledger as Ledger,
    MemoryStats as MemoryStats,
    memory_stats as memory_stats,
    no_sync as no_sync,
    no_transfer as no_transfer,
    trace_device as trace_device,
)
from mdtensor.operators import Operators as Operators, bind as _bind
from mdtensor.promotion import (
    add_type as add_type,
    can_cast as can_cast,
    promote_types as promote_types,
    promotion_rules as promotion_rules,
    result_type as result_type,
)
from mdtensor.spec.dims import DYNAMIC as DYNAMIC, Dim as Dim, bind_dims as bind_dims
from mdtensor.spec.spec import TensorSpec as TensorSpec, TileSpec as TileSpec
from mdtensor.tensor import (
    Tensor as Tensor,
    from_numpy as from_numpy,
    leaf as leaf,
    leaves as leaves,
)
from mdtensor.type_info import (
    FloatInfo as FloatInfo,
    IntegerInfo as IntegerInfo,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
)
from mdtensor.types import *

bool = dtypes.bool_
newaxis = None
_check_declared(operations())


def _try_call(selection: Selection) -> _Trial:
    """Run a selected call once, see `Selection.trial`."""
    from mdtensor.trial import try_call

    return try_call(selection)


Selection.try_call = staticmethod(_try_call)

# The array API's longer names for the same operations.
subtract, multiply, divide, negative = sub, mul, div, neg
_ops.name_methods(operations())
_bind(Tensor, globals())  # x.sum(axis=0) is sum(x, axis=0)

__version__ = "0.1.0"
__array_api_version__ = "2024.12"


# Submodules become attributes by being imported; only these are public.
_MODULES = {"dtypes", "fft", "linalg", "registry"}
#: Public modules that are imported when one is used.
_LATER = {"conformance", "graph", "diagnose", "quant", "safetensors", "tables", "wide"}
_LATER |= {"extend"}
#: The functions and classes that are imported when they are used, by module.
_USED = {
    "checking": ("audit", "checked"),
    "choices": ("nan_to_num", "select"),
    "closeness": ("allclose", "array_equal", "isclose"),
    "compositions": ("TopKResult", "split", "topk"),
    "contraction": ("einsum",),
    "covariance": ("corrcoef", "cov"),
    "dispatch.introspect": ("Call", "traced", "which", "why"),
    "graph": ("Trace", "compile", "lazy", "realize", "trace"),
    "ops.conversion": ("asarray", "from_dlpack"),
    "ops.counting": ("HistogramResult", "bincount", "histogram"),
    "ops.creation": (
        *("arange", "empty", "eye", "full", "linspace", "meshgrid", "ones", "zeros"),
    ),
    "ops.elementwise": ("elementwise",),
    "ops.for_each": ("for_each", "get_num_threads", "set_num_threads"),
    "ops.manipulation": ("broadcast_arrays", "broadcast_shapes"),
    "ops.parallel_for": ("parallel_for",),
    "ops.views": ("View", "flat_in", "flat_out", "ranked_in", "ranked_out"),
    "log_sums": ("logsumexp",),
    "matrix_parts": ("diag", "kron", "tril_indices", "triu_indices"),
    "nan_reductions": (*("nanmax", "nanmean", "nanmin", "nanstd", "nansum", "nanvar"),),
    "order_statistics": ("median", "nanmedian", "percentile", "quantile"),
    "piecewise_lines": ("gradient", "interp", "trapezoid"),
    "support_table": ("Support", "support"),
    "turns": ("rot90", "swapaxes"),
}
_HOMES = {name: home for home, names in _USED.items() for name in names}
_public = {
    name
    for name, value in globals().items()
    if not name.startswith("_")
    and (name in _MODULES or not isinstance(value, _ModuleType))
}
_public |= {"extend", *(n for n, home in _HOMES.items() if home != "graph")}
# As in NumPy, `from mdtensor import *` must not replace Python's own max and sum.
__all__ = sorted(name for name in _public if not hasattr(builtins, name))


def __dir__() -> list[str]:
    dunders = {name for name in globals() if name.startswith("__")}
    return sorted({*_public, *dunders, *_LATER, *_HOMES})


def __getattr__(name: str) -> object:
    if name in _LATER:
        return importlib.import_module(f"mdtensor.{name}")
    if name in _HOMES:
        home = importlib.import_module(f"mdtensor.{_HOMES[name]}")
        return globals().setdefault(name, getattr(home, name))
    fix = "" if name.startswith("_") else _hint(name, _public)
    raise AttributeError(f"module 'mdtensor' has no attribute {name!r}.{fix}")
