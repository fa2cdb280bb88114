"""Memory beside a page that nobody may touch: a stray access ends the process."""

import ctypes
import mmap

import numpy as np


def room(size, at_end):
    """uint8 [size] right before such a page, or else right behind one."""
    page = mmap.PAGESIZE
    whole = max(page, -(-size // page) * page)
    mapped = mmap.mmap(-1, whole + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    libc = ctypes.CDLL(None, use_errno=True)
    for edge in (start, start + page + whole):
        assert libc.mprotect(ctypes.c_void_p(edge), page, 0) == 0
    offset = page + whole - size if at_end else page
    return np.frombuffer(mapped, np.uint8, size, offset)
