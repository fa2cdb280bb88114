"""An x86-64 CPU in software: it runs functions of this process in this memory.

The CPU is the one of Bochs, as the package bochscpu-python holds it. Its addresses are
those of this process: its page tables give each GB that is used a place in its physical
memory, and each page of that memory is the page of this process. So a function
of a library runs with the arrays, the heap and the thread-local variables that it
would have on a CPU of this machine.

Some functions of the C library run on this machine even so: those of NATIVE. Memory is
one reason, because Python gets memory too whenever the CPU touches a page for the first
time, also in the middle of `malloc`. Time and sleep are the other.
"""

import ctypes
import os
import sys
from pathlib import Path
from threading import Lock, local

from gather import gather_before

HERE = ctypes.CDLL(None)
HERE.mmap.restype = ctypes.c_void_p
HERE.mmap.argtypes = [ctypes.c_void_p, *[ctypes.c_size_t] * 5]
#: Linux on x86-64, `asm/unistd_64.h` and `asm/prctl.h`.
ARCH_PRCTL, ARCH_GET_FS = 158, 0x1003
READ_WRITE, OWN_MEMORY, NO_FILE = 3, 0x22, 2**64 - 1

MAPS = Path("/proc/self/maps")

PAGE, GB = 4096, 30
WORDS = 512
#: Half of all addresses: those of processes.
REGIONS = 256 * WORDS
#: Bochs' physical addresses have 40 bits.
PLACES = 1 << 40 - GB
PRESENT, LARGE = 0b111, 1 << 7
STACK = 1 << 23

# Intel SDM volume 3, 2.5 and 3.4.5: protected mode with paging; 64-bit code and flat
# data of ring 0, since no system is emulated.
CR0 = 0x80050033
CR4 = 1 << 5 | 1 << 9 | 1 << 10 | 1 << 16 | 1 << 18
EFER = 0xD01
CODE, DATA = 0xA09B, 0xC093
ROUND_TO_EVEN = 0x1F80
UNKNOWN, FAULT = 6, 14
NO_INSTRUCTION = "unknown instruction"
#: x87, SSE, AVX, and the three parts of AVX-512.
SAVED = 0b11100111

#: Functions that this machine runs: how many words each takes.
NATIVE = {
    "malloc": 1,
    "free": 1,
    "calloc": 2,
    "realloc": 2,
    "clock_gettime": 2,
    "sched_getcpu": 0,
    "syscall": 7,
}
#: Registers of the first words. Others are on the stack, above the place to return to.
GIVEN = ("rdi", "rsi", "rdx", "rcx", "r8", "r9")
HALT = 0xF4

#: Features as Linux calls them: the leaf of CPUID, its register and its bit.
FEATURES = {
    (1, 0, "rcx"): {
        0: "pni",
        9: "ssse3",
        12: "fma",
        13: "cx16",
        19: "sse4_1",
        20: "sse4_2",
        22: "movbe",
        23: "popcnt",
        28: "avx",
        29: "f16c",
    },
    (7, 0, "rbx"): {
        3: "bmi1",
        5: "avx2",
        8: "bmi2",
        16: "avx512f",
        17: "avx512dq",
        28: "avx512cd",
        30: "avx512bw",
        31: "avx512vl",
    },
    (7, 0, "rcx"): {1: "avx512vbmi", 11: "avx512_vnni"},
    (7, 1, "rax"): {4: "avx_vnni"},
    (0x80000001, 0, "rcx"): {0: "lahf_lm", 5: "abm"},
}


def memory(size):
    """Return the address of new memory, all zeros."""
    return HERE.mmap(None, size, READ_WRITE, OWN_MEMORY, NO_FILE, 0)


def words(address, count):
    """Return memory as words."""
    return (ctypes.c_uint64 * count).from_address(address)


