"""The bytes of a stored plan, and the header that describes them.

    bytes            contents
    0 .. 8           MAGIC
    8 .. 12          FORMAT, uint32; all numbers are little-endian
    12 .. 16         CRC-32 of all bytes from 16 on
    16 .. 24         bytes of the file
    24 .. 32         bytes of the header
    64 ..            the header: JSON in UTF-8
    then             sections, each at a multiple of 64: rows, constants

The header has no addresses: it names the kernels, and says where sections lie.
"""

import json
import mmap
import os
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mdtensor_run.errors import PlanError, damaged

MAGIC, ALIGN = b"mdtplan\n", 64
#: Raised whenever an older reader would take a file for something else: 2 has records
#: of slopes, which a reader of 1 takes for tables; 3 has values of any type.
FORMAT = 3
HEAD = struct.Struct("<8sIIQQ")
#: The checksum covers the bytes from here on.
CHECKED = 16
Bytes = npt.NDArray[np.uint8]
PathLike = str | os.PathLike[str]


class Stored(NamedTuple):
    """A file whose checksum is right; nothing in it is trusted otherwise.

    Args:
        path: of the file, for errors.
        header: the JSON.
        bytes: the mapped file; writes stay in this process.
    """

    path: PathLike
    header: dict[str, Any]
    bytes: Bytes

    def section(self, at: int, size: int) -> Bytes:
        """Return bytes `at` .. `at + size`.

        Raises:
            PlanError: they do not begin at a multiple of 64, or are not in the file.
        """
        if at % ALIGN or not 0 <= at <= at + size <= self.bytes.size:
            raise damaged(self.path, f"a section has the bytes {at} to {at + size}")
        return self.bytes[at : at + size]


def round_up(size: int) -> int:
    """Return `size` rounded up to a multiple of ALIGN."""
    return -(-size // ALIGN) * ALIGN


def pack(describe: Any, sections: list[bytes]) -> bytes:
    """Return the bytes of a file.

    Args:
        describe: returns the header for the places of all sections.
        sections: their contents, in order.

    Example:
        >>> found = pack(lambda places: {"rows_at": places[0]}, [b"1234"])
        >>> len(found), found[:8]
        (192, b'mdtplan\\n')
    """
    sizes = [round_up(len(section)) for section in sections]
    # Places are part of the header, and its length decides them: the largest ones
    # leave room for all.
    room = round_up(len(json.dumps(describe([1 << 60] * len(sizes)))))
    places = [ALIGN + room + sum(sizes[:i]) for i in range(len(sizes))]
    header = json.dumps(describe(places)).encode().ljust(room)
    parts = [
        section.ljust(n, b"\0") for section, n in zip(sections, sizes, strict=True)
    ]
    body = b"".join([bytes(ALIGN - HEAD.size), header, *parts])
    size = HEAD.size + len(body)
    start = HEAD.pack(MAGIC, FORMAT, 0, size, room)
    checksum = zlib.crc32(body, zlib.crc32(start[CHECKED:]))
    return HEAD.pack(MAGIC, FORMAT, checksum, size, room) + body


# Weights are mapped: pages that several processes read take their memory once
# (decision 0064).
def open_plan(path: PathLike) -> Stored:
    """Map a file and read its header.

    Raises:
        PlanError: the file cannot be read, is not a plan, has another format, or was
            truncated or changed.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < ALIGN:
                raise _foreign(path)
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
    except (OSError, TypeError, ValueError) as error:
        if isinstance(error, PlanError):
            raise
        text = getattr(error, "strerror", None) or error
        raise PlanError(f"{path} cannot be read: {text}", "Check the name") from None
    header = _read_header(path, mapped)
    return Stored(path, header, np.frombuffer(mapped, np.uint8))


def _foreign(path: PathLike) -> PlanError:
    return PlanError(
        f"{path} is not a stored plan",
        "Pass a file that Model.compile or mdtensor compile wrote",
    )


def _read_header(path: PathLike, found: mmap.mmap) -> dict[str, Any]:
    magic, version, crc, size, room = HEAD.unpack(found[: HEAD.size])
    if magic != MAGIC:
        raise _foreign(path)
    if version != FORMAT:
        raise PlanError(
            f"{path} has format {version}, and this version reads format {FORMAT}",
            "Compile the model again with this version of mdtensor",
        )
    if size != len(found):
        raise damaged(path, f"it has {len(found)} bytes of {size}")
    if zlib.crc32(memoryview(found)[CHECKED:]) != crc:
        raise damaged(path, "its checksum is wrong")
    if room > len(found) - ALIGN:
        raise damaged(path, f"a header of {room} bytes")
    try:
        header = json.loads(found[ALIGN : ALIGN + room])
    except (ValueError, RecursionError):
        raise damaged(path, "its header is not JSON") from None
    if not isinstance(header, dict):
        raise damaged(path, "its header is not a JSON object")
    return header
