"""P3Mix-E (Li et al. 2022): mixing with the right partner, regularised by what was learnt early."""

from dataclasses import dataclass

from torch import Tensor, nn

from pucl.baselines.shared.learning import PUBatch
from pucl.baselines.shared.p3mix import Mixed, P3MixSettings, fit, presets
from pucl.baselines.shared.teachers import MeanTeacher
from pucl.baselines.shared.training_problem import PUProblem
from pucl.registry import register


@dataclass(frozen=True, kw_only=True)
class P3MixESettings(P3MixSettings):
    """Those of P3Mix-E.

    Attributes:
        early: the weight of the agreement with the teacher.
        teacher_decay: of the teacher's weights, per epoch, once it has seen as many as that is worth.
    """

    epochs: int = 8
    start: int = 3
    upper: float = 0.85
    early: float = 1.0
    teacher_decay: float = 0.997


DEFAULT = P3MixESettings()
PRESETS = presets(DEFAULT)


@register("baselines", reference="Li et al. 2022 (P3Mix)")
def p3mix_e(problem: PUProblem, settings: P3MixESettings = DEFAULT) -> nn.Module:
    """U as negative, mixed as in P3Mix-C; a teacher holds on to what was learnt before U was memorised.

        min_f  mean_P CE(p̃, t̃) + mean_U CE(p̃, t̃) + w_e mean H(p̃) + w_r mean log(1 − q̃ p̃ − (1 − q̃)(1 − p̃))

    where p̃, t̃ and H are those of P3Mix-C, but t is 0 in all of U, and q̃ = λ q + (1 − λ) q' is mixed from what a
    teacher says of the rows, with q' = 1 for hard positives. After every epoch the teacher becomes the mean of the
    network's weights of all epochs so far (with decay 0.997 once there are more than 333).

    Fidelity: second-hand (the authors' supplement as ported by XiXiphus/PU-Bench, whose authors include one of theirs).

    Differs:
        - As for P3Mix-C, except that there is a teacher. As in their code, it has its own random weights in the first
          epoch, and the network, not the teacher, is the scorer.

    Presets: that of P3Mix-C, with γ = 0.85 and w_r = 1.
    """
    network = problem.network()
    teacher = MeanTeacher(problem.network(1), network, settings.teacher_decay)

    def early(batch: PUBatch, made: Mixed) -> Tensor:
        return settings.early * early_learning(made.probability, made.other(teacher(batch.x).sigmoid()))

    def before_epoch(epoch: int) -> None:
        if epoch:
            teacher.update()

    return fit(problem, settings, early, before_epoch=before_epoch, network=network)


def early_learning(p: Tensor, q: Tensor) -> Tensor:
    """Mean of log(1 − q p − (1 − q)(1 − p)): low where prediction p and target q agree (Liu et al. 2020)."""
    return (1 - (q * p + (1 - q) * (1 - p))).log().mean()
