"""P(s = 1 | x): how likely a row is to be labelled, by a network or, on raw rows, by a logistic regression."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pucl.baselines.shared.best_epoch import train_best
from pucl.baselines.shared.learning import Learner, PUBatch
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings
from pucl.encoders.inputs import Encoder
from pucl.errors import Described, bad_argument, check_count, check_share
from pucl.heads import LinearHead
from pucl.numerics.logistic import fit_logistic, stratified_folds
from pucl.seeds import seed_of

L2 = 1e-2  # of the logistic regression on raw rows


@dataclass(frozen=True, kw_only=True)
class ProbabilitySettings(Settings):
    """Those of a network that estimates probabilities.

    Attributes:
        held_out: share of P and of U that is not trained on but says which epoch is the best.
        folds: of the cross-fitting; fewer when P or U is smaller.
    """

    epochs: int = 10
    held_out: float = 0.1
    folds: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share(type(self).__name__, "held_out", self.held_out)
        check_count(type(self).__name__, "folds", self.folds, low=2)


def fit_probability(
    problem: PUProblem,
    settings: ProbabilitySettings,
    *,
    target: Tensor | None = None,
    weight: Tensor | None = None,
    number: int = 0,
    phase: str = "train",
) -> nn.Module:
    """A scorer whose sigmoid explains the targets.

        min_f  mean_i v_i · CE(σ(f(x_i)), t_i)

    where the mean is over the rows that are not held out; of all epochs the one counts in which the same mean over
    those held out is the lowest, because a network trained to the end memorises every labelled row.

    Args:
        problem: the rows.
        settings: how to train.
        target: t within [0, 1], (n,); the labels s when not given.
        weight: v ≥ 0, (n,); 1 when not given.
        number: of the network, for the seed of its weights.
        phase: a name for the seeds.
    """
    target = problem.labelled.float() if target is None else target
    weight = torch.ones_like(target) if weight is None else weight
    if problem.encoder == "raw":
        return regression(problem, target, weight)
    left, held = _split(problem, settings.held_out, f"held out/{phase}")
    network, goals, loads = problem.network(number), target[left], weight[left]
    learner = Learner(network, settings)

    def update(batch: PUBatch) -> Tensor:
        loss = _loss(network(batch.x), goals[batch.rows], loads[batch.rows])
        learner.descend(loss)
        return loss.detach()

    def criterion(logits: Tensor, _labelled: Tensor) -> Tensor:
        return _loss(logits, target[held], weight[held])

    train_best(
        problem.part(left), settings, update, learner,
        watched=network, held=problem.part(held), criterion=criterion, phase=phase,
    )  # fmt: skip
    return network


def out_of_fold(problem: PUProblem, settings: ProbabilitySettings) -> tuple[Tensor, Tensor]:
    """The logits of P(s = 1 | x) of every row by a network that never saw it, and the fold of every row, both (n,)."""
    n_p, n_u = len(problem.positives), len(problem.unlabelled)
    folds = min(settings.folds, n_p, n_u)
    if folds < 2:
        got = Described(f"{n_p} labelled and {n_u} unlabelled")
        raise bad_argument(problem.owner, "s", "0 or 1, with at least two rows of each kind, to hold one out", got)
    fold = stratified_folds(problem.labelled, folds, seed_of(problem.seed, "folds", 0))
    logits = torch.empty(len(problem.x), device=problem.device)
    for k in range(folds):
        inside, outside = (fold == k).nonzero().flatten(), (fold != k).nonzero().flatten()
        scorer = fit_probability(problem.part(outside), settings, number=k, phase=f"fold {k}")
        logits[inside] = problem.scores(scorer, inside)
    return logits, fold


def _split(problem: PUProblem, share: float, purpose: str) -> tuple[Tensor, Tensor]:
    """The numbers of the rows that are left and of those held out."""
    numbered = replace(problem, x=torch.arange(len(problem.x), device=problem.device))
    left, held = numbered.hold_out(share, purpose, of_each=False)
    return left.x, held.x


def _loss(logits: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, target, weight)


def regression(problem: PUProblem, target: Tensor, weight: Tensor) -> nn.Module:
    """A logistic regression on the raw rows with a ridge of 0.01, solved to the end."""
    encoder = Encoder(problem.standardise, nn.Flatten()).to(problem.device)
    layer = fit_logistic(encoder(problem.x), target, weight, l2=L2)
    return nn.Sequential(encoder, LinearHead(layer.weight[0], layer.bias[0]))
