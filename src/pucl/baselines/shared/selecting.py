"""Training of which the best epoch counts, by a value of held-out P and U."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from pucl.baselines.shared.averaging import Best
from pucl.baselines.shared.loop import Batch, Draws, Learner, train
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.settings import Settings

Criterion = Callable[[Tensor, Tensor], Tensor]


def train_best(
    problem: Problem,
    settings: Settings,
    update: Callable[[Batch], Tensor],
    *learners: Learner,
    watched: nn.Module,
    held: Problem,
    criterion: Criterion,
    phase: str = "train",
    draws: Draws = lambda _generator, _steps: (),
    before_epoch: Callable[[int], None] = lambda _: None,
) -> None:
    """Take all steps as `train` does, then go back to the epoch with the lowest criterion.

    The last epoch counts if the criterion never is a number, as without a held-out labelled row.

    Args:
        problem: the rows to train on.
        settings: as for `train`.
        update: as for `train`.
        learners: as for `train`.
        watched: the network that is judged after every epoch and put back in the end.
        held: the rows it is judged on, from `Problem.hold_out`.
        criterion: (logits, labelled) → a value, the lower the better, that needs no truth.
        phase: as for `train`.
        draws: as for `train`.
        before_epoch: as for `train`.
    """
    best = Best(watched)

    def look() -> None:
        best.look(float(criterion(held.scores(watched), held.labelled)))

    def before(epoch: int) -> None:
        if epoch:
            look()
        before_epoch(epoch)

    train(problem, settings, update, *learners, phase=phase, draws=draws, before_epoch=before)
    look()
    if math.isfinite(best.value):
        best.restore()