class Tables:
    """Page tables: the GB of an address, and its place in physical memory.

    Attributes:
        root: the physical address of the first table.
        misses: pages that were touched so far.
    """

    def __init__(self):
        self._regions = []
        rows, root = memory(REGIONS * 8), memory(PAGE)
        self._rows = words(rows, REGIONS)
        self.misses = 0
        for i in range(REGIONS // WORDS):
            words(root, WORDS)[i] = self.place(rows + PAGE * i) | PRESENT
        self.root = self.place(root)

    def place_all(self):
        """Give all memory of this process a place."""
        with MAPS.open() as lines:
            for line in lines:
                start, _, end = line.partition(" ")[0].partition("-")
                last = min(int(end, 16) - 1 >> GB, REGIONS - 1)
                for region in range(int(start, 16) >> GB, last + 1):
                    self.place(region << GB)

    def place(self, address):
        """Return the physical address of an address."""
        region, rest = address >> GB, address & (1 << GB) - 1
        if not self._rows[region]:
            if len(self._regions) == PLACES:
                sys.exit("the emulated CPU has no more memory")
            self._rows[region] = len(self._regions) << GB | PRESENT | LARGE
            self._regions.append(region)
        return self._rows[region] >> GB << GB | rest

    def page_of(self, physical):
        """Return the address of a physical page."""
        self.misses += 1
        return self._regions[physical >> GB] << GB | physical & (1 << GB) - PAGE


class Cpu:
    """The CPU.

    Args: bochs: the module of the package.

    Attributes:
        calls: functions that were called so far.
    """

    def __init__(self, bochs):
        self._bochs, self._lock, self._own = bochs, Lock(), local()
        self._tables, self._failure, self.calls = Tables(), "", 0
        # Functions return to a page of halts, and a halt ends a run.
        self._end = memory(PAGE)
        ctypes.memset(self._end, HALT, PAGE)
        self._copies, self._natives, self._gathers = {}, {}, {}
        for name, count in NATIVE.items():
            self._halt_at(name, count)
        self._session, self._hook = bochs.Session(), bochs.Hook()
        self._session.missing_page_handler = self._insert
        self._hook.exception = self._interrupt
        self._hook.hlt = lambda session, _: session.stop()
        self._saved = 0b11
        self._saved = SAVED & self.identify(0xD, 0).rax

    def _halt_at(self, name, count):
        """Let the CPU halt where a function of the C library begins.

        It gets another page there. This machine keeps its own.
        """
        function = HERE[name]
        function.restype, function.argtypes = ctypes.c_uint64, [ctypes.c_uint64] * count
        address = ctypes.cast(function, ctypes.c_void_p).value
        page, place = address // PAGE * PAGE, address % PAGE
        if page not in self._copies:
            self._copies[page] = memory(PAGE)
            ctypes.memmove(self._copies[page], page, PAGE)
        ctypes.memset(self._copies[page] + place, HALT, 1)
        self._natives[address] = function

    def close(self):
        """Give the package's objects back, or it would crash as the process ends."""
        for name in ("exception", "hlt"):
            setattr(self._hook, name, max)
        self._session.missing_page_handler = max
        self._hook = self._session = None

    def features(self):
        """Return the features that this CPU has, by Linux' names."""
        return [
            name
            for (leaf, part, register), names in FEATURES.items()
            for bit, name in names.items()
            if getattr(self.identify(leaf, part), register) >> bit & 1
        ]

    def identify(self, leaf, part):
        """Return the registers after CPUID."""
        code = memory(PAGE)
        ctypes.memmove(code, b"\x0f\xa2\xc3", 3)
        return self._run(code, rax=leaf, rcx=part)

    def call(self, address, *given):
        """Return the 32 bits that a function of words returns."""
        self.calls += 1
        registers = dict(zip(GIVEN, given, strict=False))
        return ctypes.c_int32(self._run(address, **registers).rax & 0xFFFFFFFF).value

    def _run(self, address, **registers):
        """Return the registers after a function."""
        if not hasattr(self._own, "stack"):
            self._own.stack = memory(STACK)
        top = self._own.stack + STACK - PAGE - 8
        words(top, 1)[0] = self._end
        state = self._state(rip=address, rsp=top, **registers)
        while True:
            state = self._run_to_halt(state)
            halted = state.rip - 1
            if halted == self._end:
                return state
            self._call_native(self._natives[halted], state)

    def _run_to_halt(self, state):
        """Return the state after a halt. One thread has the CPU at a time."""
        with self._lock:
            self._tables.place_all()
            state = self._resume(state)
            while self._failure:
                found = gather_before(ctypes.string_at(state.rip - 11, 11))
                if not self._failure.startswith(NO_INSTRUCTION) or not found:
                    self._abort(state)
                self._failure = ""
                state = self._resume(self._gather(found, state))
            return state

    def _resume(self, state):
        self._session.cpu.set_state(state)
        self._session.run([self._hook])
        return self._session.cpu.state

    def _gather(self, found, state):
        """Return the state after a gather that has its index in another register."""
        if found.code not in self._gathers:
            self._gathers[found.code] = memory(PAGE)
            code = found.code + bytes([HALT])
            ctypes.memmove(self._gathers[found.code], code, len(code))
        vectors, after = state.zmm, state.rip
        kept = vectors[found.spare].q
        vectors[found.spare].q = vectors[found.index].q
        state.zmm, state.rip = vectors, self._gathers[found.code]
        state = self._resume(state)
        if self._failure:
            self._abort(state)
        vectors = state.zmm
        vectors[found.spare].q = kept
        state.zmm, state.rip = vectors, after
        return state

    def _call_native(self, function, state):
        """Call a function on this machine, and return from it on the CPU."""
        given = [getattr(state, name) for name in GIVEN]
        given += words(state.rsp + 8, 1)
        found = function(*given[: len(function.argtypes)])
        state.rax = found
        state.rip, state.rsp = words(state.rsp, 1)[0], state.rsp + 8

    def _state(self, **registers):
        """Return the state of a CPU that runs 64-bit code."""
        state = self._bochs.State()
        fixed = {"cr0": CR0, "cr3": self._tables.root, "cr4": CR4, "efer": EFER}
        fixed |= {"xcr0": self._saved, "mxcsr": ROUND_TO_EVEN, "mxcsr_mask": 0xFFFF}
        fixed |= {"fpcw": 0x37F, "fptw": 0xFFFF, "rflags": 2}
        for name, value in (fixed | registers).items():
            setattr(state, name, value)
        place = ctypes.c_uint64()
        HERE.syscall(ARCH_PRCTL, ARCH_GET_FS, ctypes.addressof(place), 0, 0, 0, 0)
        state.cs = self._segment(0x10, CODE)
        for name in ("ss", "ds", "es", "gs"):
            setattr(state, name, self._segment(0x18, DATA))
        # Here are the variables of the thread.
        state.fs = self._segment(0x18, DATA, place.value)
        return state

    def _segment(self, selector, kind, base=0):
        made = self._bochs.Segment()
        made.present, made.limit, made.base = True, 0xFFFFFFFF, base
        made.selector, made.attr = selector, kind
        return made

    def _insert(self, physical):
        page = physical // PAGE * PAGE
        own = self._tables.page_of(page)
        self._bochs.memory.page_insert(page, self._copies.get(own, own))

    def _interrupt(self, session, _, vector, code):
        """Note what the function did wrong, and end the run."""
        names = {UNKNOWN: NO_INSTRUCTION}
        names[FAULT] = f"no memory at {session.cpu.cr2:#x}"
        self._failure = names.get(vector, f"exception {vector}, {code}")
        session.stop()

    # As a CPU would: what is left of the process could not be trusted.
    def _abort(self, state):
        """End the process with what the function did wrong."""
        try:
            code = ctypes.string_at(state.rip - 11, 11).hex()
        except OSError:
            code = "?"
        names = (*GIVEN, "rax", "rbx", "rbp", "rsp", *(f"r{i}" for i in range(10, 16)))
        held = " ".join(f"{name}={getattr(state, name):#x}" for name in names)
        print(f"x86: {held}", file=sys.stderr)
        print(f"x86: {self._failure} before {state.rip:#x}: {code}", file=sys.stderr)
        sys.stderr.flush()
        os.abort()
