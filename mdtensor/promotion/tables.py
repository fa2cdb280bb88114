"""Rule sets of others, as tables: what each owner does, cell by cell.

Rows and columns are element types; the last rows are Python scalars. A dot is undefined
for the owner, and an error here. Where cells come from stands above each table, and
tests compare them all.
"""

from __future__ import annotations

from mdtensor.promotion.table import Table

#: NumPy 2.4.6 with ml_dtypes 0.6.0: `np.promote_types`, and `np.result_type` with a
#: scalar. ml_dtypes defines bfloat16 with the smallest types only.
NUMPY = Table(
    "numpy",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  i32  i64  f64  f32  .    f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  i32  i64  f64  f64  .    f64  f64  c128 c128
i64     i64  i64  i64  i64  i64  i64  i64  i64  f64  f64  .    f64  f64  c128 c128
u8      u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
u16     u16  i32  i32  i32  i64  u16  u16  u32  u64  f32  .    f32  f64  c64  c128
u32     u32  i64  i64  i64  i64  u32  u32  u32  u64  f64  .    f64  f64  c128 c128
u64     u64  f64  f64  f64  f64  u64  u64  u64  u64  f64  .    f64  f64  c128 c128
f16     f16  f16  f32  f64  f64  f16  f32  f64  f64  f16  .    f32  f64  c64  c128
bf16    bf16 bf16 .    .    .    bf16 .    .    .    .    bf16 f32  f64  c64  c128
f32     f32  f32  f32  f64  f64  f32  f32  f64  f64  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c128 c128 c64  c64  c128 c128 c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f64  f64  f64  f64  f64  f64  f64  f64  f64  f16  f64  f32  f64  c64  c128
complex c128 c128 c128 c128 c128 c128 c128 c128 c128 c64  c64  c64  c128 c64  c128
    """,
)

#: jax 0.10.2 with 64 bits enabled: `jnp.promote_types`, and `jnp.result_type` with a
#: scalar (`python tests/core/promotion/generate.py jax`).
JAX = Table(
    "jax",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  i32  i64  f64  f16  bf16 f32  f64  c64  c128
i64     i64  i64  i64  i64  i64  i64  i64  i64  f64  f16  bf16 f32  f64  c64  c128
u8      u8   i16  i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
u16     u16  i32  i32  i32  i64  u16  u16  u32  u64  f16  bf16 f32  f64  c64  c128
u32     u32  i64  i64  i64  i64  u32  u32  u32  u64  f16  bf16 f32  f64  c64  c128
u64     u64  f64  f64  f64  f64  u64  u64  u64  u64  f16  bf16 f32  f64  c64  c128
f16     f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32     f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f64  f64  f64  f64  f64  f64  f64  f64  f64  f16  bf16 f32  f64  c64  c128
complex c128 c128 c128 c128 c128 c128 c128 c128 c128 c64  c64  c64  c128 c64  c128
    """,
)

#: torch 2.13.0: `torch.promote_types`, and `torch.result_type` with a scalar
#: (`python tests/core/promotion/generate.py torch`). It would make a complex32 of
#: float16 and a complex number, a type that is not here.
TORCH = Table(
    "torch",
    """
        b    i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
b       b    i8   i16  i32  i64  u8   .    .    .    f16  bf16 f32  f64  c64  c128
i8      i8   i8   i16  i32  i64  i16  .    .    .    f16  bf16 f32  f64  c64  c128
i16     i16  i16  i16  i32  i64  i16  .    .    .    f16  bf16 f32  f64  c64  c128
i32     i32  i32  i32  i32  i64  i32  .    .    .    f16  bf16 f32  f64  c64  c128
i64     i64  i64  i64  i64  i64  i64  .    .    .    f16  bf16 f32  f64  c64  c128
u8      u8   i16  i16  i32  i64  u8   .    .    .    f16  bf16 f32  f64  c64  c128
u16     .    .    .    .    .    .    u16  .    .    f16  bf16 f32  f64  .    .
u32     .    .    .    .    .    .    .    u32  .    f16  bf16 f32  f64  .    .
u64     .    .    .    .    .    .    .    .    u64  f16  bf16 f32  f64  .    .
f16     f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128
bf16    bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128
f32     f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128
f64     f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
c64     c64  c64  c64  c64  c64  c64  .    .    .    c64  c64  c64  c128 c64  c128
c128    c128 c128 c128 c128 c128 c128 .    .    .    c128 c128 c128 c128 c128 c128
int     i64  i8   i16  i32  i64  u8   u16  u32  u64  f16  bf16 f32  f64  c64  c128
float   f32  f32  f32  f32  f32  f32  f32  f32  f32  f16  bf16 f32  f64  c64  c128
complex c64  c64  c64  c64  c64  c64  c64  c64  c64  .    c64  c64  c128 c64  c128
    """,
)
