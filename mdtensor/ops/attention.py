"""Methods of attention, embedding and one-hot encoding for dense host tensors."""

from functools import partial

from mdtensor.dispatch.operation import method
from mdtensor.errors import BoundsError, ShapeError, describe
from mdtensor.generics.attention import (
    embedding,
    one_hot,
    scaled_dot_product_attention,
)
from mdtensor.kernels.numpy import attention as kernel
from mdtensor.ops.operands import Dense, allocate, deduced, on_host
from mdtensor.spec.options import number
from mdtensor.tensor import Tensor
from mdtensor.types import FloatingTensor, IntegerTensor


@method(scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: FloatingTensor,
    key: FloatingTensor,
    value: FloatingTensor,
    /,
    *,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    on_host("scaled_dot_product_attention", query, key, value, attn_mask)
    options = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    spec = deduced(scaled_dot_product_attention, query, key, value, **options)
    result: type[Tensor] = spec.type
    buffers = (query.buffer, key.buffer, value.buffer)
    mask = None if attn_mask is None else attn_mask.buffer
    factor = None if scale is None else number(scale, "scale")
    y = kernel.attention(*buffers, mask, is_causal, factor, result.dtype.storage)
    return result.wrap(y)


@method(embedding)
def embedding(indices: IntegerTensor, weight: Dense, /) -> Tensor:
    deduced(embedding, indices, weight)
    rows = weight.shape[0]
    # NumPy would count a negative index from the end.
    if kernel.beyond(indices.buffer, rows):
        raise beyond_table(rows).within(describe("embedding", indices, weight))
    return weight.wrap(kernel.embedding(indices.buffer, weight.buffer))


def beyond_table(rows: int) -> BoundsError:
    """Return the error of an index that a table of this many rows does not have."""
    problem = f"an index is outside a table of {rows} rows"
    return BoundsError(problem, "Use integers of 0 or more")


@method(one_hot)
def one_hot(x: IntegerTensor, /, *, num_classes: int) -> Tensor:
    result: type[Tensor] = deduced(one_hot, x, num_classes=num_classes).type
    if num_classes == -1 and not x.size:
        raise ShapeError(
            "cannot find the number of classes of an empty tensor",
            "Pass num_classes",
            describe("one_hot", x),
        )
    # -1 stands for one class for each integer up to the largest element.
    count = int(x.buffer.max()) + 1 if num_classes == -1 else int(num_classes)
    if kernel.beyond(x.buffer, count):
        raise BoundsError(
            f"an element is outside of {max(count, 0)} classes",
            "Use integers of 0 or more, or a larger num_classes",
            describe("one_hot", x),
        )
    # The result may be much larger than x, so it may not fit into memory.
    made = partial(kernel.one_hot, x.buffer, count)
    return result.wrap(allocate(made, "one_hot", x))
