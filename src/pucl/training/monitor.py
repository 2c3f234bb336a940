"""Health of a contrastive run, measured without true labels: spread, rank, and whether labels are memorised."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.numerics.auc import null_error

ROWS = 1024  # rows looked at, so that the cost does not grow with the batch
SAME = 100  # units in the last place; closer scores are equal, since rows that coincide must tie whatever the rounding

# Seen on digits, Gaussians and tables of one to three columns: from random weights to the end of training uniformity
# stays below −0.2 (below −1 in most runs), while collapsed runs (a projection of width 2; an objective that draws all
# unlabelled rows together) lie above −0.1, where nine pairs in ten coincide.
COLLAPSED = -0.1
# The rank was 12 for a table of one column and 3 for two yes-or-no columns; below 2 the rows lie on a line.
LINE = 2.0
ENOUGH = 8  # rows, or possible directions, below which nothing is said: three or four rows often lie together by chance
# Test accuracy against the separation, an mlp on the pixels of digits, 80 labelled rows seen and 20 held out: 0.93 up
# to 0.50, 0.92 at 0.55, 0.84 at 0.66, 0.71 at 0.74, 0.69 at 0.85, 0.57 at 0.93, 0.53 at 1.
SEPARATED = 0.7
SURE = 3.0  # standard deviations above ½


def alignment(z1: Tensor, z2: Tensor) -> Tensor:
    """How far apart the two views of a sample lie (Wang & Isola 2020).

        A = mean_i ‖u_i − v_i‖²

    where u_i and v_i are the projections of the two views of sample i, scaled to length 1. 0: the views agree; 2: they
    have nothing in common.
    """
    return (_unit(z1) - _unit(z2)).square().sum(dim=1).mean()


def uniformity(z: Tensor) -> Tensor:
    """How evenly projections spread over the sphere (Wang & Isola 2020).

        U = log mean_{i≠j} exp(−2 ‖z_i − z_j‖²)

    where z_i are the projections scaled to length 1. 0: all rows are the same; about −4 + 8/d for rows spread evenly
    in many dimensions d. NaN for a single row.
    """
    u = _unit(z)
    return torch.exp(4 * (u @ u.T - 1)).fill_diagonal_(0).sum().div(len(u) * (len(u) - 1)).log()


def effective_rank(z: Tensor) -> Tensor:
    """How many directions the rows really use (Roy & Vetterli 2007; RankMe, Garrido et al. 2023).

        R = exp(−Σ_k p_k log p_k),   p_k = σ_k / Σ_j σ_j

    where σ_k are the singular values of the rows less their mean. k directions of equal spread give k; rows that are
    all the same give 1. On a GPU the eigenvalue solver itself waits for the device; `measure` does not use it there.
    """
    return _rank(_gram(_precise(z)))


def separation(z_seen: Tensor, z_held: Tensor) -> Tensor:
    """How far labelled positives that trained with their label stand apart from labelled positives held out.

        S = mean_{i,j} [a_ij > b_ij] + ½ [a_ij = b_ij],   a_ij = z_i · m_i,   b_ij = z_j · m_i

    where i is any seen row, j any held-out row, z their embeddings scaled to length 1, and m_i the mean of the seen
    rows without i: an AUC. Both are compared with the same m_i, which knows neither, so that S is ½ on average when
    labels leave no trace, for clusters and few rows as well. 1: the encoder has memorised who is labelled. NaN with
    fewer than two seen rows or without a held-out one.
    """
    seen, held = _unit(z_seen), _unit(z_held)
    n = len(seen)
    others = (seen.sum(dim=0) - seen).div(n - 1) if n > 1 else torch.full_like(seen, math.nan)
    gap = (seen * others).sum(dim=1, keepdim=True) - others @ held.T
    return (gap / (SAME * torch.finfo(gap.dtype).eps)).clamp(-1, 1).mean().add(1).div(2)


@dataclass(frozen=True)
class Health:
    """Figures of a run that need no true labels.

    Attributes:
        alignment: mean squared distance of the two views, 0 to 4.
        uniformity: log mean Gaussian potential of the projections; 0 when they are all the same.
        rank: effective rank of the projections.
        dim: the largest rank there could be: the width of the projections, or one less than their number.
        separation: AUC of seen against held-out labelled positives, or None when none were held out.
        n_held: how many were.
        n_seen: how many they were compared with; 0 when not given.
        rows: how many projections were looked at.
    """

    alignment: float
    uniformity: float
    rank: float
    dim: int
    separation: float | None
    n_held: int
    n_seen: int = 0
    rows: int = ROWS


@torch.no_grad()
def measure(z1: Tensor, z2: Tensor, *, separation: Tensor | None = None, n_held: int = 0, n_seen: int = 0) -> Health:
    """The health of a run from the projections of the two views of a batch, with one wait for the device.

    `separation` is what the function of that name returned for `n_seen` and `n_held` rows, still on its device.
    """
    u = _unit(z1)
    scalars = [alignment(z1, z2), uniformity(z1)] + ([] if separation is None else [separation.to(u)])
    packed = torch.cat([torch.stack(scalars), _gram(u).flatten()]).cpu()
    values, gram = packed[: len(scalars)].tolist(), packed[len(scalars) :]
    side = math.isqrt(len(gram))
    rank = float(_rank(gram.view(side, side)))  # on the host: the solver would wait for the device once more
    return Health(
        alignment=values[0],
        uniformity=values[1],
        rank=rank,
        dim=max(0, min(u.shape[1], len(u) - 1)),
        separation=values[2] if separation is not None else None,
        n_held=n_held,
        n_seen=n_seen,
        rows=len(u),
    )


def complaints(health: Health) -> list[str]:
    """What looks wrong, one line each, with what to do; nothing about values that are NaN.

    The words before the colon are always the same, so that a repeated warning can be recognised.
    """
    problems: list[str] = []
    if health.rows >= ENOUGH and health.uniformity > COLLAPSED:
        problems.append(
            f"the projections have collapsed: nearly all are the same (uniformity {health.uniformity:.2f}, healthy is "
            "below -1); try a lower learning rate, a wider projection head, or an objective that does not pull all "
            "unlabelled rows together"
        )
    elif health.dim >= ENOUGH and health.rank < LINE:
        problems.append(
            f"the projections lie along a line: their effective rank is {health.rank:.1f} of {health.dim}; try a lower "
            "learning rate or other views, and check that more than one feature varies"
        )
    if health.separation is not None and health.separation > max(SEPARATED, _by_chance(health)):
        problems.append(
            "the encoder memorises which rows are labelled: those it trained on stand apart from "
            f"{health.n_held} held out (AUC {health.separation:.2f}; 0.5 if nothing is memorised); use fewer "
            "labelled rows per batch, fewer epochs, or stronger views"
        )
    return problems


def _by_chance(health: Health) -> float:
    """The largest AUC that chance explains.

        ½ + 3 √((n + m + 1) / (12 n m))

    where n rows were seen, m held out, and the root is the standard deviation of an AUC when nothing differs. If n is
    not known, it is taken as m, which errs on the quiet side.
    """
    m = health.n_held
    n = health.n_seen or m
    return 0.5 + SURE * null_error(n, m) if m else math.inf


def _precise(z: Tensor) -> Tensor:
    """The first rows in double precision, which neither autocast nor TF32 rounds (single where there is no double)."""
    return z.detach()[:ROWS].to(torch.float32 if z.device.type == "mps" else torch.float64)


def _unit(z: Tensor) -> Tensor:
    return F.normalize(_precise(z), dim=1)


def _gram(rows: Tensor) -> Tensor:
    """The smaller of the two matrices of inner products of the centred rows; its eigenvalues are the σ²."""
    c = rows - rows.mean(dim=0)
    return c.T @ c if c.shape[1] <= c.shape[0] else c @ c.T


def _rank(gram: Tensor) -> Tensor:
    sound = gram.isfinite().all()
    spread = torch.linalg.eigvalsh(torch.where(sound, gram, 0.0)).clamp_min(0).sqrt()  # the solver refuses NaN
    share = spread / spread.sum().clamp_min(1e-30)
    return torch.where(sound, torch.special.entr(share).sum().exp(), math.nan)
