"""Self-PU (Chen et al. 2020): two students on nnPU that pick rows they trust, weigh the others, teach themselves."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from pucl.baselines.shared.learning import Learner, PUBatch, steps_of, train
from pucl.baselines.shared.look_ahead import LookAhead, shares
from pucl.baselines.shared.regularisers import entropy
from pucl.baselines.shared.schedules import sigmoid_ramp
from pucl.baselines.shared.teachers import MeanTeacher, teacher_of
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.shared.training_settings import Decay, Settings, with_networks
from pucl.errors import bad_argument, check_count, check_share
from pucl.registry import register
from pucl.training.batches import passes


@dataclass(frozen=True, kw_only=True)
class SelfPUSettings(Settings):
    """Those of Self-PU; batches hold labelled rows in their share of all rows, at least one.

    Attributes:
        select_from: the epoch, counted from 0, from which rows are selected and weights calibrated.
        select_until: the epoch from which there are teachers instead.
        select_every: epochs between two selections.
        grown: the epoch at which a selection would reach its full size.
        pace: the full size for either student, as a share of U, at either end of the ranking.
        soft_labels: whether trusted rows are trained with their own predictions as labels (their entropy is made less)
            or with those they were selected by.
        budget: how much of a batch may be weight on the entropy.
        held_out: the share of U that weights are calibrated on and nothing is trained on.
        agreement: students learn from each other while they differ by less than this, relative to the risk.
        consistency: the full weight of the agreement with the teacher.
        ramp: the epoch where that weight begins to grow and over how many.
        teacher_decay: of the teachers' weights, per epoch, once they have seen as many as that is worth.
    """

    epochs: int = 10
    batch_size: int = 128
    decay: Decay = "cosine"
    select_from: int = 2
    select_until: int = 5
    select_every: int = 1
    grown: int = 8
    pace: tuple[float, float] = (0.2, 0.3)
    soft_labels: bool = True
    budget: float = 1 / 16
    held_out: float = 0.1
    agreement: float = 0.1
    consistency: float = 0.3
    ramp: tuple[int, int] = (5, 10)
    teacher_decay: float = 0.999

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("select_from", "select_until"):
            check_count(owner, name, getattr(self, name), low=0)
        for name in ("select_every", "grown"):
            check_count(owner, name, getattr(self, name))
        check_share(owner, "held_out", self.held_out)
        if len(self.pace) != 2 or not all(0 <= share < 0.5 for share in self.pace):
            raise bad_argument(owner, "pace", "two shares from 0 to below 0.5", self.pace)


DEFAULT = SelfPUSettings()
_CIFAR = SelfPUSettings(
    epochs=200,
    batch_size=256,
    learning_rate=5e-4,
    weight_decay=5e-3,
    select_from=10,
    select_until=50,
    select_every=10,
    grown=100,
    ramp=(30, 400),
)
_MNIST = replace(_CIFAR, learning_rate=1e-3)
_CNN7 = replace(_CIFAR, learning_rate=1e-5)
PRESETS = with_networks(_CIFAR, cnn7=_CNN7, mnist=_MNIST, fmnist=_MNIST, alzheimer=replace(_CIFAR, batch_size=64))


@register("baselines", reference="Chen et al. 2020 (Self-PU)", needs_prior=True)
def self_pu(problem: PUProblem, settings: SelfPUSettings = DEFAULT) -> nn.Module:
    """Two students trained on nnPU, then also on rows they trust, then under teachers made of themselves.

        P and rows of U:    min_f  π R_P⁺ + max(0, mean_U w σ(f) − π R_P⁻) + mean_U v H(σ(f))
        trusted rows of U:  min_f  mean H(σ(f))

    where the R are those of nnPU with the sigmoid loss, H is the entropy, w and v are weights of rows of U, and a step
    has rows of the first or of the second kind. Where the max is 0, the step goes back, as for nnPU.

    Self-paced, after the epochs 10, 20, 30 and 40: a student ranks the n rows of U by its scores and trusts both ends,
    each k = n · pace · epoch / 100 rows; for the rest π becomes (π n − k) / (n − 2 k). Self-calibrated, in the epochs
    from 10 to 49: w and v are in proportion to what a step on either cost of a row would do for the entropy of other
    rows, see `LookAhead` and `shares`, with Σ v about the budget; elsewhere w = 1 and v = 0. Self-distilled, from epoch
    50: every student has a teacher f', the mean of its weights after all of these epochs; to the loss come
    c mean (σ(f) − σ(f'))² with c growing along a ramp, and, for the first kind, mean (σ(f) − σ(g))² with the other
    student g where that is less than 0.1 of the risk.

    Fidelity: author code (VITA-Group/Self-PU, train_2s2t_mix.py).

    Differs:
        - The rows that weights are calibrated on are the author's *test* rows (without their labels); here they are a
          tenth of U, held out.
        - The author reports the best of four networks and all epochs on the test rows; the scorer here is the mean of
          the two teachers' logits after the last epoch.
        - The author takes the softmax of a single logit in the consistency with the teacher, which is 1 everywhere, so
          that the term is always 0; here it is the difference of the sigmoids.
        - The author looks ahead at a step that raises the entropy of a row but then takes one that lowers it; here both
          lower it, so that weight goes to steps that help.
        - The author's formula for π of the rest is fed with 0 trusted rows, so that π stays; here with their number.
        - A selection takes no more than half of what π leaves of either class, which matters for a rare class only.
        - The students take their steps in turn, not epoch by epoch, and teachers are updated once per epoch, not twice
          (after the trusted rows and after the others). Learning rates change with every step.

    Presets: Adam 5e-4 (MNIST and F-MNIST 1e-3) with a cosine over 200 epochs, batches of 256, weight decay 5e-3, pace
    0.2 and 0.3, budget 1/16, soft labels; the same with batches of 64 for Alzheimer. The 7-layer CNN has no batch norm,
    and at 5e-4 the weight decay drives its weights to 0; it gets 1e-5, the rate of nnPU's author for CIFAR.
    """
    problem, held = hold_out_unlabelled(problem, settings.held_out)
    run = _Run(problem, held, settings)
    run.phase("nnpu", 0, settings.select_from)
    run.phase("calibrated", settings.select_from, settings.select_until)
    run.phase("taught", settings.select_until, settings.epochs)
    networks = [teacher.network for teacher in run.teachers] or [student.network for student in run.students]
    return MeanLogit(networks)


class MeanLogit(nn.Module):
    """The mean of the logits of several scorers."""

    def __init__(self, scorers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.scorers = nn.ModuleList(scorers)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n,) of raw rows."""
        return torch.stack([scorer(x) for scorer in self.scorers]).mean(dim=0)


def step_risk(logits: Tensor, n_labelled: int, prior: Tensor, weight: Tensor | float = 1.0) -> Tensor:
    """What a step of nnPU descends, with weights for the rows of U.

        π R_P⁺ + B  where B ≥ 0, else −B,    B = mean_U w σ(f) − π mean_P σ(f),    R_P⁺ = mean_P σ(−f)

    where the first `n_labelled` rows are P; weights (m,) of theirs are not used.
    """
    taken_for_negative = torch.sigmoid(logits)
    weighted = (weight * taken_for_negative)[n_labelled:].mean()
    positive = prior * (1 - taken_for_negative[:n_labelled]).mean()
    negative = weighted - prior * taken_for_negative[:n_labelled].mean()
    return torch.where(negative < 0, -negative, positive + negative)


class Student:
    """One of the two: a network, the rows of U it trusts, and the others."""

    def __init__(self, problem: PUProblem, settings: SelfPUSettings, number: int) -> None:
        self.network = problem.network(number)
        self.learner = Learner(self.network, settings)
        self.pace = settings.pace[number]
        self.trusted, self.rest = problem.unlabelled[:0].cpu(), problem.unlabelled.cpu()
        self.labels = torch.zeros(len(problem.x), device=problem.device)
        self.prior = torch.tensor(problem.share, device=problem.device)

    def select(self, problem: PUProblem, grown: float) -> None:
        """Trust the two ends of the ranking of U; `grown` is how far the selection has grown, from 0 to 1."""
        rows, share = problem.unlabelled, problem.share
        k = int(len(rows) * min(self.pace * grown, share / 2, (1 - share) / 2))
        order = problem.scores(self.network, rows).argsort(stable=True)
        end = len(rows) - k
        low, rest, high = (rows[part] for part in (order[:k], order[k:end], order[end:]))
        self.trusted, self.rest = torch.cat([low, high]).cpu(), rest.cpu()
        self.labels.zero_()[high] = 1.0
        self.prior.fill_((share * len(rows) - k) / (len(rows) - 2 * k))

    def rows(
        self, problem: PUProblem, steps: int, sizes: tuple[int, int], generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """The rows of every step, (steps, m), and which steps are of trusted rows: the first ones of the epoch.

        Other steps have P in the first and the rest of U in the second of the two `sizes`.
        """
        size, n_trusted = sum(sizes), len(self.trusted)
        first = round(steps * n_trusted / len(problem.x))
        parts = (problem.positives.cpu(), sizes[0]), (self.rest, sizes[1])
        later = [passes(rows, (steps - first) * k, generator).view(-1, k) for rows, k in parts]
        sure = passes(self.trusted, first * size, generator).view(-1, size) if first else torch.empty(0, size).long()
        return torch.cat([sure, torch.cat(later, dim=1)]), torch.arange(steps) < first


class _Run:
    """Both students, and all that the three phases share."""

    def __init__(self, problem: PUProblem, held: PUProblem, settings: SelfPUSettings) -> None:
        self.problem, self.held, self.settings = problem, held, settings
        self.students = [Student(problem, settings, number) for number in range(2)]
        self.teachers: list[MeanTeacher] = []
        labelled = round(settings.batch_size * len(problem.positives) / len(problem.x))
        self.n_labelled = min(max(1, labelled), max(1, settings.batch_size - 1))
        self.consistency = torch.zeros((), device=problem.device)

    def phase(self, name: str, begin: int, end: int) -> None:
        """The epochs from `begin` to before `end`, but never more than there are."""
        settings, end = self.settings, min(end, self.settings.epochs)
        if begin >= end:
            return
        look_ahead = [LookAhead(student.network) for student in self.students] if name == "calibrated" else []
        if name == "taught":
            self.teachers = [
                MeanTeacher(teacher_of(student.network), student.network, settings.teacher_decay)
                for student in self.students
            ]
        for student in self.students:
            student.learner.settings = settings_after(settings, begin)

        def update(batch: PUBatch) -> Tensor:
            losses = [self._step(number, batch.draws, look_ahead) for number in range(2)]
            return torch.stack(losses).sum()

        own = replace(settings, epochs=end - begin, steps=steps_of(self.problem, settings), batch_size=1)
        learners = [student.learner for student in self.students]
        train(
            self.problem, own, update, *learners,
            phase=name, draws=self._draws, before_epoch=lambda epoch: self._before(begin + epoch, begin),
        )  # fmt: skip
        self._update_teachers()

    def _before(self, epoch: int, begin: int) -> None:
        settings, last = self.settings, epoch - 1
        due = (last - settings.select_from) % settings.select_every == 0
        if due and settings.select_from <= last < settings.select_until:
            for student in self.students:
                student.select(self.problem, min(last / settings.grown, 1.0))
        first, length = settings.ramp
        self.consistency.fill_(settings.consistency * sigmoid_ramp(epoch - first, length))
        if epoch > begin:
            self._update_teachers()

    def _update_teachers(self) -> None:
        for teacher in self.teachers:
            teacher.update()

    def _draws(self, generator: Generator, steps: int) -> tuple[Tensor, ...]:
        size = self.settings.batch_size
        sizes = self.n_labelled, size - self.n_labelled
        ours = [part for student in self.students for part in student.rows(self.problem, steps, sizes, generator)]
        theirs = [passes(torch.arange(len(self.held.x)), steps * size, generator).view(steps, size) for _ in range(2)]
        return *ours, *theirs

    def _step(self, number: int, draws: Sequence[Tensor], look_ahead: list[LookAhead]) -> Tensor:
        student, (rows, sure) = self.students[number], draws[2 * number : 2 * number + 2]
        x = self.problem.x.index_select(0, rows)
        logits = student.network(x)
        doubt = entropy(logits)
        if look_ahead:
            weight = self._calibrate(look_ahead[number], x, self.held.x.index_select(0, draws[4 + number]))
            risk = step_risk(logits, self.n_labelled, student.prior, weight[:, 0]) + (weight[:, 1] * doubt).mean()
        else:
            risk = step_risk(logits, self.n_labelled, student.prior)
        if self.teachers:
            with torch.no_grad():
                peer = self.students[1 - number].network(x).sigmoid()
            apart = F.mse_loss(logits.sigmoid(), peer)
            risk = risk + torch.where(apart < self.settings.agreement * risk, apart, 0.0)
        loss = torch.where(sure, self._trusted(logits, student.labels[rows], doubt), risk)
        if self.teachers:
            loss = loss + self.consistency * F.mse_loss(logits.sigmoid(), self.teachers[number](x).sigmoid())
        student.learner.descend(loss)
        return loss.detach()

    def _trusted(self, logits: Tensor, labels: Tensor, doubt: Tensor) -> Tensor:
        return doubt.mean() if self.settings.soft_labels else F.binary_cross_entropy_with_logits(logits, labels)

    def _calibrate(self, look_ahead: LookAhead, x: Tensor, others: Tensor) -> Tensor:
        n_unlabelled = len(x) - self.n_labelled

        def costs(logits: Tensor) -> Tensor:
            return torch.stack([logits.sigmoid() / n_unlabelled, entropy(logits) / len(x)], dim=1)

        gains = look_ahead(x, costs, others, lambda logits: 2 * entropy(logits).mean())
        return shares(gains, self.n_labelled, self.settings.budget * len(x))


@dataclass(frozen=True, kw_only=True)
class LaterSettings(Settings):
    """Settings whose learning rate continues after `begun` epochs."""

    begun: int = 0

    def rate(self, step: int, per_epoch: int) -> float:
        """The learning rate of a step of the phase, counted from 0."""
        return super().rate(step + self.begun * per_epoch, per_epoch)


def settings_after(settings: Settings, begun: int) -> LaterSettings:
    """The settings of a phase that begins after `begun` epochs."""
    return LaterSettings(**{field.name: getattr(settings, field.name) for field in fields(Settings)}, begun=begun)


def hold_out_unlabelled(problem: PUProblem, share: float) -> tuple[PUProblem, PUProblem]:
    """The problem without some rows of U, and those."""
    problem.check_two(problem.unlabelled)
    rows = problem.unlabelled.cpu()
    count = min(max(1, round(share * len(rows))), len(rows) - 1)
    held = rows[torch.randperm(len(rows), generator=problem.drawing("held out"))[:count]].to(problem.device)
    kept = torch.ones(len(problem.x), dtype=torch.bool, device=problem.device)
    kept[held] = False
    return problem.part(kept.nonzero().flatten()), problem.part(held)
