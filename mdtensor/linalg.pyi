"""Types for type checkers, written by `mdtensor stubs`: do not edit.

They come from the operations and methods that are registered, under the default
promotion rules. `mdtensor stubs --check` tells what has changed since.
"""

# mypy: disable-error-code="assignment, misc, overload-cannot-match, overload-overlap"
# mypy: disable-error-code="override"


from mdtensor import _calls

from mdtensor.dispatch.suggestions import hint_in as _hint_in
from mdtensor.errors import LinAlgError as LinAlgError
cholesky: _calls.Cholesky
"""Return the lower triangular L with x = L · Lᴴ."""
eig: _calls.Eig
"""Return the eigenvalues and V with x · V = V · diag(eigenvalues)."""
eigh: _calls.Eigh
"""Return the eigenvalues and Q of symmetric or Hermitian x = Q · diag · Qᴴ."""
eigvals: _calls.Eigvals
"""Return the eigenvalues of square matrices, in no particular order."""
eigvalsh: _calls.LikeEigvalsh
"""Return the eigenvalues of symmetric or Hermitian matrices, ascending."""
qr: _calls.Qr
"""Return Q with orthonormal columns and upper triangular R with x = Q · R."""
svd: _calls.Svd
"""Return U, S and Vh with x = U · diag(S) · Vh and orthonormal U and Vhᴴ."""
svdvals: _calls.LikeEigvalsh
"""Return the singular values of each matrix in descending order."""
from mdtensor._calls import (
    EighResult as EighResult,
    EigResult as EigResult,
    QRResult as QRResult,
    SVDResult as SVDResult,
)
det: _calls.LikeDet
"""Return the determinant of each matrix, from its LU factors."""
diagonal: _calls.Diagonal
"""Return x[..., i, i + offset], one diagonal of each matrix; a view."""
inv: _calls.LikeDet
"""Return x⁻¹, the matrix whose product with `x` is the identity."""
matrix_norm: _calls.MatrixNorm
"""Return the norm of each matrix, by default √(Σ |x|²)."""
matrix_rank: _calls.MatrixRank
"""Count the singular values of each matrix above `rtol` times the largest."""
matrix_transpose: _calls.MatrixTranspose
"""Return the transpose of each matrix, not conjugated; a view."""
pinv: _calls.Pinv
"""Return the pseudo-inverse V · S⁺ · Uᴴ, for least-squares solutions."""
slogdet: _calls.Slogdet
"""Return each determinant as sign · exp(logabsdet), which cannot overflow."""
solve: _calls.Solve
"""Return the y with x1 · y = x2."""
trace: _calls.Trace
"""Return Σ x[..., i, i + offset], the sum of one diagonal of each matrix."""
vector_norm: _calls.VectorNorm
"""Return (Σ |x|ᵒʳᵈ)^(1/ord) over `axis`."""
from mdtensor._calls import SlogdetResult as SlogdetResult
cross: _calls.LikeCross
"""Return the cross product (a₁b₂ - a₂b₁, a₂b₀ - a₀b₂, a₀b₁ - a₁b₀)."""
matmul: _calls.Matmul
"""Return the matrix product over the last axis of `x1` and second-last of `x2`."""
matrix_power: _calls.MatrixPower
"""Return the product of n factors x, by repeated squaring."""
outer: _calls.Outer
"""Return x1[i] · x2[j] for all pairs of elements of two vectors."""
tensordot: _calls.Tensordot
"""Return Σ x1 · x2, summed over pairs of axes; complex x1 is not conjugated."""
vecdot: _calls.LikeCross
"""Return Σ conj(x1) · x2 over `axis`; the other axes broadcast."""
from mdtensor.least_squares import LstsqResult as LstsqResult
from mdtensor.least_squares import lstsq as lstsq
