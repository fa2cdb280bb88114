"""Small networks as stored plans, and files that were changed on purpose."""

import json
import zlib

import numpy as np
from support import tiny_network

from bench import mobilenet
from mdtensor_run import layout

FLIPS = 5


def changed_bytes(content, rng):
    """A copy with some other bytes, mostly in the header and the rows."""
    found = bytearray(content)
    room = int.from_bytes(content[24:32], "little")
    ends = (layout.ALIGN, layout.ALIGN + room, len(content))
    for _ in range(rng.integers(1, FLIPS)):
        place = int(rng.integers(0, ends[rng.integers(3)]))
        found[place] ^= 1 << int(rng.integers(8))
    return bytes(found)


def sealed(content):
    """The same bytes with the checksum, size and magic that they should have."""
    if len(content) < layout.ALIGN:
        return content
    _, _, _, _, room = layout.HEAD.unpack(content[: layout.HEAD.size])
    start = layout.HEAD.pack(layout.MAGIC, layout.FORMAT, 0, len(content), room)
    whole = start + content[layout.HEAD.size :]
    crc = zlib.crc32(whole[layout.CHECKED :])
    start = layout.HEAD.pack(layout.MAGIC, layout.FORMAT, crc, len(content), room)
    return start + content[layout.HEAD.size :]


def header_of(content):
    """(header, its bytes in the file)."""
    room = int.from_bytes(content[24:32], "little")
    return json.loads(content[layout.ALIGN : layout.ALIGN + room]), room


def with_header(content, header):
    """A file with another header of at most as many bytes."""
    _, room = header_of(content)
    text = json.dumps(header).encode().ljust(room)[:room]
    return sealed(content[: layout.ALIGN] + text + content[layout.ALIGN + room :])


#: What a number, a text or a list in a header may become.
OTHERS = (0, 1, -1, 63, 64, 65, 1 << 40, 1 << 63, 1.5, True, None, "", "x", [], {}, [1])


def changed_header(header, rng):
    """A copy of a header with another value somewhere."""
    found = json.loads(json.dumps(header))
    at = found
    while True:
        key = list(at)[rng.integers(len(at))] if isinstance(at, dict) else None
        key = int(rng.integers(len(at))) if key is None else key
        below = at[key]
        if not isinstance(below, (dict, list)) or not below or rng.random() < 0.1:
            break
        at = below
    if type(below) is int and rng.random() < 0.7:
        at[key] = below + int(rng.choice([-64, -1, 1, 64, below]))
    else:
        at[key] = OTHERS[rng.integers(len(OTHERS))]
    return found


def changed_row(content, rng):
    """A file with another number in a row of a plan."""
    header, _ = header_of(content)
    plan = header["plans"][0]["parts"]
    part = plan[rng.integers(len(plan))]
    # Half of the changed rows are those for several threads.
    part = part["job"] if part["job"] and rng.random() < 0.5 else part
    words = np.frombuffer(content, np.uint8).copy()
    size = part["rows"] * 720
    rows = words[part["rows_at"] : part["rows_at"] + size].view(np.int64)
    place = int(rng.integers(rows.size))
    near = rows[place] + int(rng.choice([-64, -1, 1, 64, rows[place]]))
    rows[place] = near if rng.random() < 0.7 else int(rng.choice([0, -1, 1 << 40]))
    return sealed(words.tobytes())


def small_network(folder):
    """A quantized network of several kinds of layers, and an input."""
    net = mobilenet.Network()
    x = net.block(net.conv("x", (3, 8), 3, stride=2), 8, 8, 2, 1)
    gate = net.append("GlobalAveragePool", [x])
    gate = net.append("HardSigmoid", [net.conv(gate, (8, 8), is_clipped=False)])
    x = net.append("MaxPool", [net.append("Mul", (x, gate))], kernel_shape=[2, 2])
    x = net.append("Flatten", [net.append("GlobalAveragePool", [x])])
    model = tiny_network.network(net, x, folder)
    return tiny_network.quantized(model), tiny_network.images(1, 3)
