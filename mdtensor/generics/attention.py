"""Attention, embedding and one-hot coding."""

from __future__ import annotations

from typing import Any

from mdtensor import dtypes
from mdtensor.dispatch.operation import generic
from mdtensor.errors import OptionError, ShapeError, shown
from mdtensor.promotion import result_type
from mdtensor.spec.options import flag, number
from mdtensor.spec.shapes import DYNAMIC, Shape, are_like, broadcast_shapes, is_size
from mdtensor.spec.spec import TensorSpec

# Shape rules of attention, embedding and one-hot coding.


def infer_attention(
    query: TensorSpec,
    key: TensorSpec,
    value: TensorSpec,
    *,
    attn_mask: object = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> TensorSpec:
    """Infer the promoted type and [..., l, v]."""
    q, k, v = query.shape, key.shape, value.shape
    # Checked before the sizes are read, which vectors do not have.
    if min(map(len, (q, k, v))) < 2:
        raise ShapeError("query, key and value need at least 2 axes", "Use [..., l, e]")
    for name, one, other in (("widths", q[-1], k[-1]), ("lengths", k[-2], v[-2])):
        if one != other and DYNAMIC not in (one, other):
            what = "query and key" if name == "widths" else "key and value"
            raise ShapeError(
                f"{name} of {what} differ, {one} and {other}",
                "Give query [..., l, e], key [..., s, e] and value [..., s, v]",
            )
    # None stands for 1 / √e, which depends on the width of the query.
    if scale is not None:
        number(scale, "scale")
    batch = broadcast_shapes(q[:-2], k[:-2], v[:-2])
    causal = flag(is_causal, "is_causal")
    if attn_mask is not None:
        _check_mask(attn_mask, causal, (*batch, q[-2], k[-2]))
    return query.with_dtype(result_type(query, key, value)).with_shape(
        (*batch, q[-2], v[-1])
    )


def _check_mask(mask: Any, is_causal: bool, scores: Shape) -> None:
    """Raise unless `mask` fits `scores` and is the only mask."""
    # Not `is_tensor`: the message names the element type if there is one.
    dtype = getattr(mask, "dtype", None)
    is_class = isinstance(mask, type)
    known = dtype if isinstance(dtype, dtypes.DType) and not is_class else None
    if known is None or not (known is dtypes.bool_ or known.is_floating):
        shown = known or (mask if is_class else type(mask)).__name__
        raise OptionError(f"attn_mask is of {shown}", "Use a tensor of bools or floats")
    # Both together would need a rule for their conflict; PyTorch rejects them as well.
    if is_causal:
        raise OptionError("attn_mask and is_causal are both given", "Pass one")
    # The mask may repeat over the batch, but must not add axes to the scores.
    if not are_like(broadcast_shapes(mask.shape, scores), scores):
        raise ShapeError(
            f"a mask of shape {mask.shape} does not broadcast to {scores}",
            f"Give attn_mask the shape {scores[-2:]}",
        )


def infer_embedding(indices: TensorSpec, weight: TensorSpec) -> TensorSpec:
    """Infer the type of the weight and [*indices.shape, e]."""
    # One row for each index: with more axes a row would be a matrix.
    if weight.ndim != 2:
        raise ShapeError(
            f"weight must have 2 axes, but has {weight.ndim}",
            "Give the shape [rows, e]",
        )
    return weight.with_shape((*indices.shape, weight.shape[1]))


def infer_one_hot(x: TensorSpec, *, num_classes: int = -1) -> TensorSpec:
    """Infer int64 and a new last axis, whose size is unknown unless given."""
    # 0 classes could hold no index at all, so it is a mistake, unlike -1, which counts
    # them.
    if not is_size(num_classes) or num_classes < -1 or num_classes == 0:
        raise OptionError(
            f"num_classes is {shown(num_classes)}", "Use an integer of 1 or more, or -1"
        )
    size = DYNAMIC if num_classes == -1 else int(num_classes)
    return x.with_dtype(dtypes.int64).with_shape((*x.shape, size))


@generic(deduce=infer_attention)
def scaled_dot_product_attention(
    query: object,
    key: object,
    value: object,
    /,
    *,
    attn_mask: object = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Return softmax(query · keyᵀ · scale + mask) · value.

    Args:
        query: [..., l, e], floating.
        key: [..., s, e].
        value: [..., s, v]; leading axes of all three broadcast.
        attn_mask: a tensor that broadcasts to [..., l, s]: bools, True where a
            query sees a key, or floats that are added. None lets all see all.
        is_causal: query i sees keys 0 to i; without `attn_mask` only.
        scale: None is 1 / sqrt(e).

    Returns:
        [..., l, v] of the promoted type; 0 for a query that sees no key.

    Raises:
        ShapeError: the shapes of query, key, value and mask do not fit each other.
        OptionError: the mask is not a tensor of bools or floats, or both a mask and
            `is_causal` are given.

    Example:
        >>> import mdtensor as md
        >>> x = md.asarray([[1.0, 2.0], [3.0, 4.0]])
        >>> md.scaled_dot_product_attention(md.zeros((1, 2)), x, x).tolist()
        [[2.0, 3.0]]

    Source: ONNX `Attention`; PyTorch,
        `torch.nn.functional.scaled_dot_product_attention`; Vaswani et al. 2017.
    """


@generic(deduce=infer_embedding)
def embedding(indices: object, weight: object, /) -> Any:
    """Return weight[indices], one row of a matrix for each index.

    Args:
        indices: any shape, integers of 0 or more.
        weight: [rows, e].

    Returns:
        [*indices.shape, e], the type of `weight`.

    Raises:
        ShapeError: `weight` is not a matrix, or an index is outside of it.

    Example:
        >>> import mdtensor as md
        >>> table = md.asarray([[1.0, 2.0], [3.0, 4.0]])
        >>> md.embedding(md.asarray([1, 1]), table).tolist()
        [[3.0, 4.0], [3.0, 4.0]]

    Source: ONNX `Gather`; PyTorch, `torch.nn.functional.embedding`.
    """


@generic(deduce=infer_one_hot)
def one_hot(x: object, /, num_classes: int = -1) -> Any:
    """Return 1 where the position on a new last axis equals the element, else 0.

    Args:
        x: any shape, integers of 0 or more.
        num_classes: the size of the new axis; -1 is one more than the largest element.

    Returns:
        [*x.shape, num_classes], int64.

    Raises:
        ShapeError: an element is below 0 or not below `num_classes`, or there is none
            to tell their number.

    Example:
        >>> import mdtensor as md
        >>> md.one_hot(md.asarray([0, 2])).tolist()
        [[1, 0, 0], [0, 0, 1]]

    Source: ONNX `OneHot`; PyTorch, `torch.nn.functional.one_hot`.
    """
