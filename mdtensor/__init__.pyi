"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from typing import Final

from mdtensor import _calls
from mdtensor.dtypes import DType as DType

from mdtensor.types import BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor, Complex128Tensor as Complex128Tensor, Complex64Tensor as Complex64Tensor, Float16Tensor as Float16Tensor, Float32Tensor as Float32Tensor, Float64Tensor as Float64Tensor, Int16Tensor as Int16Tensor, Int32Tensor as Int32Tensor, Int64Tensor as Int64Tensor, Int8Tensor as Int8Tensor, UInt16Tensor as UInt16Tensor, UInt32Tensor as UInt32Tensor, UInt64Tensor as UInt64Tensor, UInt8Tensor as UInt8Tensor
from math import (
    e as e,
    inf as inf,
    nan as nan,
    pi as pi,
)
from mdtensor import (
    dtypes as dtypes,
    fft as fft,
    linalg as linalg,
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
from mdtensor.dispatch.method import (
    Method as Method,
    Selection as Selection,
)
from mdtensor.dispatch.operation import (
    Generic as Generic,
    Operation as Operation,
    generic as generic,
    method as method,
    operations as operations,
)
bfloat16: Final[DType[BFloat16Tensor]]
complex64: Final[DType[Complex64Tensor]]
complex128: Final[DType[Complex128Tensor]]
float16: Final[DType[Float16Tensor]]
float32: Final[DType[Float32Tensor]]
float64: Final[DType[Float64Tensor]]
int8: Final[DType[Int8Tensor]]
int16: Final[DType[Int16Tensor]]
int32: Final[DType[Int32Tensor]]
int64: Final[DType[Int64Tensor]]
uint8: Final[DType[UInt8Tensor]]
uint16: Final[DType[UInt16Tensor]]
uint32: Final[DType[UInt32Tensor]]
uint64: Final[DType[UInt64Tensor]]
from mdtensor.dtypes import (
    DType as DType,
    dtype as dtype,
)
from mdtensor.errors import *
celu: _calls.Celu
"""Return max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))."""
elu: _calls.Elu
"""Return x where x > 0, else alpha · (exp(x) - 1)."""
gelu: _calls.Gelu
"""Return x · Φ(x) = x · (1 + erf(x / √2)) / 2."""
glu: _calls.LikeGlu
"""Return a · sigmoid(b), where a and b are the halves of x along `axis`."""
hardsigmoid: _calls.Hardsigmoid
"""Return min(max(alpha · x + beta, 0), 1), element by element."""
hardswish: _calls.LikeHardswish
"""Return x · min(max(x + 3, 0), 6) / 6, element by element."""
hardtanh: _calls.Hardtanh
"""Return min(max(x, min_val), max_val), element by element."""
leaky_relu: _calls.LeakyRelu
"""Return x where x > 0, else negative_slope · x."""
log_softmax: _calls.LikeGlu
"""Return log(softmax(x)) along `axis`, without underflow."""
logsigmoid: _calls.LikeLogsigmoid
"""Return log(1 / (1 + exp(-x))), computed without overflow."""
mish: _calls.LikeHardswish
"""Return x · tanh(softplus(x)), element by element."""
prelu: _calls.Prelu
"""Return x where x > 0, else weight · x."""
relu: _calls.Relu
"""Return max(x, 0), element by element; NaN stays NaN."""
relu6: _calls.Relu6
"""Return min(max(x, 0), 6), element by element."""
selu: _calls.LikeHardswish
"""Return 1.0507 · elu(x, alpha=1.6733), which keeps mean 0 and variance 1."""
sigmoid: _calls.LikeHardswish
"""Return 1 / (1 + exp(-x)), computed without overflow."""
silu: _calls.LikeHardswish
"""Return x · sigmoid(x), also called swish."""
softmax: _calls.Softmax
"""Return exp(x) / sum(exp(x)) along `axis`, shifted to avoid overflow."""
softplus: _calls.Softplus
"""Return log(1 + exp(beta · x)) / beta, computed without overflow."""
softsign: _calls.LikeHardswish
"""Return x / (1 + abs(x)), element by element."""
abs: _calls.Abs
"""Return |x|. The smallest signed integer wraps to itself."""
add: _calls.LikeAdd
"""Return the sum of two tensors, element by element."""
ceil: _calls.LikeCeil
"""Return the smallest integer that is at least x."""
clip: _calls.Clip
"""Return min(max(x, `min`), `max`); None leaves a side open."""
conj: _calls.LikeConj
"""Return the complex conjugate; a copy for real numbers."""
div: _calls.Div
"""Return x1 / x2 in floating types; x / 0 is an infinity or NaN (IEEE 754)."""
floor: _calls.LikeCeil
"""Return the largest integer that is at most x."""
floor_divide: _calls.LikeFloorDivide
"""Return floor(x1 / x2), Python's `//`; the floor of an infinity is itself."""
imag: _calls.LikeImag
"""Return the imaginary part."""
maximum: _calls.LikeMaximum
"""Return the larger of x1 and x2; NaN if either is NaN."""
minimum: _calls.LikeMaximum
"""Return the smaller of x1 and x2; NaN if either is NaN."""
mul: _calls.Mul
"""Return x1 · x2, element by element; wraps and rounds as `add` does."""
neg: _calls.Neg
"""Return -x. The smallest signed integer and unsigned integers wrap."""
positive: _calls.LikeConj
"""Return a copy of x."""
pow: _calls.Pow
"""Return x1 to the power of x2. Integers wrap; 0 to the power of 0 is 1."""
real: _calls.Real
"""Return the real part; a copy for real numbers."""
reciprocal: _calls.LikeReciprocal
"""Return 1 / x; the reciprocal of 0 is an infinity."""
remainder: _calls.LikeFloorDivide
"""Return x1 - floor(x1 / x2) · x2, Python's `%`, with the sign of x2."""
round: _calls.Round
"""Return the integer nearest to x; ties go to the even one."""
sign: _calls.Sign
"""Return -1, 0 or 1; z / |z| for complex numbers, NaN for NaN, 0.0 for -0.0."""
square: _calls.Square
"""Return x · x; wraps and rounds as `mul` does."""
sub: _calls.LikeAdd
"""Return x1 - x2, element by element; wraps and rounds as `add` does."""
trunc: _calls.LikeCeil
"""Return x without its fraction: rounded toward zero."""
embedding: _calls.Embedding
"""Return weight[indices], one row of a matrix for each index."""
one_hot: _calls.OneHot
"""Return 1 where the position on a new last axis equals the element, else 0."""
scaled_dot_product_attention: _calls.ScaledDotProductAttention
"""Return softmax(query · keyᵀ · scale + mask) · value."""
bitwise_and: _calls.LikeBitwiseAnd
"""Return the bits that are set in both elements."""
bitwise_invert: _calls.BitwiseInvert
"""Invert each bit: -1 - x for signed integers, `not` for bools."""
bitwise_left_shift: _calls.LikeBitwiseLeftShift
"""Return x1 · 2**x2, wrapped; 0 once x2 reaches the width of the type."""
bitwise_or: _calls.LikeBitwiseAnd
"""Return the bits that are set in at least one element."""
bitwise_right_shift: _calls.LikeBitwiseLeftShift
"""Return floor(x1 / 2**x2); 0 or -1 once x2 reaches the type's width."""
bitwise_xor: _calls.LikeBitwiseAnd
"""Return the bits that are set in exactly one element."""
equal: _calls.LikeEqual
"""Return whether x1 = x2 as numbers, whatever their types; NaN equals nothing."""
greater: _calls.LikeGreater
"""Return whether x1 > x2, compared exactly as in `equal`."""
greater_equal: _calls.LikeGreater
"""Return whether x1 ≥ x2, compared exactly as in `equal`."""
less: _calls.LikeGreater
"""Return whether x1 < x2, compared exactly as in `equal`."""
less_equal: _calls.LikeGreater
"""Return whether x1 ≤ x2, compared exactly as in `equal`."""
logical_and: _calls.LikeLogicalAnd
"""Return whether both elements are true."""
logical_not: _calls.LogicalNot
"""Return whether x is false."""
logical_or: _calls.LikeLogicalAnd
"""Return whether at least one element is true; operands as in `logical_and`."""
logical_xor: _calls.LikeLogicalAnd
"""Return whether exactly one element is true; operands as in `logical_and`."""
not_equal: _calls.LikeEqual
"""Return whether x1 ≠ x2, compared exactly as in `equal`."""
conv1d: _calls.Conv1D
"""Return the 1-D cross-correlation of signals with a bank of filters."""
conv2d: _calls.Conv2D
"""Return the 2-D cross-correlation of images with a bank of filters."""
conv_transpose2d: _calls.ConvTranspose2D
"""Return the transpose of `conv2d`: each element adds a scaled filter."""
astype: _calls.Astype
"""Convert `x` to another element type. No other function narrows a type."""
reduce_precision: _calls.ReducePrecision
"""Round `x` to the numbers of `dtype`, and keep its element type."""
to: _calls.To
"""Copy `x` to `device`; the only operation that moves a tensor between devices."""
view_as_complex: _calls.ViewAsComplex
"""Return the complex numbers of which `x` has the real and imaginary parts."""
view_as_real: _calls.LikeImag
"""Return the real and imaginary parts as pairs; they share memory with `x`."""
empty_like: _calls.LikeEmptyLike
"""Return a tensor with the shape of `x` and undefined elements."""
full_like: _calls.FullLike
"""Return a tensor with the shape of `x`, filled with `fill_value`."""
ones_like: _calls.LikeEmptyLike
"""Return a tensor of ones with the shape of `x`."""
tril: _calls.LikeTril
"""Return the lower triangles of matrices, with zeros above diagonal `k`."""
triu: _calls.LikeTril
"""Return the upper triangles of matrices, with zeros below diagonal `k`."""
zeros_like: _calls.LikeEmptyLike
"""Return a tensor of zeros with the shape of `x`."""
non_max_suppression: _calls.NonMaxSuppression
"""Return which boxes stay if each removes those of lower score that it overlaps."""
dynamic_conv2d: _calls.DynamicConv2D
"""Return the convolution of x, rounded to 8 bits, with scale · (w - zero)."""
dynamic_matmul: _calls.DynamicMatmul
"""Return x · scale · (w - zero) + bias, with x rounded to 8 bits."""
dynamic_quantize: _calls.DynamicQuantize
"""Return codes of x, or their scale or zero point, on a grid that covers x and 0."""
dynamic_lstm: _calls.DynamicLstm
"""Return the states of `lstm`, with x and the hidden states rounded to 8 bits."""
decision_trees: _calls.DecisionTrees
"""Return the leaf that each row of x reaches in each tree."""
pairwise_probabilities: _calls.PairwiseProbabilities
"""Return the probability of each class, from probabilities for pairs of classes."""
getitem: _calls.Getitem
"""Return `x[key]`; a view unless a tensor in the key selects elements."""
scatter: _calls.Scatter
"""Return a copy of `x` with updates at `indices` along `axis`."""
setitem: _calls.Setitem
"""Write `value` into `x[key]`, in place; nothing is written on an error."""
take: _calls.Take
"""Return the elements of `x` at `indices` along `axis`."""
take_along_axis: _calls.TakeAlongAxis
"""Return the elements of `x` along `axis`, each line by its own indices."""
conv2d_integer: _calls.Conv2DInteger
"""Return the convolution of x - zero1 with w - zero2, exactly."""
matmul_integer: _calls.MatmulInteger
"""Return (x1 - zero1) · (x2 - zero2), exactly."""
matrix_transpose: _calls.MatrixTranspose
"""Return the transpose of each matrix, not conjugated; a view."""
broadcast_to: _calls.BroadcastTo
"""Repeat `x` along axes of size 1 to `shape`; a read-only view."""
concat: _calls.Concat
"""Join arrays along `axis`; None flattens them first."""
expand_dims: _calls.LikeExpandDims
"""Insert new axes of size 1; a view."""
flip: _calls.Flip
"""Reverse `x` along `axis`, one axis or a tuple of them; a view."""
moveaxis: _calls.Moveaxis
"""Move the axes `source` of `x` to the positions `destination`; a view."""
pad: _calls.Pad
"""Return `x` with a border of `value`."""
permute_dims: _calls.PermuteDims
"""Return `x` with its axes in the order `axes`; a view."""
repeat: _calls.Repeat
"""Repeat each element of `x` as often as `repeats` says."""
reshape: _calls.Reshape
"""Return the same elements in row-major order in another shape."""
roll: _calls.Roll
"""Shift `x` by `shift` places; elements that leave at one end enter at the other."""
squeeze: _calls.LikeExpandDims
"""Remove the named axes of size 1; a view."""
stack: _calls.Stack
"""Join arrays of one shape along a new axis."""
tile: _calls.Tile
"""Repeat the whole of `x` `repetitions` times along each axis."""
unstack: _calls.Unstack
"""Split `x` along `axis` into parts without that axis; views."""
acos: _calls.LikeReciprocal
"""Return the arc cosine, from 0 to π; NaN for real x outside [-1, 1]."""
acosh: _calls.LikeReciprocal
"""Return the inverse hyperbolic cosine, at least 0; NaN for real x below 1."""
asin: _calls.LikeReciprocal
"""Return the arc sine, from -π/2 to π/2; NaN for real x outside [-1, 1]."""
asinh: _calls.LikeReciprocal
"""Return the inverse hyperbolic sine."""
atan: _calls.LikeReciprocal
"""Return the arc tangent, from -π/2 to π/2."""
atan2: _calls.LikeAtan2
"""Return the angle of the point (x2, x1), from -π to π."""
atanh: _calls.LikeReciprocal
"""Return the inverse hyperbolic tangent; NaN for real x outside [-1, 1]."""
copysign: _calls.LikeAtan2
"""Return |x1| with the sign bit of x2."""
cos: _calls.LikeReciprocal
"""Return the cosine of x in radians; NaN at an infinity."""
cosh: _calls.LikeReciprocal
"""Return the hyperbolic cosine."""
erf: _calls.LikeLogsigmoid
"""Return the error function, 2/√π · ∫ exp(-t²) dt from 0 to x."""
exp: _calls.LikeExp
"""Return e to the power of x."""
expm1: _calls.LikeReciprocal
"""Return exp(x) - 1, accurate near 0."""
hypot: _calls.LikeAtan2
"""Return sqrt(x1² + x2²), without overflow in between."""
isfinite: _calls.LikeIsfinite
"""Return whether x is neither infinite nor NaN; True for every integer."""
isinf: _calls.LikeIsfinite
"""Return whether x is infinite; False for every integer."""
isnan: _calls.LikeIsfinite
"""Return whether x is NaN; False for every integer."""
log: _calls.LikeReciprocal
"""Return the natural logarithm; NaN below 0, -infinity at 0."""
log1p: _calls.LikeReciprocal
"""Return log(1 + x), accurate near 0."""
log2: _calls.LikeReciprocal
"""Return the logarithm to base 2; limits and branch cut as in `log`."""
log10: _calls.LikeReciprocal
"""Return the logarithm to base 10; limits and branch cut as in `log`."""
logaddexp: _calls.LikeAtan2
"""Return log(exp(x1) + exp(x2)), computed without overflow."""
nextafter: _calls.LikeAtan2
"""Return the number next to x1 in the direction of x2, in the promoted type."""
signbit: _calls.Signbit
"""Return whether the sign bit of x is set, also for -0.0 and NaN."""
sin: _calls.LikeReciprocal
"""Return the sine of x in radians; NaN at an infinity."""
sinh: _calls.LikeReciprocal
"""Return the hyperbolic sine."""
sqrt: _calls.LikeReciprocal
"""Return the square root, correctly rounded; NaN below 0."""
tan: _calls.LikeReciprocal
"""Return the tangent of x in radians; NaN at an infinity."""
tanh: _calls.LikeExp
"""Return the hyperbolic tangent."""
linear: _calls.Linear
"""Return x · wᵀ + b, a fully connected layer."""
matmul: _calls.Matmul
"""Return the matrix product over the last axis of `x1` and second-last of `x2`."""
tensordot: _calls.Tensordot
"""Return Σ x1 · x2, summed over pairs of axes; complex x1 is not conjugated."""
vecdot: _calls.LikeCross
"""Return Σ conj(x1) · x2 over `axis`; the other axes broadcast."""
batch_norm: _calls.BatchNorm
"""Return (x - mean) / sqrt(var + eps) · weight + bias, channel by channel."""
fold_batch_norm: _calls.FoldBatchNorm
"""Fold batch_norm into the weights and bias of the conv2d before it."""
group_norm: _calls.GroupNorm
"""Return (x - mean) / sqrt(var + eps) · weight + bias per group of channels."""
instance_norm: _calls.InstanceNorm
"""Return (x - mean) / sqrt(var + eps) · weight + bias per image and channel."""
layer_norm: _calls.LayerNorm
"""Return (x - mean) / sqrt(var + eps) · weight + bias over the last axes."""
normalize: _calls.Normalize
"""Return x / max(norm, eps), with norm = (sum |x|^p)^(1/p) along `axis`."""
rms_norm: _calls.RmsNorm
"""Return x / sqrt(mean(x²) + eps) · weight over the last axes."""
adaptive_avg_pool2d: _calls.AdaptiveAvgPool2D
"""Return the means of `output_size` windows that cover the image evenly."""
adaptive_max_pool2d: _calls.AdaptiveMaxPool2D
"""Return the largest element of each of `output_size` windows."""
avg_pool1d: _calls.AvgPool1D
"""Return the mean of each window."""
avg_pool2d: _calls.AvgPool2D
"""Return the mean of each window."""
global_avg_pool2d: _calls.LikeHardswish
"""Return the mean of each channel."""
max_pool1d: _calls.MaxPool1D
"""Return the largest element of each window; padding is ignored."""
max_pool2d: _calls.MaxPool2D
"""Return the largest element of each window; padding is ignored."""
gru: _calls.Gru
"""Return the state of a gated recurrent unit after each step."""
lstm: _calls.Lstm
"""Return the states of a long short-term memory after each step."""
rnn: _calls.Rnn
"""Return the state of a plain recurrent layer after each step."""
all: _calls.LikeAll
"""Return whether all elements over `axis` differ from zero, as NaN does."""
any: _calls.LikeAll
"""Return whether some element over `axis` differs from zero, as NaN does."""
cumulative_prod: _calls.LikeCumulativeProd
"""Return the running product along `axis`; errors as in `cumulative_sum`."""
cumulative_sum: _calls.LikeCumulativeProd
"""Return the running sum y[i] = x[0] + ... + x[i] along `axis`."""
diff: _calls.Diff
"""Return the differences y[i] = x[i + 1] - x[i] along `axis`, taken `n` times."""
max: _calls.LikeMax
"""Return the largest element over `axis`; NaN if there is one."""
mean: _calls.Mean
"""Return Σ x / N over `axis`, where N is the number of elements."""
min: _calls.LikeMax
"""Return the smallest element over `axis`; NaN if there is one."""
prod: _calls.Prod
"""Return Π x over `axis`; types and errors as in `sum`."""
std: _calls.LikeStd
"""Return √var(x), with the arguments of `var`."""
sum: _calls.Sum
"""Return Σ x over `axis`."""
var: _calls.LikeStd
"""Return Σ (x - mean(x))² / (N - correction) over `axis`."""
interpolate: _calls.Interpolate
"""Resample images to another height and width."""
pixel_shuffle: _calls.PixelShuffle
"""Move channels into pixels: [..., c · r², h, w] to [..., c, h · r, w · r]."""
pixel_unshuffle: _calls.PixelUnshuffle
"""Move pixels into channels; undoes `pixel_shuffle`."""
grid_sample: _calls.GridSample
"""Return the elements of an image at the points of a grid."""
roi_align: _calls.RoiAlign
"""Return regions of images, each resampled to one size."""
roi_pool: _calls.RoiPool
"""Return the largest pixels in the parts of regions of images."""
convolve: _calls.Convolve
"""Return the convolution y[i] = Σ x1[j] · x2[i - j] of two signals, over j."""
correlate: _calls.Correlate
"""Return the cross-correlation y[i] = Σ x1[i + j] · conj(x2[j]), over j."""
argmax: _calls.LikeArgmax
"""Return the index of the first largest element along `axis`, or first NaN."""
argmin: _calls.LikeArgmax
"""Return the index of the first smallest element along `axis`, or first NaN."""
argsort: _calls.Argsort
"""Return the indices along `axis` from which `sort` takes its elements."""
argwhere: _calls.Argwhere
"""Return the indices of all non-zero elements, one row for each; NaN is not zero."""
count_nonzero: _calls.CountNonzero
"""Count the elements over `axis` that are not zero; NaN is not zero."""
isin: _calls.Isin
"""Return whether each element of `x1` equals some element of `x2`."""
nonzero: _calls.Nonzero
"""Return the indices of all non-zero elements, row by row; NaN is not zero."""
searchsorted: _calls.Searchsorted
"""Return where each of `x2` is to be inserted into the sorted `x1`."""
sort: _calls.Sort
"""Return the elements in order along `axis`; NaN last, and first if descending."""
unique_all: _calls.UniqueAll
"""Return the distinct elements, their positions and their counts."""
unique_counts: _calls.UniqueCounts
"""Return the distinct elements and their counts."""
unique_inverse: _calls.UniqueInverse
"""Return the distinct elements, and for each element the index of its own."""
unique_values: _calls.UniqueValues
"""Return the distinct elements."""
where: _calls.Where
"""Return x1 where the condition holds, x2 elsewhere."""
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
from mdtensor.operators import Operators as Operators
from mdtensor.promotion import (
    add_type as add_type,
    can_cast as can_cast,
    promote_types as promote_types,
    promotion_rules as promotion_rules,
    result_type as result_type,
)
from mdtensor.spec.dims import (
    DYNAMIC as DYNAMIC,
    Dim as Dim,
    bind_dims as bind_dims,
)
from mdtensor.spec.spec import (
    TensorSpec as TensorSpec,
    TileSpec as TileSpec,
)
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
bool: Final[DType[BoolTensor]]
newaxis: None
subtract: _calls.LikeAdd
"""Return x1 - x2, element by element; wraps and rounds as `add` does."""
multiply: _calls.Mul
"""Return x1 · x2, element by element; wraps and rounds as `add` does."""
divide: _calls.Div
"""Return x1 / x2 in floating types; x / 0 is an infinity or NaN (IEEE 754)."""
negative: _calls.Neg
"""Return -x. The smallest signed integer and unsigned integers wrap."""
__version__: str
__array_api_version__: str
from mdtensor.dispatch.introspect import Call as Call
from mdtensor.ops.counting import HistogramResult as HistogramResult
from mdtensor.support_table import Support as Support
from mdtensor.compositions import TopKResult as TopKResult
from mdtensor.graph.trace import Trace as Trace
from mdtensor.ops.views import View as View
from mdtensor.closeness import allclose as allclose
from mdtensor._calls import arange as arange
from mdtensor.closeness import array_equal as array_equal
from mdtensor._calls import asarray as asarray
from mdtensor.checking.audits import audit as audit
from mdtensor.ops.counting import bincount as bincount
from mdtensor.ops.manipulation import broadcast_arrays as broadcast_arrays
from mdtensor.ops.manipulation import broadcast_shapes as broadcast_shapes
from mdtensor.checking.checked import checked as checked
from mdtensor.graph.compiled import compile as compile
from mdtensor import conformance as conformance
from mdtensor.covariance import corrcoef as corrcoef
from mdtensor.covariance import cov as cov
from mdtensor.matrix_parts import diag as diag
from mdtensor import diagnose as diagnose
from mdtensor.contraction import einsum as einsum
from mdtensor.ops.elementwise import elementwise as elementwise
from mdtensor._calls import empty as empty
from mdtensor import extend as extend
from mdtensor._calls import eye as eye
from mdtensor.ops.views import flat_in as flat_in
from mdtensor.ops.views import flat_out as flat_out
from mdtensor.ops.for_each import for_each as for_each
from mdtensor.ops.conversion import from_dlpack as from_dlpack
from mdtensor._calls import full as full
from mdtensor.ops.for_each import get_num_threads as get_num_threads
from mdtensor.piecewise_lines import gradient as gradient
from mdtensor import graph as graph
from mdtensor.ops.counting import histogram as histogram
from mdtensor.piecewise_lines import interp as interp
from mdtensor.closeness import isclose as isclose
from mdtensor.matrix_parts import kron as kron
from mdtensor.graph.lazy import lazy as lazy
from mdtensor._calls import linspace as linspace
from mdtensor.log_sums import logsumexp as logsumexp
from mdtensor.order_statistics import median as median
from mdtensor.ops.creation import meshgrid as meshgrid
from mdtensor.choices import nan_to_num as nan_to_num
from mdtensor.nan_reductions import nanmax as nanmax
from mdtensor.nan_reductions import nanmean as nanmean
from mdtensor.order_statistics import nanmedian as nanmedian
from mdtensor.nan_reductions import nanmin as nanmin
from mdtensor.nan_reductions import nanstd as nanstd
from mdtensor.nan_reductions import nansum as nansum
from mdtensor.nan_reductions import nanvar as nanvar
from mdtensor._calls import ones as ones
from mdtensor.ops.parallel_for import parallel_for as parallel_for
from mdtensor.order_statistics import percentile as percentile
from mdtensor import quant as quant
from mdtensor.order_statistics import quantile as quantile
from mdtensor.ops.views import ranked_in as ranked_in
from mdtensor.ops.views import ranked_out as ranked_out
from mdtensor.graph.lazy import realize as realize
from mdtensor.turns import rot90 as rot90
from mdtensor import safetensors as safetensors
from mdtensor.choices import select as select
from mdtensor.ops.for_each import set_num_threads as set_num_threads
from mdtensor.compositions import split as split
from mdtensor.support_table import support as support
from mdtensor.turns import swapaxes as swapaxes
from mdtensor import tables as tables
from mdtensor.compositions import topk as topk
from mdtensor.graph.trace import trace as trace
from mdtensor.dispatch.introspect import traced as traced
from mdtensor.piecewise_lines import trapezoid as trapezoid
from mdtensor.matrix_parts import tril_indices as tril_indices
from mdtensor.matrix_parts import triu_indices as triu_indices
from mdtensor.dispatch.introspect import which as which
from mdtensor.dispatch.introspect import why as why
from mdtensor import wide as wide
from mdtensor._calls import zeros as zeros
