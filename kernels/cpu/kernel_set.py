"""The kernels of each ISA, by name: the one place that knows all ISAs.

A process has its own set, `HOST`; a context can select another one.
"""

from contextvars import ContextVar
from functools import cache
from types import SimpleNamespace

from mdtensor.kernels.cpu import isa
from mdtensor.kernels.cpu.generic import (
    conv,
    copies,
    elementwise,
    float_conv,
    float_depthwise,
    float_elementwise,
    float_matmul,
    float_pool,
    float_rows,
    matmul,
    normalization,
    pool,
    softmax,
    weight_only,
)


def families(name):
    """Return the modules with the kernels of the ISA `name`.

    An intrinsic that the CPU lacks would abort the process, so on such a CPU `dot8/` is
    emulated. A process compiles `dot8/` for one ISA.
    """
    modules = {"conv": conv, "elementwise": elementwise}
    modules |= {"matmul": matmul, "reduction": pool}
    modules |= {"float_matmul": float_matmul, "float_depthwise": float_depthwise}
    modules |= {"float_conv": float_conv}
    modules |= {"weight_only": weight_only}
    if name not in ("generic", "neon") and not isa.lacking("avx2", isa.FEATURES):
        from mdtensor.kernels.cpu import avx2

        modules |= members(avx2, "float_depthwise", "float_matmul", "weight_only")
        modules |= members(avx2, "float_conv")
        if name in ("avx2", "avxvnni", "avx512"):
            modules |= members(avx2, "conv", "elementwise", "matmul")
    if name in isa.DOT_ISAS:
        modules |= dot_families(name)
    return SimpleNamespace(**modules)


# An ISA takes only the families that it gains from; AVX2's depthwise tiles beat AVX-512
# without VNNI (decision 0034).
def dot_families(name):
    """Return the modules of `dot8/` that make the ISA `name` faster."""
    from mdtensor.kernels.cpu import dot8

    if name != isa.DOT_ISA:
        raise ValueError(f"{name}: this process has {isa.DOT_ISA}")
    if name == "avxvnni":
        return members(dot8, "matmul")
    if name == "neon":
        return members(dot8, "conv", "matmul")
    if name == "avx512":
        return members(dot8, "elementwise", "matmul", "reduction")
    return members(dot8, "conv", "elementwise", "matmul", "reduction")


def members(package, *names):
    """Return the modules of a package that have these names, by name."""
    return {name: getattr(package, name) for name in names}


@cache
def kernels(name):
    """Return the kernels of the ISA `name` and their properties, by name."""
    fast = families(name)
    return SimpleNamespace(
        name=name,
        pack_s8=fast.matmul.pack_s8,
        padded_columns=matmul.padded_columns,
        PANEL_COLUMNS=fast.matmul.PANEL_COLUMNS,
        packed_column_bytes=fast.matmul.packed_column_bytes,
        pack_codes=fast.matmul.pack_codes,
        gemm_u8s8u8=fast.matmul.gemm_u8s8u8,
        gemm_u8s8s32=fast.matmul.gemm_u8s8s32,
        DEPTHWISE_BITS=fast.conv.DEPTHWISE_BITS,
        PRODUCTS_TAKE_EXCEPTION_SUMS=fast.matmul.TAKES_EXCEPTION_SUMS,
        DEPTHWISE_TAKES_EXCEPTION_SUMS=fast.conv.TAKES_EXCEPTION_SUMS,
        MOST_FACTOR=fast.conv.MOST_FACTOR,
        pack_depthwise=fast.conv.pack_depthwise,
        depthwise_u8s8u8=fast.conv.depthwise_u8s8u8,
        depthwise_u8s8s32=fast.conv.depthwise_u8s8s32,
        im2col_pitch=fast.conv.im2col_pitch,
        im2col_u8=fast.conv.im2col_u8,
        lookup_u8=fast.elementwise.lookup_u8,
        lookup_channels_u8=elementwise.lookup_channels_u8,
        choose_u8=elementwise.choose_u8,
        add_u8u8u8=fast.elementwise.add_u8u8u8,
        mul_u8u8u8=fast.elementwise.mul_u8u8u8,
        quantize_f32u8=fast.elementwise.quantize_f32u8,
        quantize_nchw_f32u8=fast.elementwise.quantize_nchw_f32u8,
        dequantize_u8f32=elementwise.dequantize_u8f32,
        mean_u8u8=fast.reduction.mean_u8u8,
        max_pool_u8=pool.max_pool_u8,
        avg_pool_u8=pool.avg_pool_u8,
        softmax_u8=softmax.softmax_u8,
        normalize_u8=normalization.normalize_u8,
        move_u8=copies.move_u8,
        transpose_f32=copies.transpose_f32,
        take_u8=copies.take_u8,
        concat_u8=copies.concat_u8,
        pack_f32=float_matmul.pack_f32,
        pack_depthwise_f32=float_depthwise.pack_depthwise_f32,
        depthwise_f32=fast.float_depthwise.depthwise_f32,
        MULTIPLIES_WINDOWS=fast.float_conv.MULTIPLIES_WINDOWS,
        windows_act_f32=fast.float_conv.windows_act_f32,
        max_pool_f32=float_pool.max_pool_f32,
        avg_pool_f32=float_pool.avg_pool_f32,
        softmax_f32=float_rows.softmax_f32,
        normalize_f32=float_rows.normalize_f32,
        mean_f32=float_pool.mean_f32,
        elementwise_f32=float_elementwise.elementwise_f32,
        gemm_act_f32=fast.float_matmul.gemm_act_f32,
        gemm_f32f32f32=fast.float_matmul.gemm_f32f32f32,
        pack_rows=weight_only.pack_rows,
        pack_grid=weight_only.pack_grid,
        gemm_f32s8f32=fast.weight_only.gemm_f32s8f32,
        gemm_f32u4f32=fast.weight_only.gemm_f32u4f32,
    )


HOST = kernels(isa.ISA)
#: The kernels for steps and layers that this context makes.
CHOSEN: ContextVar[SimpleNamespace] = ContextVar("isa", default=HOST)


def make_on(own, make, *arguments):
    """Call make(*arguments) so that new steps and layers use the ISA `own`."""
    token = CHOSEN.set(own)
    try:
        return make(*arguments)
    finally:
        CHOSEN.reset(token)


def isa_of(kernel):
    """Return the ISA of a kernel."""
    folder = kernel.__module__.split(".")[-2]
    if folder == "dot8":
        return isa.DOT_ISA
    return folder if folder in isa.ISAS else "generic"
