"""Calls with somebody else's types and operations, in the light of stubs for them."""

from typing import reveal_type

import tiny

import mdtensor as md

t = tiny.TinyTensor([1, 2])
i8 = md.asarray([1, 2], dtype=md.int8)
f16 = md.zeros(2, dtype=md.float16)

reveal_type(t + t)  # TinyTensor
reveal_type(i8 * t)  # TinyTensor
reveal_type(t + f16)  # Float16Tensor
reveal_type(2.5 * t)  # TinyTensor
reveal_type(t < f16)  # BoolTensor
reveal_type(md.sin(t))  # TinyTensor
reveal_type(md.maximum(f16, t))  # Float16Tensor
reveal_type(md.astype(i8, tiny.tiny))  # TinyTensor
reveal_type(md.zeros(2, dtype=tiny.tiny))  # TinyTensor
reveal_type(tiny.twice(i8))  # Int8Tensor
