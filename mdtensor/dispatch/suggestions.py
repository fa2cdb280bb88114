"""Suggestions for misspelled names, and for names from NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mdtensor.spelling import similar

#: Functions of NumPy and PyTorch, and their names here.
RENAMED = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arcsin": "asin",
    "arctan": "atan",
    "arctan2": "atan2",
    "array": "asarray",
    "as_tensor": "asarray",
    "bitwise_not": "bitwise_invert",
    "bmm": "matmul",
    "bool_": "bool",
    "cat": "concat",
    "clamp": "clip",
    "concatenate": "concat",
    "cross": "linalg.cross",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "det": "linalg.det",
    "diagonal": "linalg.diagonal",
    "dot": "matmul",
    "eq": "equal",
    "double": "float64",
    "float": "float32",
    "flatten": "reshape",
    "floor_div": "floor_divide",
    "from_array": "from_numpy",
    "gather": "take_along_axis",
    "ge": "greater_equal",
    "ger": "linalg.outer",
    "gt": "greater",
    "half": "float16",
    "int": "int64",
    "index_select": "take",
    "inv": "linalg.inv",
    "inverse": "linalg.inv",
    "le": "less_equal",
    "logical_invert": "logical_not",
    "long": "int64",
    "lt": "less",
    "mm": "matmul",
    "mod": "remainder",
    "movedim": "moveaxis",
    "mv": "matmul",
    "ne": "not_equal",
    "norm": "linalg.vector_norm",
    "outer": "linalg.outer",
    "permute": "permute_dims",
    "power": "pow",
    "ravel": "reshape",
    "repeat_interleave": "repeat",
    "rint": "round",
    "sgn": "sign",
    "tensor": "asarray",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "type": "astype",
    "unbind": "unstack",
    "unique": "unique_values",
    "unique_consecutive": "unique_values",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "vstack": "concat",
    "hstack": "concat",
    **{
        name: f"linalg.{name}"
        for name in (
            *("cholesky", "eig", "eigh", "eigvals", "eigvalsh", "lstsq", "matrix_norm"),
            *("matrix_power", "matrix_rank", "pinv", "qr", "slogdet", "solve", "svd"),
            *("svdvals", "vector_norm"),
        )
    },
    **{
        name: f"fft.{name}"
        for name in (
            *("fftfreq", "fftn", "fftshift", "ifft", "ifftn", "ifftshift", "irfft"),
            *("irfftn", "rfft", "rfftfreq", "rfftn"),
        )
    },
    **{
        name: f"quant.{name}"
        for name in (
            *("QFloat8E4M3Tensor", "QFloat8E5M2Tensor", "QInt16Tensor", "QInt32Tensor"),
            *("QInt4Tensor", "QInt8Tensor", "QParams", "QUInt4Tensor", "QUInt8Tensor"),
            *("dequantize", "load_plan", "qfloat8_e4m3", "qfloat8_e5m2", "qint16"),
            *("qint32", "qint4", "qint8", "quantize", "quint4", "quint8", "requantize"),
        )
    },
}

#: Functions in modules of NumPy and PyTorch that are several here.
SPLIT = {("linalg", "norm"): ("vector_norm", "matrix_norm")}

#: Functions of PyTorch's and ONNX Runtime's quantization, and the code to write here.
#: `model` is what `quant.load(path)` returns.
QUANTIZING = {
    "calibrate": "model.calibrate(samples)",
    "convert": "model.quantize(calibration)",
    "fake_quantize": "quant.dequantize(quant.quantize(x, qparams))",
    "fake_quantize_per_channel_affine": "quant.dequantize(quant.quantize(x, qparams))",
    "fake_quantize_per_tensor_affine": "quant.dequantize(quant.quantize(x, qparams))",
    "prepare": "model.calibrate(samples)",
    "quantize_dynamic": "model.quantize_weights()",
    "quantize_per_channel": "quant.quantize(x, QParams(scales, axis=...))",
    "quantize_per_tensor": "quant.quantize(x, QParams(scale, zero_point))",
    "quantize_static": "model.quantize(model.calibrate(samples))",
}

#: Attributes of NumPy arrays and PyTorch tensors, and the code to write here.
ATTRIBUTES = {
    "bfloat16": "astype(x, bfloat16)",
    "bool": "astype(x, bool)",
    "byte": "astype(x, uint8)",
    "char": "astype(x, int8)",
    "clone": "asarray(x, copy=True)",
    "contiguous": "asarray(x, copy=True)",
    "copy": "asarray(x, copy=True)",
    "cpu": "x.to('cpu')",
    "cuda": "x.to('cuda')",
    "data": "x.buffer",
    "dim": "x.ndim",
    "double": "astype(x, float64)",
    "expand": "broadcast_to(x, shape)",
    "expand_as": "broadcast_to(x, shape)",
    "fill": "x[...] = value",
    "fill_": "x[...] = value",
    "flatten": "reshape(x, (-1,))",
    "flat": "reshape(x, (-1,))",
    "float": "astype(x, float32)",
    "half": "astype(x, float16)",
    "int": "astype(x, int32)",
    "is_cuda": "x.device",
    "is_contiguous": "x.buffer.flags",
    "itemsize": "x.dtype.bits",
    "long": "astype(x, int64)",
    "masked_fill": "where(mask, value, x)",
    "ndimension": "x.ndim",
    "numel": "x.size",
    "numpy": "numpy.asarray(x)",
    "ravel": "reshape(x, (-1,))",
    "short": "astype(x, int16)",
    "strides": "x.buffer.strides",
    "t": "x.T",
    "trace": "linalg.trace(x)",
    "zero_": "x[...] = 0",
}
#: The same for attributes of PyTorch's quantized tensors.
QUANTIZED = {
    "dequantize": "mdtensor.quant.dequantize(x)",
    "int_repr": "x.codes",
    "q_per_channel_axis": "x.qparams.axis",
    "q_per_channel_scales": "x.scale",
    "q_per_channel_zero_points": "x.zero_point",
    "q_scale": "x.scale",
    "q_zero_point": "x.zero_point",
}
_NO_GRADIENTS = "mdtensor does not compute gradients"
_NO_RANDOM = (
    "mdtensor does not draw random numbers: "
    "use asarray(numpy.random.default_rng().random(shape))"
)
_NO_TRAINING = "mdtensor does not train: layers are functions, such as mdtensor.linear"
_READ = (
    "Use mdtensor.safetensors.load_file(path) for tensors, "
    "or mdtensor.quant.load(path) for a model"
)
_WRITE = "Use mdtensor.safetensors.save_file(tensors, path)"
#: Names of features that mdtensor does not have, each with a sentence for the user.
ABSENT = {
    **dict.fromkeys(
        (
            *("autograd", "backward", "detach", "enable_grad", "grad", "is_leaf"),
            *("jvp", "no_grad", "requires_grad", "requires_grad_", "retain_grad"),
            *("value_and_grad", "vjp"),
        ),
        _NO_GRADIENTS,
    ),
    **dict.fromkeys(
        (
            *("bernoulli", "manual_seed", "multinomial", "normal", "rand", "rand_like"),
            *("randint", "randn", "randn_like", "random", "randperm", "seed"),
            *("uniform",),
        ),
        _NO_RANDOM,
    ),
    **dict.fromkeys(("nn", "optim"), _NO_TRAINING),
    **dict.fromkeys(("load", "load_file"), _READ),
    **dict.fromkeys(("save", "save_file", "savez"), _WRITE),
}
#: PyTorch functions that mdtensor does not have, and that NumPy does not have either.
_TORCH = frozenset(
    {
        *("adaptive_avg_pool3d", "addr", "affine_grid", "avg_pool3d", "bilinear"),
        *("block_diag", "cond", "conv3d", "conv_transpose1d", "conv_transpose3d"),
        *("ctc_loss", "cross_entropy", "cummax", "cummin", "dropout", "embedding_bag"),
        *("expm", "fold", "gumbel_softmax", "huber_loss", "is_nonzero", "istft"),
        *("kl_div", "local_response_norm", "logcumsumexp", "lp_pool2d", "lu"),
        *("matrix_exp", "max_pool3d", "max_unpool2d", "mode", "nll_loss", "pdist"),
        *("rrelu", "stft", "unfold", "vmap"),
    }
)
#: PyTorch functions that are an expression of ours.
WRITTEN = {
    "addcdiv": "x + value * a / b",
    "addcmul": "x + value * a * b",
    "addmm": "x + a @ b",
    "addmv": "x + a @ b",
    "aminmax": "mdtensor.min(x) and mdtensor.max(x)",
    "angle": "mdtensor.atan2(mdtensor.imag(x), mdtensor.real(x))",
    "append": "mdtensor.concat([x, y])",
    "apply_along_axis": "the axis= of operations, or mdtensor.stack of results",
    "argpartition": "mdtensor.topk(x, k).indices",
    "around": "mdtensor.round(x)",
    "array_split": "mdtensor.split(x, sizes)",
    "atleast_1d": "mdtensor.reshape(x, (-1,))",
    "average": "mdtensor.sum(x * weights) / mdtensor.sum(weights)",
    "baddbmm": "x + a @ b",
    "bucketize": "mdtensor.searchsorted(edges, x)",
    "cdist": "mdtensor.linalg.vector_norm(x[:, None] - y[None], axis=-1)",
    "chunk": "mdtensor.split(x, sizes, axis=axis)",
    "column_stack": "mdtensor.stack(columns, axis=1)",
    "clone": "mdtensor.asarray(x, copy=True)",
    "copy": "mdtensor.asarray(x, copy=True)",
    "copyto": "x[...] = y",
    "cosine_similarity": (
        "mdtensor.vecdot(mdtensor.normalize(x, axis=-1), "
        "mdtensor.normalize(y, axis=-1))"
    ),
    "deg2rad": "x * (mdtensor.pi / 180)",
    "degrees": "x * (180 / mdtensor.pi)",
    "diag_embed": "mdtensor.diag(x)",
    "diagflat": "mdtensor.diag(mdtensor.reshape(x, (-1,)))",
    "digitize": "mdtensor.searchsorted(edges, x, side='right')",
    "dist": "mdtensor.linalg.vector_norm(x - y)",
    "ediff1d": "mdtensor.diff(mdtensor.reshape(x, (-1,)))",
    "digamma": "scipy.special.digamma(x), which returns a tensor",
    "erfc": "scipy.special.erfc(x), which returns a tensor",
    "erfinv": "scipy.special.erfinv(x), which returns a tensor",
    "fill_diagonal": "x[mdtensor.eye(n, dtype=mdtensor.bool)] = value",
    "fix": "mdtensor.trunc(x)",
    "flatnonzero": "mdtensor.nonzero(mdtensor.reshape(x, (-1,)))[0]",
    "fliplr": "mdtensor.flip(x, axis=1)",
    "flipud": "mdtensor.flip(x, axis=0)",
    "frac": "x - mdtensor.trunc(x)",
    "hardshrink": "mdtensor.where(mdtensor.abs(x) > weight, x, 0)",
    "identity": "mdtensor.eye(n)",
    "in1d": "mdtensor.isin(x, y)",
    "index_add": "mdtensor.scatter(x, indices, y, reduction='add')",
    "index_copy": "mdtensor.scatter(x, indices, y)",
    "inner": "mdtensor.tensordot(x, y, axes=((-1,), (-1,)))",
    "ix_": "x[rows[:, None], columns]",
    "is_floating_point": "mdtensor.isdtype(x.dtype, 'real floating')",
    "kthvalue": "mdtensor.topk(x, k, largest=False).values[..., -1]",
    "l1_loss": "mdtensor.mean(mdtensor.abs(x - y))",
    "lerp": "x + weight * (y - x)",
    "lgamma": "scipy.special.gammaln(x), which returns a tensor",
    "logit": "mdtensor.log(x / (1 - x))",
    "logspace": "base ** mdtensor.linspace(start, stop, num)",
    "masked_fill": "mdtensor.where(mask, value, x)",
    "masked_select": "x[mask]",
    "mgrid": "mdtensor.meshgrid(rows, columns, indexing='ij')",
    "mse_loss": "mdtensor.mean(mdtensor.square(x - y))",
    "msort": "mdtensor.sort(x, axis=0)",
    "nanargmax": "mdtensor.argmax(mdtensor.where(mdtensor.isnan(x), -inf, x))",
    "nanargmin": "mdtensor.argmin(mdtensor.where(mdtensor.isnan(x), inf, x))",
    "nanprod": "mdtensor.prod(mdtensor.where(mdtensor.isnan(x), 1, x))",
    "narrow": "x[:, start : start + length]",
    "ndim": "x.ndim",
    "numel": "x.size",
    "pairwise_distance": "mdtensor.linalg.vector_norm(x - y, axis=-1)",
    "partition": "mdtensor.sort(x), or mdtensor.topk(x, k)",
    "pinverse": "mdtensor.linalg.pinv(x)",
    "place": "x[mask] = values",
    "ptp": "mdtensor.max(x) - mdtensor.min(x)",
    "put": "x[indices] = values",
    "putmask": "x[mask] = values",
    "put_along_axis": "mdtensor.scatter(x, indices, values, axis=axis)",
    "rad2deg": "x * (180 / mdtensor.pi)",
    "radians": "x * (mdtensor.pi / 180)",
    "rsqrt": "1 / mdtensor.sqrt(x)",
    "rsub": "y - x",
    "scatter_add": "mdtensor.scatter(x, indices, y, reduction='add')",
    "shape": "x.shape",
    "size": "x.size",
    "sliding_window_view": "x[mdtensor.arange(n)[:, None] + mdtensor.arange(size)]",
    "smooth_l1_loss": (
        "mdtensor.mean(mdtensor.where(mdtensor.abs(x - y) < 1, "
        "mdtensor.square(x - y) / 2, mdtensor.abs(x - y) - 0.5))"
    ),
    "softmin": "mdtensor.softmax(-x)",
    "softshrink": "mdtensor.sign(x) * mdtensor.relu(mdtensor.abs(x) - weight)",
    "std_mean": "mdtensor.std(x) and mdtensor.mean(x)",
    "tanhshrink": "x - mdtensor.tanh(x)",
    "threshold": "mdtensor.where(x > weight, x, value)",
    "tri": "mdtensor.tril(mdtensor.ones((n, m)))",
    "var_mean": "mdtensor.var(x) and mdtensor.mean(x)",
    "vectorize": "mdtensor.elementwise(function)",
    "vdot": "mdtensor.vecdot(x, y)",
    "xlogy": "scipy.special.xlogy(x, y), which returns a tensor",
}

#: Operations with an in-place operator in Python, and its sign.
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}

#: Options of NumPy and PyTorch, and their names here.
OPTIONS = {
    "a_max": ("max",),
    "a_min": ("min",),
    "axes": ("axis",),
    "axis": ("axes",),
    "constant_values": ("value",),
    "ddof": ("correction",),
    "diagonal": ("k", "offset"),
    "dim": ("axis", "axes"),
    "dims": ("axes", "axis"),
    "epsilon": ("eps",),
    "keepdim": ("keepdims",),
    "kernel": ("kernel_size",),
    "kernel_shape": ("kernel_size",),
    "newshape": ("shape",),
    "pads": ("padding",),
    "size": ("shape", "output_size"),
    "strides": ("stride",),
    "unbiased": ("correction",),
}

#: The order of options in NumPy or PyTorch, where it is not ours. Some of these names
#: are not options here.
POSITIONS = {
    "astype": ("copy",),
    "diff": ("n", "axis", "prepend", "append"),
    "isin": ("assume_unique", "invert"),
    "matrix_norm": ("ord",),
    "matrix_rank": ("tol",),
    "max_pool1d": ("stride", "padding", "dilation"),
    "max_pool2d": ("stride", "padding", "dilation"),
    "scaled_dot_product_attention": ("attn_mask", "dropout_p"),
    "std": ("axis", "correction"),
    "var": ("axis", "correction"),
    "vector_norm": ("ord", "axis", "keepdims"),
}


#: What PyTorch and ONNX pass to `quantize`, and a grid holds here.
_OF_GRIDS = ("axis", "block_size", "dtype", "narrow_range", "scale", "zero_point")


def of_grids(operation: str, name: str) -> str:
    """Return how to pass an option that belongs to the grid; empty for others.

    Example:
        >>> of_grids("quantize", "axis"), of_grids("sum", "axis")
        ('Write quantize(x, QParams(scale, axis=axis))', '')
    """
    if operation != "quantize" or name not in _OF_GRIDS:
        return ""
    more = "" if name == "scale" else f", {name}={name}"
    return f"Write quantize(x, QParams(scale{more}))"


def option(name: str, known: Iterable[str]) -> str:
    """Return the option of `known` that is most like `name`; empty if none is.

    Example:
        >>> option("dim", ["axis"]), option("keepdmis", ["keepdims"]), option("q", [])
        ('axis', 'keepdims', '')
    """
    names = list(known)
    same = [ours for ours in OPTIONS.get(name, ()) if ours in names]
    # Typing errors rarely affect the first letter.
    near = [ours for ours in names if ours[:1] == name[:1]]
    return next(iter(same or similar(name, near, 1, 0.75)), "")


def closest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three names of `known` that are like `name`, renamings first.

    Example:
        >>> closest("sn", ["cos", "sinh", "sin"]), closest("cat", ["concat", "sin"])
        (['sin', 'sinh'], ['concat'])
    """
    names = sorted(known)
    ours = [new for new in (RENAMED.get(name, ""),) if new in names]
    near = similar(name, names, 3, 0.6)
    return [*dict.fromkeys((*ours, *near))][:3]


