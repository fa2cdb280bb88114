"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from mdtensor import _calls

from mdtensor.errors import LinAlgError as LinAlgError
cholesky: _calls.Cholesky
"""The triangle L with x = L · Lᴴ."""
eig: _calls.Eig
"""x · V = V · diag(eigenvalues) for any square matrices."""
eigh: _calls.Eigh
"""x = Q · diag(eigenvalues) · Qᴴ for symmetric or Hermitian matrices."""
eigvals: _calls.Eigvals
"""The eigenvalues of any square matrices, in no order."""
eigvalsh: _calls.LikeEigvalsh
"""The eigenvalues of symmetric or Hermitian matrices, from the smallest up."""
qr: _calls.Qr
"""x = Q · R with orthonormal columns in Q and an upper triangle R."""
svd: _calls.Svd
"""x = U · diag(S) · Vh with orthonormal U and Vhᴴ."""
svdvals: _calls.LikeEigvalsh
"""The singular values of each matrix, from the largest down."""
det: _calls.LikeDet
"""The determinant of each matrix, from its LU factors."""
diagonal: _calls.Diagonal
"""x[..., i, i + offset], a diagonal of each matrix; a view."""
inv: _calls.LikeDet
"""x⁻¹, the matrix whose product with `x` is the identity."""
matrix_norm: _calls.MatrixNorm
"""The norm of each matrix, by default √(Σ |x|²)."""
matrix_rank: _calls.MatrixRank
"""How many singular values of each matrix are above `rtol` times the largest."""
matrix_transpose: _calls.MatrixTranspose
"""The transpose of each matrix, nothing conjugated; a view."""
pinv: _calls.Pinv
"""V · S⁺ · Uᴴ, the pseudo-inverse: pinv(x) · y solves x · z = y in least squares."""
slogdet: _calls.Slogdet
"""The determinant of each matrix as sign · exp(logabsdet); never overflows."""
solve: _calls.Solve
"""The y with x1 · y = x2."""
trace: _calls.Trace
"""Σ x[..., i, i + offset], the sum of a diagonal of each matrix."""
vector_norm: _calls.VectorNorm
"""(Σ |x|ᵒʳᵈ)^(1/ord) over `axis`."""
cross: _calls.LikeCross
"""(a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀), the vector orthogonal to both."""
matmul: _calls.Matmul
"""The matrix product over the last axis of `x1` and the second-last of `x2`."""
matrix_power: _calls.MatrixPower
"""x · x · ... · x with n factors, by repeated squaring."""
outer: _calls.Outer
"""x1[i] · x2[j], each number of a vector times each of another."""
tensordot: _calls.Tensordot
"""Σ x1 · x2 over pairs of axes, one of each operand; nothing is conjugated."""
vecdot: _calls.LikeCross
"""Σ conj(x1) · x2 over `axis`; the other axes broadcast."""
from mdtensor._calls import (
    EighResult as EighResult,
    EigResult as EigResult,
    QRResult as QRResult,
    SVDResult as SVDResult,
)
from mdtensor._calls import SlogdetResult as SlogdetResult
