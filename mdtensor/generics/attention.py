"""Attention, embedding and one-hot coding."""

from __future__ import annotations

from typing import Any

from mdtensor.dispatch.operation import generic
from mdtensor.generics.rules.attention import attended, counted, embedded


@generic(deduce=attended)
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    /,
    *,
    attn_mask: Any = None,
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


@generic(deduce=embedded)
def embedding(indices: Any, weight: Any, /) -> Any:
    """Return weight[indices], one row of a matrix for each index.

    Args:
        indices: any shape, integers from 0.
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


@generic(deduce=counted)
def one_hot(x: Any, /, num_classes: int = -1) -> Any:
    """Return 1 where the position on a new last axis equals the element, else 0.

    Args:
        x: any shape, integers from 0.
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