def attribute(name: str, known: Iterable[str]) -> str:
    """Return a hint for the attribute `name`, which tensors do not have.

    Args:
        name: the attribute.
        known: names of operations.

    Example:
        >>> attribute("numpy", []), attribute("view", []), attribute("q", [])
        (' Use numpy.asarray(x).', ' Use mdtensor.reshape(x).', '')
    """
    advice = ATTRIBUTES.get(name) or QUANTIZED.get(name) or WRITTEN.get(name)
    if advice:
        return f" Use {advice}."
    found = hint(name, known)
    is_call = found.startswith(" Use mdtensor.") and found.endswith(".")
    return f"{found.rstrip('.')}(x)." if is_call else found


def hint(name: str, known: Iterable[str]) -> str:
    """Return a hint such as ` Use mdtensor.concat.`; empty if no name is similar.

    Example:
        >>> hint("concatenate", ["concat"]), hint("softmx", ["softmax"]), hint("q", [])
        (' Use mdtensor.concat.', ' Use mdtensor.softmax.', '')
        >>> hint("cbrt", [])
        ' mdtensor does not have cbrt: numpy.cbrt takes tensors and returns tensors.'
        >>> hint("ad", ["pad", "add"]), hint("Add", ["pad", "add"])
        (' Use mdtensor.add.', ' Use mdtensor.add.')
    """
    if name in ABSENT:
        return f" {ABSENT[name]}."
    names = list(known)
    bare = name.removesuffix("_")
    bare = RENAMED.get(bare, bare)
    if name.endswith("_") and bare in names and name not in RENAMED:
        return f" {_in_place(bare)}"
    if name in QUANTIZING:
        return f" Use {QUANTIZING[name]}."
    name = name if name in RENAMED else name.lower()
    if name in WRITTEN:
        return f" Use {WRITTEN[name]}."
    if name not in (*names, *RENAMED) and _has_own_meaning(name):
        return f" mdtensor does not have {name}{_of_numpy(name)}."
    near = similar(name, sorted(names), 3, 0.8)
    # Typing errors are more frequent at the end of a word than at its start.
    near.sort(key=lambda one: one[:1] != name[:1])
    found = RENAMED.get(name) or (near[0] if near else "")
    return f" Use mdtensor.{found}." if found else ""


