"""Linear algebra, under the names of the array API's extension `linalg`.

    import mdtensor as md

    Q, R = md.linalg.qr(x)
    y = md.linalg.solve(x, b)

The last two axes are the matrix; the axes before them are a stack of matrices. Inverses
and factorizations take float32, float64 and complex types; products, norms and
diagonals take more types.
"""

from mdtensor.dispatch.suggestions import hint_in as _hint_in
from mdtensor.errors import LinAlgError as LinAlgError
from mdtensor.generics.decomposition import (
    EighResult as EighResult,
    EigResult as EigResult,
    QRResult as QRResult,
    SVDResult as SVDResult,
    cholesky as cholesky,
    eig as eig,
    eigh as eigh,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    qr as qr,
    svd as svd,
    svdvals as svdvals,
)
from mdtensor.generics.linalg import (
    SlogdetResult as SlogdetResult,
    det as det,
    diagonal as diagonal,
    inv as inv,
    matrix_norm as matrix_norm,
    matrix_rank as matrix_rank,
    matrix_transpose as matrix_transpose,
    pinv as pinv,
    slogdet as slogdet,
    solve as solve,
    trace as trace,
    vector_norm as vector_norm,
)
from mdtensor.generics.matmul import (
    cross as cross,
    matmul as matmul,
    matrix_power as matrix_power,
    outer as outer,
    tensordot as tensordot,
    vecdot as vecdot,
)

#: What is imported when it is used, from `least_squares`.
_LATER = ("LstsqResult", "lstsq")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


def __getattr__(name: str) -> object:
    if name in _LATER:
        from mdtensor import least_squares

        return globals().setdefault(name, getattr(least_squares, name))
    fix = _hint_in("linalg", name, globals())
    raise AttributeError(f"module 'mdtensor.linalg' has no attribute {name!r}.{fix}")
