"""The kernels of the chosen runway, by name: the one place that knows all runways."""

from types import SimpleNamespace

from mdtensor.kernels.cpu import (
    conv,
    elementwise,
    float_matmul,
    isa,
    matmul,
    pool,
    reduction,
    weight_only,
)


def families(name):
    """The modules that the runway `name` takes its kernels from.

    An intrinsic that the CPU lacks aborts the process when its kernel is compiled, but
    those of "vnni" are emulated there.
    """
    modules = {"conv": conv, "elementwise": elementwise}
    modules |= {"matmul": matmul, "reduction": reduction}
    modules |= {"float_matmul": float_matmul, "weight_only": weight_only}
    if name == "avx2":
        from mdtensor.kernels.cpu import avx2

        modules |= {"conv": avx2.conv, "elementwise": avx2.elementwise}
        modules |= {"matmul": avx2.matmul}
        modules |= floats_of(avx2)
    if name == "vnni":
        from mdtensor.kernels.cpu import vnni

        modules |= {"conv": vnni.conv, "elementwise": vnni.elementwise}
        modules |= {"matmul": vnni.matmul, "reduction": vnni.reduction}
        if not isa.lacking("avx2", isa.FEATURES):
            from mdtensor.kernels.cpu import avx2

            modules |= floats_of(avx2)
    return SimpleNamespace(**modules)


def floats_of(runway):
    """The families of products of floats."""
    names = ("float_matmul", "weight_only")
    return {name: getattr(runway, name) for name in names}


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
pack_f32 = float_matmul.pack_f32
gemm_f32f32f32 = fast.float_matmul.gemm_f32f32f32
pack_rows = weight_only.pack_rows
pack_grid = weight_only.pack_grid
gemm_f32s8f32 = fast.weight_only.gemm_f32s8f32
gemm_f32u4f32 = fast.weight_only.gemm_f32u4f32


def runway_of(kernel):
    """The runway that the kernel `kernel` belongs to."""
    folder = kernel.__module__.split(".")[-2]
    return folder if folder in isa.RUNWAYS else "generic"
