"""Calls that type checkers must refuse, as the library does: one a line."""

import mdtensor as md

f32 = md.asarray([[1.0, 2.0]])
i8 = md.asarray([[1, 2]], dtype=md.int8)
truths = md.asarray([[True, False]])

md.matmul(f32, "a")
md.sin(i8)
md.bitwise_and(f32, f32)
md.div(truths, "a")
md.floor(md.full(2, 1j))
md.logical_and(i8, i8)
md.linalg.inv(i8)
md.add(f32)
md.astype(f32, 3)
md.quant.quantize(i8, md.quant.QParams(0.5))
f32 + "a"
f32 & 1
-truths
