"""Launches: pipelines of kernels, and the arguments of a launch in one binding."""

from typing import Any

import numpy as np
import numpy.typing as npt

from mdtensor_webgpu.buffers import Buffer


class Pipelines:
    """Compiled kernels by name; their names end with a hash of their text."""

    def __init__(self, gpu: Any) -> None:
        self._gpu = gpu
        self._known: dict[str, Any] = {}
        self._layouts: dict[int, Any] = {}

    def pipeline(self, kernel: Any, buffers: int) -> Any:
        """Return the pipeline of a kernel that reads so many buffers.

        Raises:
            wgpu.GPUError: the text does not compile.
        """
        found = self._known.get(kernel.name)
        if found is None:
            module = self._gpu.create_shader_module(label=kernel.name, code=kernel.text)
            layout = self._gpu.create_pipeline_layout(
                bind_group_layouts=[self.layout(buffers)]
            )
            found = self._gpu.create_compute_pipeline(
                layout=layout, compute={"module": module, "entry_point": "main"}
            )
            self._known[kernel.name] = found
        return found

    # Of its own: the automatic layout leaves out buffers that a text does not read.
    def layout(self, buffers: int) -> Any:
        """Return the layout of operands, the result and the arguments."""
        if buffers not in self._layouts:
            kinds = ["read-only-storage"] * buffers + ["storage", "read-only-storage"]
            self._layouts[buffers] = self._gpu.create_bind_group_layout(
                entries=[
                    {"binding": at, "visibility": 4, "buffer": {"type": kind}}
                    for at, kind in enumerate(kinds)
                ]
            )
        return self._layouts[buffers]


def arguments(launch: Any) -> npt.NDArray[np.int32]:
    """Return two zeros, two words for each operand, and the walks behind them.

    Raises:
        ValueError: a place does not fit 32 bits.
    """
    words = [0, 0, *(word for x in launch.operands for word in _words(x))]
    walks = np.concatenate([np.ravel(walk) for walk in launch.walks])
    if walks.size and np.abs(walks).max() >= 2**31:
        raise ValueError(f"an operand has {np.abs(walks).max()} elements, above 2^31")
    return np.concatenate([np.array(words, np.int32), walks.astype(np.int32)])


def _words(operand: Any) -> tuple[int, int]:
    if isinstance(operand, Buffer):
        return operand.first, 0
    if operand.dtype.itemsize == 8:
        low, high = operand.reshape(1).view(np.int32)
        return int(low), int(high)
    if operand.dtype.kind == "f":
        # A kernel computes float16 as float32, which has its value.
        return int(operand.astype(np.float32).view(np.int32)), 0
    return int(np.array(int(operand), np.int64).astype(np.int32)), 0
