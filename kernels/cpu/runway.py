"""The kernels of the chosen runway, by name: the one place that knows both runways."""

from mdtensor.kernels.cpu import conv, elementwise, isa, matmul, pool, reduction

if isa.RUNWAY == "vnni":
    from mdtensor.kernels.cpu.vnni import (
        conv as fast_conv,
        elementwise as fast_elementwise,
        matmul as fast_matmul,
        reduction as fast_reduction,
    )
else:
    fast_conv, fast_matmul = conv, matmul  # type: ignore[misc]
    fast_elementwise, fast_reduction = elementwise, reduction  # type: ignore[misc]

pack_s8 = fast_matmul.pack_s8
padded_columns = matmul.padded_columns
gemm_u8s8u8 = fast_matmul.gemm_u8s8u8
gemm_u8s8s32 = fast_matmul.gemm_u8s8s32
pack_depthwise_s8 = fast_conv.pack_depthwise_s8
depthwise_u8s8u8 = fast_conv.depthwise_u8s8u8
depthwise_u8s8s32 = fast_conv.depthwise_u8s8s32
im2col_u8 = fast_conv.im2col_u8
lookup_u8 = fast_elementwise.lookup_u8
add_u8u8u8 = fast_elementwise.add_u8u8u8
mul_u8u8u8 = fast_elementwise.mul_u8u8u8
quantize_f32u8 = fast_elementwise.quantize_f32u8
quantize_nchw_f32u8 = fast_elementwise.quantize_nchw_f32u8
dequantize_u8f32 = elementwise.dequantize_u8f32
mean_u8u8 = fast_reduction.mean_u8u8
max_pool_u8 = pool.max_pool_u8
avg_pool_u8 = pool.avg_pool_u8


def runway_of(kernel):
    """The runway that the kernel `kernel` belongs to."""
    return "vnni" if ".vnni." in kernel.__module__ else "generic"
