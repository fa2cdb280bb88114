"""The kernels of the chosen runway, by name: the one place that knows all runways."""

from types import SimpleNamespace

from mdtensor.kernels.cpu import conv, elementwise, isa, matmul, pool, reduction


def families(name):
    """The modules that the runway `name` takes its kernels from.

    An intrinsic that the CPU lacks aborts the process when its kernel is compiled, but
    those of "vnni" are emulated there.
    """
    modules = {"conv": conv, "elementwise": elementwise}
    modules |= {"matmul": matmul, "reduction": reduction}
    if name == "avx2":
        from mdtensor.kernels.cpu import avx2

        modules |= {"conv": avx2.conv, "elementwise": avx2.elementwise}
        modules |= {"matmul": avx2.matmul}
    if name == "vnni":
        from mdtensor.kernels.cpu import vnni

        modules |= {"conv": vnni.conv, "elementwise": vnni.elementwise}
        modules |= {"matmul": vnni.matmul, "reduction": vnni.reduction}
    return SimpleNamespace(**modules)


fast = families(isa.RUNWAY)

pack_s8 = fast.matmul.pack_s8
padded_columns = matmul.padded_columns
PANEL_COLUMNS = fast.matmul.PANEL_COLUMNS
packed_column_bytes = fast.matmul.packed_column_bytes
gemm_u8s8u8 = fast.matmul.gemm_u8s8u8
gemm_u8s8s32 = fast.matmul.gemm_u8s8s32
pack_depthwise_s8 = fast.conv.pack_depthwise_s8
depthwise_u8s8u8 = fast.conv.depthwise_u8s8u8
depthwise_u8s8s32 = fast.conv.depthwise_u8s8s32
im2col_u8 = fast.conv.im2col_u8
lookup_u8 = fast.elementwise.lookup_u8
add_u8u8u8 = fast.elementwise.add_u8u8u8
mul_u8u8u8 = fast.elementwise.mul_u8u8u8
quantize_f32u8 = fast.elementwise.quantize_f32u8
quantize_nchw_f32u8 = fast.elementwise.quantize_nchw_f32u8
dequantize_u8f32 = elementwise.dequantize_u8f32
mean_u8u8 = fast.reduction.mean_u8u8
max_pool_u8 = pool.max_pool_u8
avg_pool_u8 = pool.avg_pool_u8


def runway_of(kernel):
    """The runway that the kernel `kernel` belongs to."""
    folder = kernel.__module__.split(".")[-2]
    return folder if folder in isa.RUNWAYS else "generic"
