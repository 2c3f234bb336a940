"""Newton steps of several regressions on the same rows, by factors or by preconditioned conjugate gradients."""

from collections.abc import Callable
from copy import copy

import torch
from torch import Tensor

from pucl.numerics.pca import exact_axes

FEW = 128  # coefficients up to which the curvature is factored
BLOCK = 48  # coefficients whose curvature the preconditioner holds in full
MAX_PRODUCTS = 40  # of conjugate gradients; systems that need more are factored
ACCURACY = 1e-5  # of their steps: length of the residual as a part of the gradient's, in the preconditioner's norm
TRACE = 1e-10  # of ridge on everything: keeps systems solvable when all probabilities are saturated
Product = Callable[[Tensor], Tensor]


class NewtonSystem:
    """Rows with a constant in front, X = (1, z), and what Newton's method computes from them.

        H_m = Xᵀ diag(c_m) X + R,    R = diag(0, l2, …, l2)

    where c_m are the curvatures of regression m at the rows. With few coefficients a step H_m⁻¹ g_m comes from a factor
    of H_m. With many it comes from conjugate gradients, which need few products with X where its columns are nearly
    orthogonal: the preconditioner is H_m among the columns of the largest mean squares, and an estimate of its diagonal
    for the others. Features of a kernel are like that. Other rows are turned to their principal axes first.

    Args:
        z: rows (n, k); conjugate gradients have their precision, all else is in float64.
        l2: the ridge.
    """

    def __init__(self, z: Tensor, l2: float) -> None:
        n, k = z.shape
        self.x = torch.cat([z.new_ones(n, 1), z], dim=1).to(torch.float64)
        self.ridge = torch.full((k + 1,), l2, dtype=torch.float64, device=z.device)
        self.ridge[0] = 0
        self.by_factor = k <= FEW
        if not self.by_factor:
            square = torch.linalg.vector_norm(z, dim=0, dtype=torch.float64)
            self.order, self.axes = square.argsort(descending=True), torch.empty(0)
            self._lay_out(z[:, self.order])

    def only(self, rows: Tensor) -> "NewtonSystem":
        """The system of some of the rows, by a mask (n,)."""
        part = copy(self)
        part.x = self.x[rows]
        if not self.by_factor:
            part.columns = self.columns[rows]
        return part

    def logits(self, beta: Tensor) -> Tensor:
        """X β for every regression, (m, n)."""
        return beta @ self.x.T

    def gradient(self, slope: Tensor, beta: Tensor) -> Tensor:
        """Xᵀ d + R β for every regression, (m, k + 1), where d are the slopes (m, n) at the rows."""
        return slope @ self.x + self.ridge * beta

    def steps(self, curvature: Tensor, gradient: Tensor) -> Tensor:
        """H⁻¹ g for every regression, (m, k + 1), from c (m, n) and g (m, k + 1)."""
        if not self.by_factor:
            steps = self._by_products(curvature, gradient)
            if steps is None and len(gradient) > 1 and len(self.axes) == 0:  # for one it would not pay
                self._turn()
                steps = self._by_products(curvature, gradient)
            if steps is not None:
                return steps
            self.by_factor = True  # the next ones would not converge either
        systems = _curvatures(self.x, curvature, self.ridge + TRACE)
        factor, failed = torch.linalg.cholesky_ex(systems)
        if failed.any():  # rounding spoilt some of them
            solved: Tensor = torch.linalg.solve(systems, gradient[:, :, None])[:, :, 0]
            return solved
        return torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]

    def _by_products(self, curvature: Tensor, gradient: Tensor) -> Tensor | None:
        """The steps by conjugate gradients on the columns as they are laid out; None where these do not converge."""
        c, x = curvature.to(self.columns), self.columns
        ridge = (self.ridge + TRACE).to(c)
        factor, failed = torch.linalg.cholesky_ex(_curvatures(x[:, :BLOCK], c, ridge[:BLOCK]))
        if failed.any():
            return None
        inverse = torch.cholesky_inverse(factor)
        rest = c.sum(dim=1, keepdim=True) * self.square[BLOCK:] + ridge[BLOCK:]

        def product(step: Tensor) -> Tensor:
            return torch.addcmul((c * (step @ x.T)) @ x, ridge, step)

        def precondition(right: Tensor) -> Tensor:
            first = (inverse @ right[:, :BLOCK, None])[:, :, 0]
            return torch.cat([first, right[:, BLOCK:] / rest], dim=1)

        first, others = gradient[:, :1], gradient[:, 1:]
        others = others @ self.axes if len(self.axes) else others[:, self.order]
        steps = conjugate_gradients(product, precondition, torch.cat([first, others], dim=1).to(c))
        if steps is None:
            return None
        first, others = steps.to(gradient).tensor_split([1], dim=1)
        others = others @ self.axes.T if len(self.axes) else others[:, self.order.argsort()]
        return torch.cat([first, others], dim=1)

    def _turn(self) -> None:
        """Lay the columns out along the principal axes of the rows, the largest first."""
        z = self.x[:, 1:]
        self.axes = exact_axes(z.T @ z)[0].flip(1)
        self._lay_out((z @ self.axes).to(self.columns))

    def _lay_out(self, z: Tensor) -> None:
        self.columns = torch.cat([z.new_ones(len(z), 1), z], dim=1)
        self.square = self.columns.square().mean(dim=0)


def _curvatures(x: Tensor, curvature: Tensor, ridge: Tensor) -> Tensor:
    """Xᵀ diag(c_m) X + diag(ridge), (m, r, r), of columns (n, r)."""
    return torch.stack([x.T @ (x * part[:, None]) for part in curvature]) + torch.diag(ridge)


def conjugate_gradients(product: Product, precondition: Product, right: Tensor) -> Tensor | None:
    """The x of A_m x_m = b_m for symmetric positive A_m, (m, k); None if that takes more than `MAX_PRODUCTS` products.

        r = b − A x,    stop when  rᵀ M⁻¹ r ≤ ε² bᵀ M⁻¹ b  for every m

    where M is the preconditioner and ε is `ACCURACY` (Hestenes and Stiefel 1952).

    Args:
        product: x (m, k) → A x.
        precondition: r (m, k) → M⁻¹ r.
        right: b, (m, k).
    """
    tiny = torch.finfo(right.dtype).tiny
    solution, residual, ahead = torch.zeros_like(right), right, precondition(right)
    direction, size = ahead, (right * ahead).sum(dim=1, keepdim=True)
    small = ACCURACY**2 * size
    for _ in range(MAX_PRODUCTS):
        image = product(direction)
        length = size / (direction * image).sum(dim=1, keepdim=True).clamp(min=tiny)
        solution, residual = torch.addcmul(solution, length, direction), torch.addcmul(residual, -length, image)
        ahead = precondition(residual)
        before, size = size, (residual * ahead).sum(dim=1, keepdim=True)
        if (size <= small).all():
            return solution
        direction = torch.addcmul(ahead, size / before.clamp(min=tiny), direction)
    return None
