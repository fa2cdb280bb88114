"""What users of NumPy and PyTorch call things, and what the same is called here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Names of NumPy and PyTorch whose meaning has another name here.
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
    "bmm": "matmul",
    "cat": "concat",
    "clamp": "clip",
    "concatenate": "concat",
    "cross": "linalg.cross",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "det": "linalg.det",
    "diag": "linalg.diagonal",
    "dot": "vecdot",
    "floor_div": "floor_divide",
    "from_array": "from_numpy",
    "inv": "linalg.inv",
    "logical_invert": "logical_not",
    "mm": "matmul",
    "mod": "remainder",
    "norm": "linalg.vector_norm",
    "outer": "linalg.outer",
    "permute": "permute_dims",
    "power": "pow",
    "rint": "round",
    "swapaxes": "moveaxis",
    "tensor": "asarray",
    "trace": "linalg.trace",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "type": "astype",
    "unbind": "unstack",
    "unique": "unique_values",
    "unsqueeze": "expand_dims",
    "view": "reshape",
    "vstack": "concat",
    "hstack": "concat",
}

#: Options of NumPy and PyTorch, and what the same is called here.
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


def option(name: str, known: Iterable[str]) -> str:
    """The option that is meant by `name`; empty where none is like it.

    Example:
        >>> option("dim", ["axis"]), option("keepdmis", ["keepdims"]), option("q", [])
        ('axis', 'keepdims', '')
    """
    names = list(known)
    same = [ours for ours in OPTIONS.get(name, ()) if ours in names]
    # A slip of the pen hardly ever takes the first letter.
    near = [ours for ours in names if ours[:1] == name[:1]]
    return next(iter(same or difflib.get_close_matches(name, near, 1, 0.75)), "")


def hint(name: str, known: Iterable[str]) -> str:
    """` Use mdtensor.concat.` for `concatenate`; empty where nothing is like it.

    Example:
        >>> hint("concatenate", ["concat"]), hint("softmx", ["softmax"]), hint("q", [])
        (' Use mdtensor.concat.', ' Use mdtensor.softmax.', '')
    """
    near = difflib.get_close_matches(name, list(known), 1, 0.8)
    found = RENAMED.get(name) or (near[0] if near else "")
    return f" Use mdtensor.{found}." if found else ""
