"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from typing import Final

from mdtensor import _calls
from mdtensor.dtypes import DType as DType

from mdtensor.leaves import BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor, Complex128Tensor as Complex128Tensor, Complex64Tensor as Complex64Tensor, Float16Tensor as Float16Tensor, Float32Tensor as Float32Tensor, Float64Tensor as Float64Tensor, Int16Tensor as Int16Tensor, Int32Tensor as Int32Tensor, Int64Tensor as Int64Tensor, Int8Tensor as Int8Tensor, UInt16Tensor as UInt16Tensor, UInt32Tensor as UInt32Tensor, UInt64Tensor as UInt64Tensor, UInt8Tensor as UInt8Tensor
from math import (
    e as e,
    inf as inf,
    nan as nan,
    pi as pi,
)
from mdtensor import (
    dtypes as dtypes,
    extend as extend,
    fft as fft,
    linalg as linalg,
    registry as registry,
)
from mdtensor.catalog import *
from mdtensor.checking import (
    audit as audit,
    checked as checked,
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
from mdtensor.dispatch import (
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
"""max(x, 0) + min(0, alpha · (exp(x / alpha) - 1))."""
elu: _calls.Elu
"""x where x > 0, else alpha · (exp(x) - 1)."""
gelu: _calls.Gelu
"""x · Φ(x) = x · (1 + erf(x / √2)) / 2."""
glu: _calls.LikeGlu
"""a · sigmoid(b), where a and b are the halves of x along `axis`."""
hardsigmoid: _calls.Hardsigmoid
"""min(max(alpha · x + beta, 0), 1)."""
hardswish: _calls.LikeHardswish
"""x · min(max(x + 3, 0), 6) / 6."""
hardtanh: _calls.Hardtanh
"""min(max(x, min_val), max_val)."""
leaky_relu: _calls.LeakyRelu
"""x where x > 0, else negative_slope · x."""
logsigmoid: _calls.LikeLogsigmoid
"""log(1 / (1 + exp(-x))), without overflow."""
mish: _calls.LikeHardswish
"""x · tanh(softplus(x))."""
prelu: _calls.Prelu
"""x where x > 0, else weight · x."""
relu: _calls.Relu
"""max(x, 0); NaN stays NaN."""
relu6: _calls.Relu6
"""min(max(x, 0), 6)."""
selu: _calls.LikeHardswish
"""1.0507 · elu(x, alpha=1.6733), which keeps mean 0 and variance 1."""
sigmoid: _calls.LikeHardswish
"""1 / (1 + exp(-x)), without overflow."""
silu: _calls.LikeHardswish
"""x · sigmoid(x), also called swish."""
softplus: _calls.Softplus
"""log(1 + exp(beta · x)) / beta, without overflow."""
softsign: _calls.LikeHardswish
"""x / (1 + abs(x))."""
abs: _calls.Abs
"""|x|. The smallest signed integer wraps to itself."""
add: _calls.LikeAdd
"""x1 + x2."""
clip: _calls.Clip
"""min(max(x, `min`), `max`); None leaves a side open."""
div: _calls.Div
"""x1 / x2 in floating types; x / 0 is an infinity or NaN, as IEEE 754 says."""
floor_divide: _calls.LikeFloorDivide
"""floor(x1 / x2), the quotient of Python's `//`; floor of an infinity is itself."""
maximum: _calls.LikeMaximum
"""The larger of x1 and x2; NaN if either is NaN."""
minimum: _calls.LikeMaximum
"""The smaller of x1 and x2; NaN if either is NaN."""
mul: _calls.Mul
"""x1 · x2; wraps and rounds as `add` does."""
neg: _calls.Neg
"""-x. The smallest signed integer and unsigned integers wrap."""
positive: _calls.LikePositive
"""+x: a copy."""
pow: _calls.Pow
"""x1 to the power of x2. Integers wrap; 0 to the power of 0 is 1."""
reciprocal: _calls.LikeReciprocal
"""1 / x; of 0 it is an infinity."""
remainder: _calls.LikeFloorDivide
"""x1 - floor(x1 / x2) · x2, Python's `%`: it has the sign of x2."""
sign: _calls.Sign
"""-1, 0 or 1; z / |z| of complex numbers. Of NaN it is NaN, of -0.0 it is 0.0."""
square: _calls.Square
"""x · x; wraps and rounds as `mul` does."""
sub: _calls.LikeAdd
"""x1 - x2; wraps and rounds as `add` does."""
embedding: _calls.Embedding
"""weight[indices]: a row of a table for each index."""
one_hot: _calls.OneHot
"""1 where the place on a new last axis is the element of x, else 0."""
scaled_dot_product_attention: _calls.ScaledDotProductAttention
"""softmax(query · keyᵀ · scale + mask) · value."""
equal: _calls.LikeEqual
"""x1 = x2 as numbers, whatever their types; NaN equals nothing."""
greater: _calls.LikeGreater
"""x1 > x2, exactly as `equal` compares."""
greater_equal: _calls.LikeGreater
"""x1 ≥ x2, exactly as `equal` compares."""
less: _calls.LikeGreater
"""x1 < x2, exactly as `equal` compares."""
less_equal: _calls.LikeGreater
"""x1 ≤ x2, exactly as `equal` compares."""
not_equal: _calls.LikeEqual
"""x1 ≠ x2, exactly as `equal` compares."""
conv1d: _calls.Conv1D
"""1-D cross-correlation of signals with a bank of filters."""
conv2d: _calls.Conv2D
"""2-D cross-correlation of images with a bank of filters."""
conv_transpose2d: _calls.ConvTranspose2D
"""The transpose of `conv2d` as a linear map: each number paints a filter."""
astype: _calls.Astype
"""`x` with another element type. The only way to narrow a type."""
to: _calls.To
"""`x` on `device`; the only operation that moves a tensor between devices."""
empty_like: _calls.LikeEmptyLike
"""A tensor of the shape of `x` with undefined elements."""
full_like: _calls.FullLike
"""A tensor of the shape of `x` with every element `fill_value`."""
ones_like: _calls.LikeEmptyLike
"""A tensor of ones of the shape of `x`."""
tril: _calls.LikeTril
"""The lower triangles of matrices: zero above diagonal `k`."""
triu: _calls.LikeTril
"""The upper triangles of matrices: zero below diagonal `k`."""
zeros_like: _calls.LikeEmptyLike
"""A tensor of zeros of the shape of `x`."""
from mdtensor.generics.dims import (
    DYNAMIC as DYNAMIC,
    Dim as Dim,
    bind_dims as bind_dims,
)
exp: _calls.LikeExp
"""The exponential function."""
expm1: _calls.LikeReciprocal
"""exp(x) - 1, accurate near 0."""
log: _calls.LikeReciprocal
"""The natural logarithm; NaN below 0, -infinity at 0."""
log1p: _calls.LikeReciprocal
"""log(1 + x), accurate near 0."""
log2: _calls.LikeReciprocal
"""The logarithm to base 2; ends and branch as `log`."""
log10: _calls.LikeReciprocal
"""The logarithm to base 10; ends and branch as `log`."""
logaddexp: _calls.LikeLogaddexp
"""log(exp(x1) + exp(x2)) without overflow."""
sqrt: _calls.LikeReciprocal
"""The square root, correctly rounded; NaN below 0."""
copysign: _calls.LikeLogaddexp
"""|x1| with the sign bit of x2."""
isfinite: _calls.LikeIsfinite
"""Whether x is neither infinite nor NaN: true of every integer."""
isinf: _calls.LikeIsfinite
"""Whether x is infinite: false of every integer."""
isnan: _calls.LikeIsfinite
"""Whether x is no number: false of every integer."""
nextafter: _calls.LikeLogaddexp
"""The number after x1 in the direction of x2, in the promoted type."""
signbit: _calls.Signbit
"""Whether the sign bit of x is set, that of -0.0 and of NaN included."""
getitem: _calls.Getitem
"""`x[key]`; a view unless a tensor in the key picks elements."""
setitem: _calls.Setitem
"""Write `value` into `x[key]`, in place; nothing is written on an error."""
take: _calls.Take
"""The elements of `x` at `indices` along `axis`."""
take_along_axis: _calls.TakeAlongAxis
"""The elements of `x` at `indices` along `axis`, each line by its own indices."""
matrix_transpose: _calls.MatrixTranspose
"""The transpose of each matrix, nothing conjugated; a view."""
bitwise_and: _calls.LikeBitwiseAnd
"""The bits that are set in both."""
bitwise_invert: _calls.BitwiseInvert
"""Each bit inverted: -1 - x of signed integers, `not` of truth values."""
bitwise_left_shift: _calls.LikeBitwiseLeftShift
"""x1 · 2**x2, wrapping: 0 once x2 reaches the width of the promoted type."""
bitwise_or: _calls.LikeBitwiseAnd
"""The bits that are set in one or both; operands as `bitwise_and`."""
bitwise_right_shift: _calls.LikeBitwiseLeftShift
"""floor(x1 / 2**x2): 0 or -1 once x2 reaches the width of the promoted type."""
bitwise_xor: _calls.LikeBitwiseAnd
"""The bits that are set in exactly one; operands as `bitwise_and`."""
logical_and: _calls.LikeLogicalAnd
"""Whether both are true."""
logical_not: _calls.LogicalNot
"""Whether x is false."""
logical_or: _calls.LikeLogicalAnd
"""Whether one or both are true; operands as `logical_and`."""
logical_xor: _calls.LikeLogicalAnd
"""Whether exactly one is true; operands as `logical_and`."""
broadcast_to: _calls.BroadcastTo
"""`x` repeated along axes of size 1 to `shape`; a view that cannot be written."""
concat: _calls.Concat
"""Arrays laid end to end along `axis`; None flattens them first."""
expand_dims: _calls.LikeExpandDims
"""`x` with new axes of size 1; a view."""
flip: _calls.Flip
"""`x` in reverse order along `axis`, an axis or a tuple of them; a view."""
moveaxis: _calls.Moveaxis
"""The axes `source` of `x` at the places `destination`; a view."""
pad: _calls.Pad
"""`x` with a border of `value`."""
permute_dims: _calls.PermuteDims
"""The axes of `x` in the order `axes`; a view."""
repeat: _calls.Repeat
"""Each element of `x` as often as `repeats` says, one after the other."""
reshape: _calls.Reshape
"""The same elements in row-major order under another shape."""
roll: _calls.Roll
"""`x` moved by `shift` places; what leaves at the end comes in at the front."""
squeeze: _calls.LikeExpandDims
"""`x` without the named axes of size 1; a view."""
stack: _calls.Stack
"""Arrays of one shape side by side along a new axis."""
tile: _calls.Tile
"""`x` laid side by side `repetitions` times along each axis."""
unstack: _calls.Unstack
"""The parts of `x` along `axis`, without the axis; views."""
linear: _calls.Linear
"""x · wᵀ + b, a fully connected layer."""
matmul: _calls.Matmul
"""The matrix product over the last axis of `x1` and the second-last of `x2`."""
tensordot: _calls.Tensordot
"""Σ x1 · x2 over pairs of axes, one of each operand; nothing is conjugated."""
vecdot: _calls.LikeCross
"""Σ conj(x1) · x2 over `axis`; the other axes broadcast."""
batch_norm: _calls.BatchNorm
"""(x - mean) / sqrt(var + eps) · weight + bias, channel by channel."""
fold_batch_norm: _calls.FoldBatchNorm
"""Weights and bias of the one convolution that equals conv2d and batch_norm."""
group_norm: _calls.GroupNorm
"""(x - mean) / sqrt(var + eps) · weight + bias over each group of channels."""
instance_norm: _calls.InstanceNorm
"""(x - mean) / sqrt(var + eps) · weight + bias over each channel of each image."""
layer_norm: _calls.LayerNorm
"""(x - mean) / sqrt(var + eps) · weight + bias over the last axes."""
normalize: _calls.Normalize
"""x / max(norm, eps), with norm = (sum |x|^p)^(1/p) along `axis`."""
rms_norm: _calls.RmsNorm
"""x / sqrt(mean(x²) + eps) · weight over the last axes."""
conj: _calls.LikePositive
"""a - bi of a + bi; a copy of real numbers."""
imag: _calls.Imag
"""The imaginary part."""
real: _calls.Real
"""The real part; a copy of real numbers."""
adaptive_avg_pool2d: _calls.AdaptiveAvgPool2D
"""The mean of each of `output_size` windows that cover the image evenly."""
adaptive_max_pool2d: _calls.AdaptiveMaxPool2D
"""The largest element of each of `output_size` windows."""
avg_pool1d: _calls.AvgPool1D
"""The mean of each window."""
avg_pool2d: _calls.AvgPool2D
"""The mean of each window."""
global_avg_pool2d: _calls.LikeHardswish
"""The mean of each channel."""
max_pool1d: _calls.MaxPool1D
"""The largest element of each window; padding never wins."""
max_pool2d: _calls.MaxPool2D
"""The largest element of each window; padding never wins."""
all: _calls.LikeAll
"""Whether no element over `axis` is zero; NaN is not zero."""
any: _calls.LikeAll
"""Whether some element over `axis` is not zero; NaN is not zero."""
max: _calls.LikeMax
"""The largest element over `axis`; NaN if there is one."""
mean: _calls.Mean
"""Σ x / N over `axis`, N being the number of elements."""
min: _calls.LikeMax
"""The smallest element over `axis`; NaN if there is one."""
prod: _calls.Prod
"""Π x over `axis`; types and errors as those of `sum`."""
std: _calls.LikeStd
"""√var(x), with the arguments of `var`."""
sum: _calls.Sum
"""Σ x over `axis`."""
var: _calls.LikeStd
"""Σ (x - mean(x))² / (N - correction) over `axis`."""
interpolate: _calls.Interpolate
"""Images resampled to another height and width."""
pixel_shuffle: _calls.PixelShuffle
"""[..., c · r², h, w] to [..., c, h · r, w · r]: channels become pixels."""
pixel_unshuffle: _calls.PixelUnshuffle
"""[..., c, h · r, w · r] to [..., c · r², h, w]; undoes `pixel_shuffle`."""
ceil: _calls.LikeCeil
"""The smallest integer that is at least x."""
floor: _calls.LikeCeil
"""The largest integer that is at most x."""
round: _calls.Round
"""The integer nearest to x, of two the even one."""
trunc: _calls.LikeCeil
"""x without its fraction: rounded toward zero."""
cumulative_prod: _calls.LikeCumulativeProd
"""y[i] = x[0] · ... · x[i] along `axis`; errors as those of `cumulative_sum`."""
cumulative_sum: _calls.LikeCumulativeProd
"""y[i] = x[0] + ... + x[i] along `axis`."""
diff: _calls.Diff
"""y[i] = x[i + 1] - x[i] along `axis`, `n` times."""
argmax: _calls.LikeArgmax
"""The index of the first largest element along `axis`; of the first NaN if any."""
argmin: _calls.LikeArgmax
"""The index of the first smallest element along `axis`; of the first NaN if any."""
count_nonzero: _calls.CountNonzero
"""How many elements over `axis` are not zero; NaN is not zero."""
nonzero: _calls.Nonzero
"""The indices of all elements that are not zero, row by row; NaN is not zero."""
searchsorted: _calls.Searchsorted
"""How many elements of `x1` are below each of `x2`: where to insert it."""
where: _calls.Where
"""x1 where the condition holds, x2 elsewhere."""
isin: _calls.Isin
"""Whether each element of `x1` equals some element of `x2`."""
unique_all: _calls.UniqueAll
"""The distinct elements, where they are, and how often."""
unique_counts: _calls.UniqueCounts
"""The distinct elements and how often they come."""
unique_inverse: _calls.UniqueInverse
"""The distinct elements and which of them each element is."""
unique_values: _calls.UniqueValues
"""The distinct elements."""
log_softmax: _calls.LikeGlu
"""log(softmax(x)) along `axis`, without underflow."""
softmax: _calls.Softmax
"""exp(x) / sum(exp(x)) along `axis`, shifted by the maximum against overflow."""
argsort: _calls.Argsort
"""The indices along `axis` that `sort` would take elements from."""
sort: _calls.Sort
"""The elements in order along `axis`; NaN last, and first if descending."""
from mdtensor.generics.spec import (
    TensorSpec as TensorSpec,
    TileSpec as TileSpec,
)
erf: _calls.LikeLogsigmoid
"""2/√π · ∫ exp(-t²) dt from 0 to x, the error function."""
acos: _calls.LikeReciprocal
"""The arc cosine, from 0 to π; NaN of reals outside [-1, 1]."""
acosh: _calls.LikeReciprocal
"""The inverse of the hyperbolic cosine, from 0; NaN of reals below 1."""
asin: _calls.LikeReciprocal
"""The arc sine, from -π/2 to π/2; NaN of reals outside [-1, 1]."""
asinh: _calls.LikeReciprocal
"""The inverse of the hyperbolic sine."""
atan: _calls.LikeReciprocal
"""The arc tangent, from -π/2 to π/2."""
atan2: _calls.LikeLogaddexp
"""The angle of the point (x2, x1), from -π to π."""
atanh: _calls.LikeReciprocal
"""The inverse of the hyperbolic tangent; NaN of reals outside [-1, 1]."""
cos: _calls.LikeReciprocal
"""The cosine of x in radians; NaN at an infinity."""
cosh: _calls.LikeReciprocal
"""The hyperbolic cosine."""
hypot: _calls.LikeLogaddexp
"""sqrt(x1² + x2²) without overflow on the way."""
sin: _calls.LikeReciprocal
"""The sine of x in radians; NaN at an infinity."""
sinh: _calls.LikeReciprocal
"""The hyperbolic sine."""
tan: _calls.LikeReciprocal
"""The tangent of x in radians; NaN at an infinity."""
tanh: _calls.LikeExp
"""The hyperbolic tangent."""
from mdtensor.infer import infer as infer
from mdtensor.inspection import (
    NamespaceInfo as NamespaceInfo,
    __array_namespace_info__ as __array_namespace_info__,
)
from mdtensor.leaves import *
from mdtensor.operators import Operators as Operators
from mdtensor._calls import asarray as asarray
from mdtensor.ops.arrays import from_dlpack as from_dlpack
from mdtensor._calls import (
    empty as empty,
    eye as eye,
    full as full,
    ones as ones,
    zeros as zeros,
)
from mdtensor.ops.for_each import for_each as for_each
from mdtensor.ops.manipulation import (
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
)
from mdtensor._calls import (
    arange as arange,
    linspace as linspace,
)
from mdtensor.ops.ranges import meshgrid as meshgrid
from mdtensor.ops.scalar_function import elementwise as elementwise
from mdtensor.ops.threads import (
    get_num_threads as get_num_threads,
    set_num_threads as set_num_threads,
)
from mdtensor.ops.views import (
    View as View,
    flat_in as flat_in,
    flat_out as flat_out,
    ranked_in as ranked_in,
    ranked_out as ranked_out,
)
from mdtensor.promotion import (
    add_type as add_type,
    can_cast as can_cast,
    promote_types as promote_types,
    promotion_rules as promotion_rules,
    result_type as result_type,
)
from mdtensor.registration import register as register
from mdtensor.selection import (
    Method as Method,
    Selection as Selection,
)
from mdtensor.support import (
    Support as Support,
    support as support,
)
from mdtensor.tensor import (
    Tensor as Tensor,
    from_numpy as from_numpy,
    leaf as leaf,
    leaves as leaves,
)
from mdtensor.tracing import (
    Call as Call,
    traced as traced,
)
from mdtensor.type_info import (
    FloatInfo as FloatInfo,
    IntegerInfo as IntegerInfo,
    finfo as finfo,
    iinfo as iinfo,
    isdtype as isdtype,
)
from mdtensor.which import (
    which as which,
    why as why,
)
bool: Final[DType[BoolTensor]]
newaxis: None
subtract: _calls.LikeAdd
"""x1 - x2; wraps and rounds as `add` does."""
multiply: _calls.Mul
"""x1 · x2; wraps and rounds as `add` does."""
divide: _calls.Div
"""x1 / x2 in floating types; x / 0 is an infinity or NaN, as IEEE 754 says."""
negative: _calls.Neg
"""-x. The smallest signed integer and unsigned integers wrap."""
__version__: str
__array_api_version__: str
from mdtensor import conformance as conformance
from mdtensor import diagnose as diagnose
from mdtensor import quant as quant
from mdtensor import safetensors as safetensors
from mdtensor import tables as tables
from mdtensor import wide as wide
