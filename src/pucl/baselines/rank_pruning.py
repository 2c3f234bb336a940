"""RP (Northcutt et al. 2017): count how much of U looks labelled, drop that much from its top, train on the rest."""

import torch
from torch import Tensor, nn

from pucl.baselines.shared.probability import ProbabilitySettings, fit_probability, out_of_fold
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import with_networks
from pucl.registry import register

KEPT = 10  # unlabelled rows that are never dropped
CEILING = 0.9999  # of the rates


DEFAULT = ProbabilitySettings(learning_rate=3e-4)
_CIFAR = ProbabilitySettings(epochs=20, batch_size=32, optimiser="sgd", learning_rate=0.01, nesterov=True)
_GREY = ProbabilitySettings(epochs=20, batch_size=128, learning_rate=1e-3)
PRESETS = with_networks(_CIFAR, mnist=_GREY, fmnist=_GREY)


@register("baselines", reference="Northcutt, Wu & Chuang 2017")
def rank_pruning(problem: PUProblem, settings: ProbabilitySettings = DEFAULT) -> nn.Module:
    """Rank pruning: the likeliest positives of U are dropped, and P is weighted for those it lost to U.

        ρ₁ = |{i ∈ U : p_i ≥ l}| / |{i ∈ P ∪ U : p_i ≥ l}|,    l = mean_P p
        P(y = 1) = P(s = 1) / (1 − ρ₁),    π₀ = ρ₁ P(y = 1) / P(s = 0)
        min_f  Σ_{i ∈ P} CE(σ(f(x_i)), 1) / (1 − ρ₁) + Σ_{i ∈ U'} CE(σ(f(x_i)), 0)

    where p is P(s = 1 | x) by networks that never saw the row (three folds), ρ₁ the mean over the folds of the share of
    positives that are not labelled, π₀ the share of positives inside U, and U' is U without its ⌊π₀ n_U⌋ rows of
    highest p. Labels of P are taken to be right (ρ₀ = 0 in the paper). No prior is needed.

    Fidelity: author code (cgnorthcutt/rankpruning).

    Differs:
        - The networks of the tables instead of their Keras networks with dropout; on MNIST Adam instead of Adadelta.
        - They train for up to 50 epochs and stop ten epochs after the lowest loss on a tenth of the rows, held out
          with their labels s; here for 20 epochs, and the one with the lowest such loss counts.
        - With ``encoder="raw"`` a logistic regression, their default, with a ridge of 0.01 on the mean loss.

    Presets: CIFAR SGD 0.01 with Nesterov momentum, batches of 32; MNIST and F-MNIST Adam 1e-3, batches of 128; three
    networks for the folds and one in the end; the others as CIFAR.
    """
    logits, fold = out_of_fold(problem, settings)
    probability = torch.sigmoid(logits)
    parts = [fold == k for k in range(int(fold.max()) + 1)]
    rate = sum(unlabelled_rate(probability[part], problem.labelled[part]) for part in parts) / len(parts)
    kept = keep(probability, problem.labelled, shares(problem.labelled, rate)[1]).nonzero().flatten()
    rest = problem.part(kept)
    weight = torch.where(rest.labelled, 1 / (1 - rate), 1.0)
    return fit_probability(rest, settings, weight=weight, number=settings.folds, phase="pruned")


def unlabelled_rate(probability: Tensor, labelled: Tensor) -> float:
    """ρ₁: of the rows that look as labelled as P does on average, the share that is not."""
    of_p = probability[labelled]
    high = probability >= of_p.mean().minimum(of_p.max())  # the mean of equal numbers may be rounded up
    return min(float((high & ~labelled).sum() / high.sum()), CEILING)


def shares(labelled: Tensor, rate: float) -> tuple[float, float]:
    """P(y = 1) and π₀, the share of positives among all rows and inside U, from ρ₁."""
    marked = float(labelled.float().mean())
    positive = marked / (1 - rate)
    return positive, min(rate * positive / (1 - marked), CEILING)


def keep(probability: Tensor, labelled: Tensor, share: float) -> Tensor:
    """Which rows are left when the `share` of U of highest probability is dropped, but for ten rows; (n,) bool."""
    n = int((~labelled).sum())
    dropped = max(min(int(n * share), n - KEPT), 0)
    height = torch.where(labelled, -1.0, probability)
    kept = torch.ones_like(labelled)
    kept[height.argsort(descending=True, stable=True)[:dropped]] = False
    return kept
