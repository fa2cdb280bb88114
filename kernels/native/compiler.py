"""Compilation of one ISA's library by numba, in a process of its own.

    python -m mdtensor.kernels.native.compiler FOLDER

`targets.environment` sets the CPU. numba compiles each entry, and the code of all of
them is merged into one module. Only entries are exported: each once for Python, which
takes its arguments as an array of 64-bit words, and once for compiled code. FOLDER gets
the object file and a description of the functions.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from mdtensor.kernels.cpu import isa, jit
from mdtensor.kernels.cpu.entry import PACKAGE
from mdtensor.kernels.cpu.program import STEP, Window
from mdtensor.kernels.native import foreign
from mdtensor.kernels.native.entries import signatures
from mdtensor.kernels.native.library import symbol
from mdtensor.kernels.native.targets import MACHINES

#: Files of a compiled ISA in the folder.
OBJECT, DESCRIPTION = "kernels.o", "kernels.json"
I32, I64 = ir.IntType(32), ir.IntType(64)
BYTES = ir.IntType(8).as_pointer()
WORDS = I64.as_pointer()
WRAPPER = ir.FunctionType(I32, [WORDS, WORDS, BYTES.as_pointer()])
RECORD = numba.typeof(np.zeros(0, STEP)).dtype
WINDOW = types.NamedUniTuple(types.int64, len(Window._fields), Window)
#: Letters of the glue for numbers, and for integers that NumPy names otherwise.
NUMBERS = {types.int64: "i", types.int32: "i", types.float64: "d", types.float32: "f"}
LETTERS = {"l": "q", "L": "Q"}
RESULTS = {types.none: "n", types.boolean: "b"}


def type_of(text):
    """Return numba's type for a type in `entries`."""
    name, bracket, axes = text.partition("[")
    if name == "window":
        return WINDOW
    element = RECORD if name == "step" else getattr(types, name)
    return types.Array(element, 1 + axes.count(","), "C") if bracket else element


def letters_of(kind):
    """Return the letters of the glue for the type of an argument."""
    if isinstance(kind, types.Array):
        letter = memoryview(np.zeros(0, as_dtype(kind.dtype))).format
        return f"{kind.ndim}{LETTERS.get(letter, letter if len(letter) == 1 else 'V')}"
    return "w" if kind == WINDOW else NUMBERS[kind]


def compile_entry(key, text):
    """Return what numba compiles for a function and the types of its arguments."""
    module, _, name = key.partition(":")[0].rpartition(".")
    function = getattr(import_module(f"{PACKAGE}.{module}"), name)
    arguments = tuple(map(type_of, text.split()))
    function.compile(arguments)
    return function.overloads[arguments]


class Merged:
    """One module of the code of many compiled functions.

    A function that other functions call by its symbol keeps that name; every other name
    is internal to the module that numba made.
    """

    def __init__(self, context):
        self.context = context
        self.module = llvm.parse_assembly("")
        self.module.triple = llvm.get_process_triple()
        self.module.data_layout = context.codegen()._data_layout
        self._names = {}

    def add(self, compiled, name):
        """Add the code of a function under a name; return its name in the module."""
        own = compiled.fndesc.llvm_func_name
        if own in self._names:
            return self._names[own]
        self._names[own] = name
        part = llvm.parse_assembly(str(compiled.library._final_module))
        for value in (*part.functions, *part.global_variables):
            if not value.is_declaration:
                value.linkage = "internal"
        function = part.get_function(own)
        function.name, function.linkage = name, "external"
        self.module.link_in(part)
        return name

    def finish(self, exported):
        """Make all other functions internal and drop what nothing calls."""
        for function in self.module.functions:
            if not function.is_declaration and function.name not in exported:
                function.linkage = "internal"
        self.module.verify()


