"""sec:nnPU_limitation: how far the risk of uPU is off when it is given a wrong π."""

import torch
from torch import Generator, Tensor

from pucl.registry import register
from pucl.risks.margins import logistic
from pucl.risks.upu import upu
from pucl.theory.comparison import Comparison, exact, mean_of

PRIOR, N_LABELLED, N_UNLABELLED, DRAWS = 0.4, 50, 200, 1000
ERRORS = (-0.2, 0.0, 0.2)  # π̂ − π


def bias_of_upu(error: float, as_positive: float, as_negative: float) -> float:
    """The bias of the risk, (π̂ − π)(R_P⁺ − R_P⁻)."""
    return error * (as_positive - as_negative)


@register("statements", reference="sec:nnPU_limitation", inputs=("vector",))
def upu_prior_error(*, seed: int = 0) -> tuple[Comparison, ...]:
    """The bias of uPU under a wrong π is at most its error times a gap of risks.

        |R_uPU(π̂) − R_uPU(π)| ≤ |π̂ − π| max_f |R_P⁺(f) − R_P⁻(f)|

    where R_P⁺ and R_P⁻ are the risks of positives taken for positive and for negative. For the f at hand it is an
    equation with a sign: too large a π̂ makes a good classifier look better than it is. Checked by the mean of uPU over
    samples less the true risk, for N(1, 1) against N(−1, 1), f(x) = 2x and the logistic loss.
    """
    generator = Generator().manual_seed(seed)
    as_positive, as_negative = _risk(1.0, as_positive=True), _risk(1.0, as_positive=False)
    truth = PRIOR * as_positive + (1 - PRIOR) * _risk(-1.0, as_positive=False)
    rows = []
    for error in ERRORS:
        draws = torch.tensor([_upu(*_sample(generator), error) for _ in range(DRAWS)], dtype=torch.float64)
        written = bias_of_upu(error, as_positive, as_negative)
        rows.append(
            Comparison(f"bias of uPU's risk, π = {PRIOR}, π̂ − π = {error:+.1f}", written, mean_of(draws - truth))
        )
    logits, labelled = _sample(generator)
    own = (float(logistic(side * logits[labelled]).mean()) for side in (1, -1))
    moved = abs(_upu(logits, labelled, 0.2) - _upu(logits, labelled, 0.0))
    bound = abs(bias_of_upu(0.2, *own))
    return (*rows, Comparison("change of the risk of one sample, π̂ − π = +0.2", bound, exact(moved), relation="≤"))


def _sample(generator: Generator) -> tuple[Tensor, Tensor]:
    """Logits and labels of n_P positives and n_U unlabelled rows."""
    y = torch.rand(N_LABELLED + N_UNLABELLED, generator=generator) < PRIOR
    labelled = torch.arange(len(y)) < N_LABELLED
    x = torch.randn(len(y), generator=generator, dtype=torch.float64) + torch.where(y | labelled, 1.0, -1.0)
    return 2 * x, labelled


def _upu(logits: Tensor, labelled: Tensor, error: float) -> float:
    return float(upu(logits, labelled, prior=PRIOR + error, loss="logistic"))


def _risk(mean: float, *, as_positive: bool) -> float:
    """E ℓ(±f(x)) for x ~ N(mean, 1), by quadrature."""
    x = torch.linspace(mean - 9, mean + 9, 20001, dtype=torch.float64)
    density = torch.exp(-((x - mean) ** 2) / 2) / (2 * torch.pi) ** 0.5
    return float(torch.trapezoid(density * logistic(2 * x if as_positive else -2 * x), x))
