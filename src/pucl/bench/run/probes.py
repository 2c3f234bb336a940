"""How much of the truth an embedding holds: nearest neighbours and a linear classifier that see the true labels."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from pucl.errors import Described, bad_argument, check_count, check_positive
from pucl.heads.scaling import Scaling
from pucl.numerics.floats import check_finite
from pucl.numerics.logistic import fit_logistic
from pucl.numerics.nearest import block_size, most_similar

KNN, PROBE = "knn_accuracy", "linear_probe_accuracy"


@torch.no_grad()
def knn_accuracy(
    z_train: Tensor, y_train: Any, z_test: Tensor, y_test: Any, *, k: int = 200, temperature: float = 0.1
) -> float:
    """The share of test rows whose `k` nearest training rows vote for their class.

        vote(z) = Σ_{i ∈ N_k(z)} exp(cos(z, z_i) / τ) · (2 y_i − 1),    positive where vote(z) > 0

    where N_k(z) are the k training rows of largest cosine and τ is the temperature (Wu et al. 2018). Rows need not be
    normalised. The similarities are computed for some test rows at a time, on the device of `z_train`.
    """
    train, y, test, truth = _checked(KNN, z_train, y_train, z_test, y_test)
    check_count(KNN, "k", k, high=len(train))
    check_positive(KNN, "temperature", temperature)
    train, sign = F.normalize(train, dim=1), y.to(train.dtype) * 2 - 1
    right = torch.zeros((), dtype=torch.long, device=train.device)
    size = block_size(len(train))
    for rows, goal in zip(torch.split(test, size), torch.split(truth, size), strict=True):
        cosine, index = most_similar(F.normalize(rows, dim=1), train, k)
        weight = torch.softmax(cosine / temperature, dim=1)  # scaled to sum 1, which no vote's sign can feel
        right += (((weight * sign[index]).sum(dim=1) > 0) == goal).sum()
    return int(right) / len(test)


@torch.no_grad()
def linear_probe_accuracy(z_train: Tensor, y_train: Any, z_test: Tensor, y_test: Any, *, l2: float = 1e-3) -> float:
    """Accuracy of a logistic regression on the true labels, fitted as the `linear` head is on pseudo-labels.

    The ridge is on embeddings of unit variance, whatever their scale.
    """
    train, y, test, truth = _checked(PROBE, z_train, y_train, z_test, y_test)
    if y.all() or not y.any():
        raise bad_argument(PROBE, "y_train", "a vector with both classes", Described("one class only"))
    scaling = Scaling.of(train)
    layer = fit_logistic(scaling(train), y, torch.ones_like(y, dtype=train.dtype), l2=l2)
    predicted = layer(scaling(test)).squeeze(1) > 0
    return int((predicted == truth).sum()) / len(truth)


def _checked(
    owner: str, z_train: Tensor, y_train: Any, z_test: Tensor, y_test: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Embeddings as float32 and truths as bool, on the device of `z_train`; finite and of fitting shapes."""
    device = z_train.device
    checked: list[Tensor] = []
    for part, z, y in (("train", z_train, y_train), ("test", z_test, y_test)):
        truth = torch.as_tensor(y, device=device).bool()
        if z.ndim != 2 or not len(z) or truth.shape != z.shape[:1]:
            got = Described(f"shapes {tuple(z.shape)} and {tuple(truth.shape)}")
            raise bad_argument(owner, f"z_{part} and y_{part}", "of shapes (n, d) and (n,) with n ≥ 1", got)
        rows = z.detach().to(device, torch.float32)
        check_finite(owner, f"z_{part}", rows)
        checked += [rows, truth]
    train, y, test, truth = checked
    if train.shape[1] != test.shape[1]:
        got = Described(f"{test.shape[1]} columns")
        raise bad_argument(owner, "z_test", f"of {train.shape[1]} columns, as z_train", got)
    return train, y, test, truth
