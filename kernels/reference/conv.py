"""The oracle of `cpu/generic/conv.py` and `pool.py`: the definition, tap by tap.

Sums are int64.
"""

import numpy as np

from mdtensor.kernels.reference import requantize_s32u8, round_half_even


def iter_taps(x, kernel, stride, padding, dilation, fill):
    """Yield (i, j, pixels under tap (i, j) as int64 [n, oh, ow, c])."""
    top, left, bottom, right = padding
    edges = ((0, 0), (top, bottom), (left, right), (0, 0))
    # int64 holds every sum of 8-bit products.
    padded = np.pad(x.astype(np.int64), edges, constant_values=fill)
    reach = [dilation[a] * (kernel[a] - 1) for a in range(2)]
    sizes = [(padded.shape[a + 1] - reach[a] - 1) // stride[a] + 1 for a in range(2)]
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = i * dilation[0] + stride[0] * np.arange(sizes[0])
            columns = j * dilation[1] + stride[1] * np.arange(sizes[1])
            yield i, j, padded[:, rows][:, :, columns]


def conv2d_u8s8s32(
    x,
    weight,
    bias,
    *,
    stride=(1, 1),
    padding=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    x_zero_point=0,
):
    """Compute sums of (x - x_zero_point) * weight + bias, int64 [n, oh, ow, oc].

    Args:
        x: uint8 [n, h, w, c], padded with x_zero_point.
        weight: int8 [oc, c / groups, kh, kw].
    """
    oc, per_group, kh, kw = weight.shape
    total = 0
    # Padding has the code of 0, the zero point, and adds nothing.
    for i, j, taps in iter_taps(x, (kh, kw), stride, padding, dilation, x_zero_point):
        centred = taps - x_zero_point
        parts = [
            centred[..., g * per_group : (g + 1) * per_group]
            @ weight[g * oc // groups : (g + 1) * oc // groups, :, i, j]
            .astype(np.int64)
            .T
            for g in range(groups)
        ]
        total = total + np.concatenate(parts, axis=-1)
    return total + (0 if bias is None else np.asarray(bias, np.int64))


def conv2d_u8s8u8(x, weight, bias, ratios, zero_point, lo, hi, **options):
    """Compute `conv2d_u8s8s32`, rounded once by `ratios` per output channel."""
    acc = conv2d_u8s8s32(x, weight, bias, **options)
    return requantize_s32u8(acc, ratios, zero_point, lo, hi)


def depthwise_u8s8s32(x, weight, bias, **options):
    """Compute a convolution with one filter, int8 [kh, kw], for each channel."""
    return conv2d_u8s8s32(x, weight[:, None], bias, groups=len(weight), **options)


def depthwise_u8s8u8(x, weight, bias, ratios, zero_point, lo, hi, **options):
    """Compute `depthwise_u8s8s32`, rounded once by `ratios` per channel."""
    acc = depthwise_u8s8s32(x, weight, bias, **options)
    return requantize_s32u8(acc, ratios, zero_point, lo, hi)


def im2col_u8(x, kernel, stride, padding, dilation, x_zero_point):
    """Return [n * oh * ow, kh * kw * c]: the codes under each output pixel."""
    taps = iter_taps(x, kernel, stride, padding, dilation, x_zero_point)
    columns = np.stack([part for _, _, part in taps], axis=3)
    return columns.reshape(-1, kernel[0] * kernel[1] * x.shape[3]).astype(np.uint8)


def _inside(x, kernel, stride, padding, dilation):
    """Return which taps are inside x: [taps, n, oh, ow, c] of 0 and 1."""
    ones = np.ones(x.shape, np.uint8)
    taps = iter_taps(ones, kernel, stride, padding, dilation, 0)
    return np.stack([part for _, _, part in taps])


def max_pool_u8(x, kernel, stride, padding=(0, 0, 0, 0), dilation=(1, 1)):
    """Compute the largest code of each window; padding is ignored."""
    # Codes are unsigned, so a padding of 0 is never larger than a pixel.
    taps = iter_taps(x, kernel, stride, padding, dilation, 0)
    return np.stack([part for _, _, part in taps]).max(axis=0).astype(np.uint8)


def avg_pool_u8(
    x,
    kernel,
    stride,
    padding,
    ratio,
    x_zero_point,
    zero_point,
    lo,
    hi,
    count_include_pad=False,
):
    """Compute clamp(round(sum of (x - x_zero_point) / count * ratio) + zero_point)."""
    taps = iter_taps(x, kernel, stride, padding, (1, 1), x_zero_point)
    sums = sum(part - x_zero_point for _, _, part in taps)
    counts = _inside(x, kernel, stride, padding, (1, 1)).sum(axis=0)
    if count_include_pad:
        counts = np.full_like(counts, kernel[0] * kernel[1])
    out = np.empty(sums.shape, np.uint8)
    for place in np.ndindex(*sums.shape):
        # A window may be in the padding only; its sum is 0 then.
        count = max(int(counts[place]), 1)
        code = round_half_even(int(sums[place]) * ratio / count) + zero_point
        out[place] = min(max(code, lo), hi)
    return out