def hint_in(module: str, name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that a module of mdtensor does not have.

    Args:
        module: the last part of its name, such as `linalg`.
        name: what the module does not have.
        known: the public names of the module.

    Example:
        >>> hint_in("linalg", "norm", ["vector_norm"])
        ' Use mdtensor.linalg.vector_norm or mdtensor.linalg.matrix_norm.'
        >>> hint_in("linalg", "slove", ["solve"]), hint_in("linalg", "cond", ["qr"])
        (' Use mdtensor.linalg.solve.', ' mdtensor does not have linalg.cond.')
    """
    if name.startswith("_"):
        return ""
    if (module, name) in SPLIT:
        found = (f"mdtensor.{module}.{each}" for each in SPLIT[module, name])
        return f" Use {' or '.join(found)}."
    if module == "quant" and name in QUANTIZING:
        return f" Use {QUANTIZING[name]}."
    if name in RENAMED:
        return f" Use mdtensor.{RENAMED[name]}."
    if callable(getattr(getattr(np, module, None), name, None)):
        return f" mdtensor does not have {module}.{name}."
    near = similar(name.lower(), sorted(known), 1, 0.75)
    return f" Use mdtensor.{module}.{near[0]}." if near else ""


def _of_numpy(name: str) -> str:
    """Return how to call NumPy's function of this name; empty if there is none."""
    function = getattr(np, name, None)
    if isinstance(function, np.ufunc):
        return f": numpy.{name} takes tensors and returns tensors"
    # Only its functions of arrays have this attribute.
    if hasattr(function, "_implementation") or name in _WINDOWS:
        return f": use asarray(numpy.{name}(...))"
    return ""


#: NumPy's functions that take a size, as weights of signals do.
_WINDOWS = frozenset({"bartlett", "blackman", "hamming", "hanning", "kaiser"})


def _in_place(name: str) -> str:
    """Return how to write the result of an operation into its first argument."""
    sign = _SIGNS.get(name)
    way = f"x {sign}= y" if sign else f"x[...] = mdtensor.{name}(x)"
    return f"mdtensor.{name} returns a new tensor; to write into x: {way}."


def _has_own_meaning(name: str) -> bool:
    """Return whether NumPy or PyTorch have a function of this name.

    A user who writes `median` wants the median, so `mean` would be a wrong hint.
    """
    return name in _TORCH or callable(getattr(np, name, None))
