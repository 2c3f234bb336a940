"""Calibration of a head to a class prior: one shift of its logits, or one temperature where decisions must stay."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.errors import Described, bad_argument, check_positive, check_share
from pucl.heads.stored import HeadParts, StoredHead, Takes, head_from_parts, stored_heads

OWNER = "pucl.heads.calibrate"
HALVINGS = 100  # enough to use up the digits of a float64
TEMPERATURES = tuple(2 ** (k / 8) for k in range(-24, 25))  # from 1/8 to 8


def calibrate(logits: Tensor, prior: float, *, temperature: float = 1.0) -> float:
    """The shift b that makes the mean probability of the unlabelled rows equal to the prior.

        mean_i σ(a f_i + b) = π,    a = 1 / T

    where f are the logits *of the unlabelled rows* and π is the share of positives among them. The mean rises with b
    and crosses π between logit(π) − max a f and logit(π) − min a f, where bisection finds it to the last digit of a
    float64. One equation fixes one number: the temperature T is given, not fitted.

    Args:
        logits: f, (n,), of unlabelled rows only.
        prior: π, strictly between 0 and 1.
        temperature: T > 0; above 1 it makes probabilities less extreme.
    """
    check_share(OWNER, "prior", prior)
    check_positive(OWNER, "temperature", temperature)
    if logits.ndim != 1 or len(logits) == 0 or not logits.is_floating_point():
        got = Described(f"{logits.dtype} of shape {tuple(logits.shape)}")
        raise bad_argument(OWNER, "logits", "a floating-point vector (n,) with n ≥ 1", got)
    scores = logits.detach().to(torch.float64) / temperature
    if not scores.isfinite().all():
        raise bad_argument(OWNER, "logits", "finite", Described("NaN or infinity"))
    middle = float(torch.logit(torch.tensor(prior, dtype=torch.float64)))
    low, high = middle - float(scores.max()), middle - float(scores.min())
    for _ in range(HALVINGS):
        shift = (low + high) / 2
        if shift in (low, high):
            break
        if torch.sigmoid(scores + shift).mean() < prior:
            low = shift
        else:
            high = shift
    return (low + high) / 2


def fit_temperature(logits: Tensor, labelled: Tensor, prior: float) -> float:
    """The temperature at which the logits explain P and U best.

        T = argmin π mean_P ℓ(f / T) + max(0, mean_U ℓ(−f / T) − π mean_P ℓ(−f / T)),   ℓ(g) = log(1 + e^(−g))

    among `TEMPERATURES`: the non-negative PU risk with the logistic loss, which the true probabilities minimise. No
    decision changes, since f / T is above 0 where f is.

    Args:
        logits: f, (n,), of rows that did not train the head.
        labelled: s, (n,) bool, with rows of both kinds.
        prior: π.
    """
    check_share(OWNER, "prior", prior)
    scores = logits.detach().to(torch.float64)
    p, u = scores[labelled], scores[~labelled]

    def risk(t: float) -> float:
        as_negative = F.softplus(u / t).mean() - prior * F.softplus(p / t).mean()
        return float(prior * F.softplus(-p / t).mean() + as_negative.clamp(min=0))

    return min(TEMPERATURES, key=lambda t: (risk(t), abs(math.log(t))))


class Calibrated(nn.Module):
    """A head whose probabilities agree with a class prior.

    `forward` gives a f(z) + b and `probability` its sigmoid: within [0, 1], and above one half exactly where the logit
    is above 0, so that the decision is the same by either. The order of the rows is the head's own; the decisions are
    not, unless b is 0.
    """

    def __init__(self, head: nn.Module, *, shift: float, temperature: float = 1.0) -> None:
        super().__init__()
        self.head = head
        self.shift, self.temperature = float(shift), check_positive("Calibrated", "temperature", temperature)

    @classmethod
    @torch.no_grad()
    def of(
        cls, head: nn.Module, z: Tensor, labelled: Tensor, *, prior: float, temperature: float = 1.0
    ) -> "Calibrated":
        """The head calibrated on the unlabelled ones of the embeddings `z` (n, k); `labelled` is s, (n,) bool."""
        shift = calibrate(head(z[~labelled]), prior, temperature=temperature)
        return cls(head, shift=shift, temperature=temperature)

    @property
    def takes(self) -> Takes:
        """What the head inside takes: embeddings, or the rows of a model themselves."""
        return self.head.takes if isinstance(self.head, StoredHead) else "embedding"

    def forward(self, z: Tensor) -> Tensor:
        """Calibrated logits (n,) of embeddings (n, k), or of rows."""
        logits: Tensor = self.head(z)
        return logits / self.temperature + self.shift

    def probability(self, z: Tensor) -> Tensor:
        """The probability of being positive, (n,)."""
        return torch.sigmoid(self(z))

    def to_parts(self) -> HeadParts:
        """The head inside with the two numbers of its calibration; a head that cannot be stored raises InputError."""
        if not isinstance(self.head, StoredHead):
            raise bad_argument(
                "pucl.save_model", "head", " or ".join(stored_heads()), Described(type(self.head).__name__)
            )
        parts = self.head.to_parts()
        return replace(parts, options={"shift": self.shift, "temperature": self.temperature, **parts.options})

    @classmethod
    def from_parts(cls, parts: HeadParts) -> "Calibrated":
        """The stored head with its calibration."""
        return cls(head_from_parts(parts), shift=parts.options["shift"], temperature=parts.options["temperature"])

    def extra_repr(self) -> str:
        """The two numbers, for people who print the head."""
        return f"shift={self.shift:.4g}, temperature={self.temperature:.4g}"
