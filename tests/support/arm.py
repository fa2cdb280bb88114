"""Runs functions of an object file for 64-bit Arm on Unicorn, an emulator of CPUs."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import unicorn
from unicorn import arm64_const as names

CODE, DATA, STACK, END = 0x10_0000, 0x1000_0000, 0x2000_0000, 0x3000_0000
ROOM = 1 << 22
MAY_USE_VECTORS = 3 << 20  # CPACR_EL1.FPEN
ALLOCATED, RELOCATIONS, SYMBOLS = 2, 4, 2
#: R_AARCH64_MOVW_UABS_G0_NC, G1_NC, G2_NC, G3: which 16 bits of an address.
QUARTERS = {264: 0, 266: 1, 268: 2, 269: 3}


class Program:
    """A relocatable ELF file, loaded at CODE. Source: System V ABI, AAELF64."""

    def __init__(self, file: Path) -> None:
        self._file = file.read_bytes()
        at, size, count = *struct.unpack_from("<Q", self._file, 40), 64, self._count()
        self._sections = [
            struct.unpack_from("<IIQQQQIIQQ", self._file, at + size * i)
            for i in range(count)
        ]
        self._places: dict[int, int] = {}
        self.memory = bytearray()
        for i, section in enumerate(self._sections):
            if section[2] & ALLOCATED:
                self.memory += bytes(-len(self.memory) % 64)
                self._places[i] = CODE + len(self.memory)
                self.memory += self._body(section)
        self.symbols = self._symbols()
        for section in self._sections:
            if section[1] == RELOCATIONS:
                self._relocate(section)

    def _count(self) -> int:
        return int(struct.unpack_from("<H", self._file, 60)[0])

    def _body(self, section: Any) -> bytes:
        return self._file[section[4] : section[4] + section[5]]

    def _symbols(self) -> list[tuple[str, int]]:
        """(name, address) by number."""
        table = next(s for s in self._sections if s[1] == SYMBOLS)
        text = self._body(self._sections[table[6]])
        found = []
        entries = struct.iter_unpack("<IBBHQQ", self._body(table))
        for name, _, _, home, value, _ in entries:
            label = text[name : text.index(b"\0", name)].decode()
            found.append((label, self._places.get(home, 0) + value))
        return found

    def _relocate(self, section: Any) -> None:
        base = self._places.get(section[7])
        if base is None:
            return
        for offset, info, addend in struct.iter_unpack("<QQq", self._body(section)):
            value = self.symbols[info >> 32][1] + addend
            at = base - CODE + offset
            word = struct.unpack_from("<I", self.memory, at)[0]
            part = value >> 16 * QUARTERS[info & 0xFFFFFFFF] & 0xFFFF
            struct.pack_into("<I", self.memory, at, word | part << 5)


class Arm:
    """A CPU with the program of a file, and memory for arrays."""

    def __init__(self, file: Path) -> None:
        program = Program(file)
        self._addresses = dict(program.symbols)
        self._cpu = unicorn.Uc(unicorn.UC_ARCH_ARM64, unicorn.UC_MODE_ARM)
        self._cpu.ctl_set_cpu_model(names.UC_CPU_ARM64_MAX)
        for start in (CODE, DATA, STACK, END):
            self._cpu.mem_map(start, ROOM)
        self._cpu.mem_write(CODE, bytes(program.memory))
        self._cpu.reg_write(names.UC_ARM64_REG_CPACR_EL1, MAY_USE_VECTORS)
        self._free = DATA

    def place(self, array: np.ndarray) -> int:
        """The address of a copy of an array."""
        address, self._free = self._free, self._free + array.nbytes + -array.nbytes % 16
        self._cpu.mem_write(address, array.tobytes())
        return address

    def read(self, address: int, like: np.ndarray) -> np.ndarray:
        """The array at an address."""
        found = self._cpu.mem_read(address, like.nbytes)
        return np.frombuffer(bytes(found), like.dtype).reshape(like.shape)

    def call(self, name: str, *job: int | float) -> int:
        """What the function returns for a job of int64, and of float32 for floats."""
        kinds = "".join("f" if isinstance(value, float) else "q" for value in job)
        address = self.place(np.frombuffer(struct.pack(f"<{kinds}", *job), np.uint8))
        write = self._cpu.reg_write
        write(names.UC_ARM64_REG_X0, address)
        write(names.UC_ARM64_REG_SP, STACK + ROOM - 4096)
        write(names.UC_ARM64_REG_LR, END)
        self._cpu.emu_start(self._addresses[name], END)
        return int(self._cpu.reg_read(names.UC_ARM64_REG_X0))