class Wrappers:
    """Functions that read arguments from words and call compiled functions."""

    def __init__(self, context):
        self._context = context
        self.module = (
            context.codegen().create_library("words").create_ir_module("words")
        )

    def add(self, name, compiled, callee):
        """Add a wrapper: int32 name(int64 words[], int64 *result, void **raised)."""
        convention, descriptor = self._context.call_conv, compiled.fndesc
        kind = convention.get_function_type(descriptor.restype, descriptor.argtypes)
        target = ir.Function(self.module, kind, callee)
        own = ir.FunctionType(
            I32, [I64.as_pointer(), I64.as_pointer(), BYTES.as_pointer()]
        )
        function = ir.Function(self.module, own, name)
        b = ir.IRBuilder(function.append_basic_block())
        words, result, raised = function.args
        places = (b.gep(words, [I64(i)]) for i in range(1 << 16))
        values = [self._read(b, kind, places) for kind in compiled.signature.args]
        status, found = convention.call_function(
            b, target, descriptor.restype, compiled.signature.args, values
        )
        b.store(b.bitcast(status.excinfoptr, BYTES), raised)
        if compiled.signature.return_type != types.none:
            b.store(_as_word(b, found, compiled.signature.return_type), result)
        b.ret(status.code)

    def _read(self, b, kind, places):
        """Return the next argument from the words."""
        if isinstance(kind, types.Array):
            return self._read_array(b, kind, places)
        if kind == WINDOW:
            return cgutils.pack_array(
                b, [b.load(next(places)) for _ in range(kind.count)]
            )
        place = next(places)
        return b.load(b.bitcast(place, self._context.get_value_type(kind).as_pointer()))

    def _read_array(self, b, kind, places):
        """Return the C-contiguous array of an address and its sizes."""
        array = self._context.make_array(kind)(self._context, b)
        data = b.inttoptr(b.load(next(places)), array.data.type)
        sizes = [b.load(next(places)) for _ in range(kind.ndim)]
        item = I64(
            self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype))
        )
        strides = [item]
        for size in reversed(sizes[1:]):
            strides.insert(0, b.mul(strides[0], size))
        populate_array(
            array, data=data, shape=sizes, strides=strides, itemsize=item, meminfo=None
        )
        return array._getvalue()


def _as_word(b, value, kind):
    """Return a number as 64 bits."""
    if value.type.width == 64:
        return value
    is_signed = isinstance(kind, types.Integer) and kind.signed
    return (b.sext if is_signed else b.zext)(value, I64)


def compile_library(isa_name):
    """Compile all entries; return (module, {key: (letters of the glue, symbol)}).

    The symbol is the one by which compiled code calls the function.
    """
    compiled = {
        key: compile_entry(key, text) for key, text in signatures(isa_name).items()
    }
    context = next(iter(compiled.values())).target_context
    merged, wrappers = Merged(context), Wrappers(context)
    # Large kernels call each other by these symbols (decision 0030).
    for name, (module, function, arguments) in jit._published.items():
        merged.add(getattr(import_module(module), function).overloads[arguments], name)
    exported, described = set(), {}
    for key, found in compiled.items():
        callee = merged.add(found, f"raw_{symbol(key)}")
        wrappers.add(symbol(key), found, callee)
        exported |= {symbol(key), callee}
        letters = "".join(map(letters_of, found.signature.args))
        letters += RESULTS.get(found.signature.return_type, "i")
        described[key] = letters, callee
    merged.module.link_in(llvm.parse_assembly(str(wrappers.module)))
    merged.finish(exported)
    return merged.module, described


# Constants near the code are broadcast again in each turn of a loop. In the large code
# model they stay vectors, as in numba's code (decision 0105).
def write_object(module, path):
    """Drop unused code and write position-independent machine code."""
    cpu, features = os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"]
    model = MACHINES[isa.MACHINE].code_model
    machine = llvm.Target.from_triple(module.triple).create_target_machine(
        cpu=cpu, features=features, opt=3, reloc="pic", codemodel=model
    )
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=0)
    passes.run(module, llvm.create_pass_builder(machine, tuning))
    path.write_bytes(machine.emit_object(module))


def main(folder):
    """Compile the library of this process's ISA into a folder."""
    foreign.compile_for(isa.MACHINE, MACHINES[isa.MACHINE].triple)
    # Code from the disk cache has no text that could be merged.
    jit.read_folders = jit.cache_folder = lambda: None
    jit.KernelCache.load_overload = lambda *_: None
    module, described = compile_library(isa.ISA)
    write_object(module, folder / OBJECT)
    (folder / DESCRIPTION).write_text(json.dumps(described))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
