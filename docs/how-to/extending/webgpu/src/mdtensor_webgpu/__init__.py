"""WebGPU, a device for mdtensor: `md.asarray([1.0]).to("webgpu")`.

    adapter     the GPU, real or in software, that `wgpu` finds
    buffers     memory, and views of it
    launches    pipelines and the arguments of a launch
    device      the device

mdtensor renders loops to WGSL; this package compiles and launches them. It has types
for bool, integers of up to 32 bits, float16 and float32: WebGPU does not have others.
"""

import mdtensor as md
from mdtensor import extend
from mdtensor_webgpu.device import TYPES, WebGpu

__all__ = ["webgpu"]

webgpu = WebGpu()
md.register_device(webgpu)
globals().update(
    extend.siblings(webgpu, "WebGpu", [md.leaf(name) for name in TYPES], __name__)
)
extend.register_rendered(webgpu)
