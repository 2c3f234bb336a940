"""Training on a risk of logits and PU labels: all that uPU, nnPU and their kin need."""

from collections.abc import Callable

from torch import Tensor

from pucl.baselines.shared.loop import Batch, Learner, train
from pucl.baselines.shared.network import Network
from pucl.baselines.shared.problem import Problem
from pucl.baselines.shared.settings import Settings

Risk = Callable[[Tensor, Tensor], Tensor]


def minimise(problem: Problem, settings: Settings, risk: Risk, *, phase: str = "train") -> Network:
    """A network trained on a risk (logits, labelled) → scalar of every batch; the last epoch's."""
    network = problem.network()
    learner = Learner(network, settings)

    def update(batch: Batch) -> Tensor:
        loss = risk(network(batch.x), batch.labelled)
        learner.descend(loss)
        return loss.detach()

    train(problem, settings, update, learner, phase=phase)
    return network
