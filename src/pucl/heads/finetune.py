"""Fine-tuning: encoder and linear layer together, on pseudo-labels that stay or that the network renews."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from pucl.deprecation import UNTIL
from pucl.encoders.embedding import embed
from pucl.errors import Described, bad_argument, check_share, is_number
from pucl.heads.targets import confident_rows, fixed_targets, renewed_targets
from pucl.heads.tuned import FineTuned, Normed
from pucl.heads.tuning import Steps, TuneConfig, TuningRows, cross_entropy, mixed, own_draws, start
from pucl.pseudo_labels import PseudoLabels

FINE_TUNE, SELF_TRAIN = "pucl.fine_tune", "pucl.self_train"
MIN_LABELLED_SHARE = 0.05  # of a batch of `self_train`
Function = TypeVar("Function", bound=Callable[..., Any])
# The network before an epoch, and its number → targets within [0, 1] and weights of the rows, (n,) each.
Targets = Callable[[Normed, int], tuple[Tensor, Tensor]]


def _with_old_arguments(tune: Function) -> Function:
    """Let `fine_tune` be called as before `TuneConfig` and `self_train`, with a FutureWarning."""
    moved = tuple(field.name for field in fields(TuneConfig))

    @functools.wraps(tune)
    def call(x: Any, s: Any, pseudo: PseudoLabels, encoder: nn.Module, *config: Any, **options: Any) -> FineTuned:
        if config or options.get("config") is not None:
            return cast("FineTuned", tune(x, s, pseudo, encoder, *config, **options))
        options.pop("config", None)
        renew = options.pop("renew", True)
        made = TuneConfig(**{name: options.pop(name) for name in moved if name in options})
        other = {name: options.pop(name) for name in ("trust", "labelled_share") if name in options}
        if renew and options.get("teacher") is not None:
            raise bad_argument(
                FINE_TUNE,
                "teacher",
                "given with renew=False, where its predictions are the targets",
                options["teacher"],
            )
        advice = (
            f"call {SELF_TRAIN}(x, s, pseudo, encoder, pucl.TuneConfig(...)) for labels that the network renews; "
            f"without a config, {FINE_TUNE} does so until pucl {UNTIL}"
            if renew
            else f"give {', '.join(moved)} as config=pucl.TuneConfig(...), without renew; old calls end with {UNTIL}"
        )
        warnings.warn(f"{FINE_TUNE}: {advice}", FutureWarning, stacklevel=2)
        if not renew:
            return cast("FineTuned", tune(x, s, pseudo, encoder, made, **options))
        for ignored in ("confident", "weighted", "soft", "teacher"):
            options.pop(ignored, None)
        return self_train(x, s, pseudo, encoder, made, **other, **options)

    return call  # type: ignore[return-value]


@_with_old_arguments
def fine_tune(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    config: TuneConfig | None = None,
    *,
    confident: float = 1.0,
    weighted: bool = True,
    soft: bool = False,
    teacher: nn.Module | None = None,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer, on pseudo-labels that stay as they are.

        min_θ  Σ_i r_i · CE(σ(f_θ(t(x_i))), ỹ_i)

    where t(x) is a view of the row, drawn anew at every step, ỹ its pseudo-label and r the reliability of that. The
    layer starts as the linear head of the given encoder.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows.
        encoder: raw rows → embeddings; it stays as it is.
        config: how to train. Until pucl 0.3, a call without it renews the labels as `self_train` does, and warns.
        confident: the share of unlabelled rows to use, within (0, 1]: the most reliable ones of each class.
        weighted: weight rows by their reliability; otherwise all used rows count alike.
        soft: take probabilities as targets instead of labels; all used rows count alike.
        teacher: a module from float rows on the device to logits (n,), whose predictions replace all targets; it
            sees the same view, mixed or not, as the network.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    every = TuningRows.of(FINE_TUNE, x, s, pseudo, device)
    if not is_number(confident) or not 0 < confident <= 1:
        raise bad_argument(FINE_TUNE, "confident", "a number in (0, 1]", confident)
    used = every.only(confident_rows(every.labelled, every.pseudo, confident))
    fixed = fixed_targets(used.pseudo, soft=soft, weighted=weighted)
    return _tune(encoder, every, used, lambda _network, _epoch: fixed, config or TuneConfig(), teacher=teacher)


def self_train(
    x: Any,
    s: Any,
    pseudo: PseudoLabels,
    encoder: nn.Module,
    config: TuneConfig | None = None,
    *,
    trust: float = 0.25,
    labelled_share: float | None = None,
    device: str | torch.device | None = None,
) -> FineTuned:
    """Train a copy of the encoder together with a linear layer, on labels that the network renews as it learns.

        min_θ  ((1 − β) π̂ + β n_P/n) mean_P CE(f, 1)  +  mean_U (1[f_i < q] CE(f, 0) + β 1[f_i ≥ q] CE(f, 1))

    where CE is taken of views of the rows, drawn anew at every step, f_i is the logit of the row as it is, from the
    network at the start of the epoch, and q the cut above which a share π̂ of U lies. Likely positives are left out of
    the negatives and called positive with the weight β only, so that the network need not repeat the mistakes of the
    labels it started from (CVIR in the network for β = 0, Garg et al. 2021). The first epoch takes for likely what
    `pseudo` calls positive, and π̂ is its prior. The layer starts as the linear head of the given encoder.

    Args:
        x: raw rows, as for `pucl.pretrain`.
        s: PU labels, 1 for labelled positives and 0 for unlabelled rows.
        pseudo: pseudo-labels of the rows, for the first epoch, and π̂.
        encoder: raw rows → embeddings; it stays as it is.
        config: how to train.
        trust: β, within [0, 1]: the weight of a likely positive among the positives.
        labelled_share: the share of labelled rows in every batch; when not given, that of the data, but at least 0.05.
            With a large share, a large network memorises the labelled rows.
        device: where to train, in bfloat16 on a GPU and in float32 on a CPU; a GPU if there is one.

    Returns:
        A module from raw rows to logits (n,), in evaluation mode, on the device.
    """
    rows = TuningRows.of(SELF_TRAIN, x, s, pseudo, device)
    check_share(SELF_TRAIN, "trust", trust, closed=True)
    share = max(MIN_LABELLED_SHARE, float(rows.labelled.float().mean())) if labelled_share is None else labelled_share
    check_share(SELF_TRAIN, "labelled_share", share)
    check_share(SELF_TRAIN, "pseudo.prior", pseudo.prior)
    n_unlabelled = int(rows.pseudo.unlabelled(rows.labelled).sum())
    if n_unlabelled < 2:
        raise bad_argument(SELF_TRAIN, "s", "labels with at least two unlabelled rows", Described(f"{n_unlabelled}"))

    def targets(network: Normed, epoch: int) -> tuple[Tensor, Tensor]:
        score = None
        if epoch:
            score = network.eval().score(embed(network.encoder, rows.x, normalise=False).to(rows.x.device))
        return renewed_targets(score, rows.labelled, rows.pseudo, trust=trust, labelled_share=share)

    return _tune(encoder, rows, rows, targets, config or TuneConfig(), labelled_share=share)


def _tune(
    encoder: nn.Module,
    every: TuningRows,
    used: TuningRows,
    targets: Targets,
    config: TuneConfig,
    *,
    labelled_share: float | None = None,
    teacher: nn.Module | None = None,
) -> FineTuned:
    """A copy of the encoder and its linear head on every row, trained together on the targets of the used rows."""
    with own_draws(config, every.x.device):
        network = start(every, encoder)
        steps = _OnTargets(
            network, used, config, targets, teacher, n_rows=len(every.x), labelled_share=labelled_share
        )  # fmt: skip
        kept = steps.run()
    return kept.folded().eval().requires_grad_(False)


class _OnTargets(Steps):
    """Steps on targets that may change from epoch to epoch, or on those of a teacher."""

    def __init__(
        self,
        network: Normed,
        rows: TuningRows,
        config: TuneConfig,
        targets: Targets,
        teacher: nn.Module | None,
        *,
        n_rows: int,
        labelled_share: float | None,
    ) -> None:
        super().__init__(network, rows, config, n_rows=n_rows, labelled_share=labelled_share)
        self.targets, self.teacher = targets, teacher
        self.target, self.weight = self.zeros(len(rows.x)), self.zeros(len(rows.x))

    def begin(self, epoch: int) -> None:
        for place, values in zip((self.target, self.weight), self.targets(self.network, epoch), strict=True):
            place.copy_(values)

    def parts(self) -> list[nn.Module]:
        return super().parts() if self.teacher is None else [*super().parts(), self.teacher]

    def loss(self, members: Tensor) -> Tensor:
        shown = self.view(self.batch(members), self.generator)
        target, weight = self.target[members], self.weight[members]
        if self.config.mixup:
            shown, target, weight = mixed(shown, target, weight, self.kept)
        with self.autocast():
            z = self.network.encoder(shown)
            if self.teacher is not None:
                with torch.no_grad():
                    target = torch.sigmoid(self.teacher(shown).float())
        return cross_entropy(self.network.score(z), target, weight)
