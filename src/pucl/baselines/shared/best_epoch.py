"""Training that keeps the best epoch, by a criterion on held-out P and U that needs no true labels."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from pucl.baselines.shared.learning import Draws, Learner, PUBatch, train
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Settings

Criterion = Callable[[Tensor, Tensor], Tensor]


class BestEpoch:
    """The weights of the epoch with the lowest value of a criterion that needs no true labels."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.value = float("inf")
        self.weights = {name: value.clone() for name, value in network.state_dict().items()}

    def look(self, value: float) -> None:
        """Keep the present weights if their value is the lowest so far."""
        if value < self.value:
            self.value = value
            for name, tensor in self.network.state_dict().items():
                self.weights[name].copy_(tensor)

    def restore(self) -> None:
        """Put the best weights back; those of the beginning if there never was a finite value."""
        self.network.load_state_dict(self.weights)


def train_best(
    problem: PUProblem,
    settings: Settings,
    update: Callable[[PUBatch], Tensor],
    *learners: Learner,
    watched: nn.Module,
    held: PUProblem,
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
        held: the rows it is judged on, from `PUProblem.hold_out`.
        criterion: (logits, labelled) → a value, the lower the better, that needs no true labels.
        phase: as for `train`.
        draws: as for `train`.
        before_epoch: as for `train`.
    """
    best = BestEpoch(watched)

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
