"""One valid call of every operation, for tests over the whole registry.

An operation that is not in the table is called with a matrix of floats for each
parameter that it dispatches on.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import mdtensor as md
from mdtensor import fft, linalg, quant

Call = tuple[tuple[Any, ...], dict[str, Any]]


def floats(*shape: int) -> Any:
    """Float32 numbers between 0 and 1."""
    numbers = np.arange(np.prod(shape, dtype=int)) * 5 % 7 + 1
    return md.from_numpy((numbers / 8).astype(np.float32).reshape(shape))


def int8_filters() -> Any:
    return md.ones((3, 2, 2, 2), dtype=md.int8)


def integers(*shape: int) -> Any:
    return md.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2)


def truths(*shape: int) -> Any:
    return md.astype(integers(*shape), md.bool)


def complexes(*shape: int) -> Any:
    return md.astype(floats(*shape), md.complex64)


def positive_definite() -> Any:
    return md.asarray([[4.0, 1.0], [1.0, 3.0]])


def codes(*shape: int) -> Any:
    return quant.quantize(floats(*shape), qparams=GRID)


GRID = quant.QParams(0.25, 3, dtype=quant.qint8)


def calls(arguments: Callable[[], tuple[Any, ...]], **options: Any) -> Any:
    """A call with fresh arguments each time; options that are functions are called."""

    def call() -> Call:
        given = {name: o() if callable(o) else o for name, o in options.items()}
        return arguments(), given

    return call


one_matrix = calls(lambda: (positive_definite(),))
two_truths = calls(lambda: (truths(2, 3), truths(3)))
two_integers = calls(lambda: (integers(2, 3), integers(3)))
pooled = calls(lambda: (floats(1, 2, 4, 4),), kernel_size=2)
complex_matrix = calls(lambda: (complexes(2, 3),))
along_rows = calls(lambda: (floats(2, 3),), axis=1)
pooled_line = calls(lambda: (floats(1, 2, 6),), kernel_size=2)
pooled_to_size = calls(lambda: (floats(1, 2, 5, 4),), output_size=(2, 3))
several = calls(lambda: (floats(2, 3), floats(2, 3)))


def channels(count: int) -> tuple[Any, ...]:
    return tuple(floats(3) for _ in range(count))


def recurrent(gates: int, states: int) -> tuple[Any, ...]:
    """Operands of a layer of two units, for three steps of two samples."""
    rows = 2 * gates
    given = [floats(3, 2, 4), floats(rows, 4), floats(rows, 2), floats(2, rows)]
    given += [floats(2, 2) for _ in range(states)]
    given += [floats(3, 2)] if states == 2 else []
    return (*given, integers(2))


def stump() -> tuple[Any, ...]:
    """Two samples, and a tree of two nodes."""
    children = md.asarray([[-1, 1, -1], [-2, -3, -3]])
    return floats(2, 3), floats(2), integers(2), children, md.asarray([0])


SAMPLES: dict[Any, Callable[[], Call]] = {
    **dict.fromkeys([md.logical_and, md.logical_or, md.logical_xor], two_truths),
    **dict.fromkeys([md.bitwise_and, md.bitwise_or, md.bitwise_xor], two_integers),
    **dict.fromkeys([md.bitwise_left_shift, md.bitwise_right_shift], two_integers),
    **dict.fromkeys([linalg.cholesky, linalg.eigh, linalg.eigvalsh], one_matrix),
    **dict.fromkeys([linalg.eig, linalg.eigvals], one_matrix),
    **dict.fromkeys([linalg.inv, linalg.det, linalg.slogdet], one_matrix),
    **dict.fromkeys([md.max_pool2d, md.avg_pool2d], pooled),
    **dict.fromkeys([md.concat, md.stack], several),
    **dict.fromkeys([md.real, md.imag, md.conj, fft.hfft], complex_matrix),
    md.view_as_real: complex_matrix,
    md.view_as_complex: calls(lambda: (floats(3, 2),)),
    **dict.fromkeys([fft.fft, fft.ifft, fft.irfft], complex_matrix),
    **dict.fromkeys([fft.fftn, fft.ifftn, fft.irfftn], complex_matrix),
    **dict.fromkeys([md.cumulative_sum, md.cumulative_prod], along_rows),
    **dict.fromkeys([md.convolve, md.correlate], calls(lambda: (floats(4), floats(2)))),
    md.bitwise_invert: calls(lambda: (integers(2, 3),)),
    md.logical_not: calls(lambda: (truths(2, 3),)),
    md.clip: calls(lambda: (floats(2, 3),), min=0.25, max=0.5),
    md.glu: calls(lambda: (floats(2, 4),)),
    md.prelu: calls(lambda: (floats(2, 3), floats(3))),
    md.astype: calls(lambda: (floats(2, 3), md.int8)),
    md.reduce_precision: calls(lambda: (floats(2, 3), md.float16)),
    md.to: calls(lambda: (floats(2, 3), "cpu")),
    md.full_like: calls(lambda: (floats(2, 3),), fill_value=2),
    md.getitem: calls(lambda: (floats(2, 3),), key=(0, slice(None, None, -1))),
    md.setitem: calls(lambda: (floats(2, 3),), key=1, value=lambda: floats(3)),
    md.take: calls(lambda: (floats(2, 3), integers(4)), axis=1),
    md.take_along_axis: calls(lambda: (floats(2, 3), integers(2, 2))),
    md.matmul_integer: calls(
        lambda: tuple(md.astype(integers(2, 2), md.int8) for _ in range(2))
    ),
    md.conv2d_integer: calls(
        lambda: (md.ones((1, 2, 4, 4), dtype=md.uint8), int8_filters(), None, None)
    ),
    md.dynamic_quantize: calls(
        lambda: (md.ones((2, 3), dtype=md.float32),), part="codes"
    ),
    md.dynamic_matmul: calls(
        lambda: (
            md.ones((2, 2), dtype=md.float32),
            md.astype(integers(2, 2), md.int8),
            md.ones((2,), dtype=md.float32),
        )
    ),
    md.dynamic_lstm: calls(
        lambda: (
            md.ones((3, 2, 4), dtype=md.float32),
            md.astype(integers(8, 4), md.int8),
            md.ones((8,), dtype=md.float32),
            md.astype(integers(8, 2), md.int8),
            md.ones((), dtype=md.float32),
            *[None] * 5,
        )
    ),
    md.dynamic_conv2d: calls(
        lambda: (
            md.ones((1, 2, 4, 4), dtype=md.float32),
            int8_filters(),
            md.ones((3,), dtype=md.float32),
            None,
            None,
        )
    ),
    md.scatter: calls(lambda: (floats(2, 3), integers(2, 2), floats(2, 2))),
    md.non_max_suppression: calls(lambda: (floats(1, 3, 4), floats(1, 2, 3))),
    md.grid_sample: calls(lambda: (floats(1, 2, 3, 4), floats(1, 2, 3, 2))),
    md.roi_align: calls(
        lambda: (floats(2, 2, 4, 5), floats(2, 4), integers(2)), output_size=2
    ),
    md.roi_pool: calls(lambda: (floats(2, 2, 4, 5), md.zeros((2, 5))), output_size=2),
    md.broadcast_to: calls(lambda: (floats(2, 3),), shape=(4, 2, 3)),
    md.expand_dims: calls(lambda: (floats(2, 3),), axis=1),
    md.moveaxis: calls(lambda: (floats(2, 3), 0, 1)),
    md.pad: calls(lambda: (floats(2, 3),), pad_width=[(1, 0), (0, 2)]),
    md.permute_dims: calls(lambda: (floats(2, 3),), axes=(1, 0)),
    md.repeat: calls(lambda: (floats(2, 3), 2)),
    md.reshape: calls(lambda: (floats(2, 3),), shape=(3, -1)),
    md.roll: calls(lambda: (floats(2, 3),), shift=1),
    md.squeeze: calls(lambda: (floats(1, 3),), axis=0),
    md.tile: calls(lambda: (floats(2, 3), (2, 1))),
    md.conv2d: calls(lambda: (floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3))),
    md.conv1d: calls(lambda: (floats(1, 2, 5), floats(3, 2, 3), floats(3))),
    md.conv_transpose2d: calls(
        lambda: (floats(1, 2, 3, 3), floats(2, 3, 2, 2), floats(3))
    ),
    **dict.fromkeys([md.max_pool1d, md.avg_pool1d], pooled_line),
    **dict.fromkeys([md.adaptive_avg_pool2d, md.adaptive_max_pool2d], pooled_to_size),
    md.interpolate: calls(lambda: (floats(1, 2, 3, 3),), size=(5, 2), mode="bilinear"),
    md.pixel_shuffle: calls(lambda: (floats(1, 4, 2, 2),), upscale_factor=2),
    md.pixel_unshuffle: calls(lambda: (floats(1, 1, 4, 4),), downscale_factor=2),
    md.scaled_dot_product_attention: calls(
        lambda: (floats(2, 3), floats(4, 3), floats(4, 5)),
        attn_mask=lambda: truths(2, 4),
    ),
    md.embedding: calls(lambda: (integers(4), floats(2, 3))),
    md.one_hot: calls(lambda: (integers(2, 3),)),
    md.lstm: calls(lambda: recurrent(4, 2)),
    md.gru: calls(lambda: recurrent(3, 1)),
    md.rnn: calls(lambda: recurrent(1, 1)),
    md.decision_trees: calls(stump),
    md.linear: calls(lambda: (floats(2, 4), floats(3, 4), floats(3))),
    md.matmul: calls(lambda: (floats(2, 3), floats(3, 2))),
    md.tensordot: calls(lambda: (floats(2, 3), floats(3, 2)), axes=1),
    md.batch_norm: calls(lambda: (floats(1, 3, 2, 2), *channels(4))),
    md.fold_batch_norm: calls(lambda: (floats(3, 2, 1, 1), *channels(5))),
    md.layer_norm: calls(lambda: (floats(2, 3), *channels(2)), normalized_shape=3),
    md.rms_norm: calls(lambda: (floats(2, 3), *channels(1)), normalized_shape=3),
    md.group_norm: calls(lambda: (floats(2, 3, 4), *channels(2)), num_groups=3),
    md.instance_norm: calls(lambda: (floats(2, 3, 4), *channels(2))),
    md.global_avg_pool2d: calls(lambda: (floats(1, 2, 4, 4),)),
    md.where: calls(lambda: (truths(2, 3), floats(3), floats(2, 1))),
    md.searchsorted: calls(
        lambda: (md.asarray([1.0, 2.0, 3.0]), floats(2, 3)),
        sorter=lambda: md.asarray([0, 1, 2]),
    ),
    md.diff: calls(lambda: (floats(2, 3),), prepend=lambda: floats(2, 1)),
    linalg.matrix_power: calls(lambda: (positive_definite(), 3)),
    linalg.outer: calls(lambda: (floats(2), floats(3))),
    linalg.solve: calls(lambda: (positive_definite(), floats(2))),
    quant.quantize: calls(lambda: (floats(2, 3),), qparams=GRID),
    quant.dequantize: calls(lambda: (codes(2, 3),)),
    quant.requantize: calls(lambda: (codes(2, 3),), out=quant.QParams(0.5)),
}


def sample(operation: Any) -> Call:
    """Fresh arguments and options of a valid call."""
    if operation in SAMPLES:
        return SAMPLES[operation]()
    return tuple(floats(2, 3) for _ in operation.operation.dispatched), {}


def call(operation: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    given = (arguments,) if operation.operation.sequence else arguments
    return operation(*given, **options)
