"""Machine code of tiles for CPUs that are not here: `python foreign.py FOLDER NAME`.

One process for each CPU, since the kernels in `dot/` are for one. The folder gets the
assembly of all tiles, as functions `int64_t name(const job *)`, and for Arm, which is
emulated, an object file of them. An instruction that a CPU lacks ends its process.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import types

from mdtensor.kernels.cpu import isa


class Cpu(NamedTuple):
    """A CPU by the names that LLVM gives it, and the features that we ask for."""

    runway: str
    triple: str
    name: str
    extra: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        return *isa.NEEDED[self.runway], *self.extra


CPUS = {
    "Neoverse N1": Cpu("neon", "aarch64-linux-gnu", "neoverse-n1"),
    "Neoverse V1": Cpu("neon", "aarch64-linux-gnu", "neoverse-v1"),
    "Alder Lake": Cpu("avxvnni", "x86_64-linux-gnu", "alderlake"),
    "Skylake": Cpu("avx512", "x86_64-linux-gnu", "skylake-avx512"),
    "Cascade Lake": Cpu("vnni", "x86_64-linux-gnu", "cascadelake"),
    "Ice Lake": Cpu("vnni", "x86_64-linux-gnu", "icelake-server", ("avx512vbmi",)),
}
KINDS = {types.int64: ir.IntType(64), types.float32: ir.FloatType()}


def tiles(runway: str) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Intrinsics and their literals."""
    from mdtensor.kernels.cpu.dot8 import (
        avx512,
        conv_tile,
        elementwise_chunk,
        matmul,
        reduction,
    )

    width = 1 if matmul.HAS_ONE_SHAPE else 4
    found = {
        "product": (matmul.tiles_u8, (4, width, 0)),
        "excepting_product": (matmul.tiles_u8, (4, width, 1)),
        "certain_product": (matmul.tiles_u8, (4, width, 2)),
        "sums": (matmul.tiles_s32, (4, width)),
        "depthwise": (conv_tile.tiles_u8, (1, 1, 0, 0, 1, 0)),
        "excepting_depthwise": (conv_tile.tiles_u8, (1, 1, 0, 0, 1, 1)),
        "certain_depthwise": (conv_tile.tiles_u8, (1, 1, 0, 0, 1, 2)),
        "filtered": (conv_tile.tile_s32, (1,)),
        "arrange": (conv_tile.arrange, ()),
    }
    if not matmul.HAS_ONE_SHAPE:
        shapes = (24, 1), (12, 2), (9, 3), (8, 3), (6, 4), (5, 5), (4, 6)
        found |= {f"{rows}x{n}": (matmul.tiles_u8, (rows, n, 1)) for rows, n in shapes}
        found["twins"] = conv_tile.tiles_u8, (2, 2, 3, 1, 1, 2)
        found["strided"] = conv_tile.tiles_u8, (2, 2, 3, 2, 1, 2)
        found["halves"] = conv_tile.tiles_u8, (2, 2, 3, 1, 2, 2)
    if runway in ("neon", "avxvnni"):
        return found
    chunks = ["scale_chunk", "product_chunk", "sum_chunk", "quantize_chunk"]
    chunks += ["permute_chunks"] * avx512.HAS_BYTE_PERMUTE
    return found | {
        **{name: (getattr(elementwise_chunk, name), ()) for name in chunks},
        "pixels": (elementwise_chunk.quantize_pixels, (3,)),
        "lines": (reduction.sum_lines, ()),
        "means": (reduction.requantize_chunk, ()),
    }


class _Context:
    """What the intrinsics ask of numba's."""

    def get_dummy_value(self) -> ir.Constant:
        return ir.Constant(KINDS[types.int64], 0)


def define(module: ir.Module, name: str, intrinsic: Any, literals: Any) -> None:
    """A function that reads the job by address and is the intrinsic."""
    given = [types.literal(value) for value in literals]
    count = intrinsic._defn.__code__.co_argcount - 1
    rest = [types.int64] * (count - len(given))
    signature, emit = intrinsic._defn(None, *given, *rest)
    asked = signature.args[len(given) :]
    is_tuple = isinstance(asked[0], types.BaseTuple)
    kinds = [KINDS[kind] for kind in (asked[0] if is_tuple else asked)]
    job = ir.LiteralStructType(kinds)
    kind = ir.FunctionType(KINDS[types.int64], [job.as_pointer()])
    function = ir.Function(module, kind, name)
    b = ir.IRBuilder(function.append_basic_block())
    unused = [ir.Constant(KINDS[types.int64], 0)] * len(given)
    values = b.load(function.args[0])
    parts = [b.extract_value(values, i) for i in range(len(kinds))]
    b.ret(emit(_Context(), b, signature, [*unused, *([values] if is_tuple else parts)]))


def optimized(cpu: Cpu) -> tuple[llvm.TargetMachine, llvm.ModuleRef]:
    """All tiles, as LLVM compiles them for that CPU."""
    module = ir.Module()
    module.triple = cpu.triple
    for name, (intrinsic, literals) in tiles(cpu.runway).items():
        define(module, name, intrinsic, literals)
    parsed = llvm.parse_assembly(str(module))
    target = llvm.Target.from_triple(cpu.triple)
    machine = target.create_target_machine(cpu=cpu.name, opt=3)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return machine, parsed


def write(name: str, folder: Path) -> None:
    """The files of one CPU; changes this process for good."""
    cpu = CPUS[name]
    isa.FEATURES, isa.DOT_ISA = frozenset(cpu.features), cpu.runway
    isa.IS_EMULATED = False
    machine, module = optimized(cpu)
    (folder / f"{name}.s").write_text(machine.emit_assembly(module))
    if cpu.runway == "neon":
        (folder / f"{name}.o").write_bytes(machine.emit_object(module))


if __name__ == "__main__":
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    write(sys.argv[2], Path(sys.argv[1]))
