"""Fine-tuning: encoder and head trained together on fixed or renewed labels, compared with the frozen encoder."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.fitting.answered import share_of_rest
from pucl.fitting.compare import TUNED, Candidate, Comparison, Judged, choose, head_of
from pucl.fitting.encode import Encoded
from pucl.fitting.modes import MOVING, RENEWED, modes_of
from pucl.fitting.plan import FitPlan
from pucl.heads import LinearHead
from pucl.heads.finetune import fine_tune, self_train
from pucl.heads.momentum import MomentumConfig, momentum_train
from pucl.heads.tuning import TuneConfig, ready_to_tune
from pucl.pseudo_labels import PseudoLabels
from pucl.training.pretraining import default_view
from pucl.views import View, make_view

FIXED_SCALE = 0.3  # of the encoder's learning rate with fixed labels
HEAD = ("head weight", "head bias")  # what is kept besides the tensors of an encoder
CROPS = (0.5, 1.0)  # milder than in pretraining


@dataclass(frozen=True)
class Classifier:
    """The encoder and the head of the model to be, before its logits are calibrated.

    Attributes:
        encoded: what the rows were encoded with when candidates were compared.
        encoder: raw rows → embeddings, on the CPU.
        head: embeddings → logits.
        z: embeddings of the training rows.
        fine_tuned: the mode of fine-tuning; None for the encoder as it was.
        comparison: what was compared, with the modes of fine-tuning.
    """

    encoded: Encoded
    encoder: Encoder
    head: nn.Module
    z: Tensor
    fine_tuned: str | None
    comparison: Comparison


def tune(plan: FitPlan, comparison: Comparison, used: Encoded, pseudo: PseudoLabels) -> Classifier:
    """The head of the chosen candidate on all rows; both fine-tuned if the user wants that and it ranks better."""
    if comparison.averaged is not None:
        return Classifier(used, used.encoder.cpu(), comparison.averaged.head, used.z, None, comparison)
    head = head_of(comparison.chosen.candidate, used.z, plan.train_positive, pseudo, plan.options.seed)
    if not plan.options.fine_tune or used.trained is None:
        return Classifier(used, used.encoder.cpu(), head, used.z, None, comparison)
    mode, judged = choose_mode(plan, comparison.chosen, used.encoder)
    everything = (*comparison.judged, *judged)
    if mode is None:
        return Classifier(used, used.encoder.cpu(), head, used.z, None, replace(comparison, judged=everything))
    modes = modes_of(plan.options.fine_tune)
    plan.progress("fine-tuning", len(modes) / (len(modes) + 1), f"{mode}, all rows")
    encoder, head = _kept(plan, f"fine-tuned on {mode}", torch.ones_like(plan.labelled), pseudo, used.encoder, mode)
    best = len(comparison.judged) + modes.index(mode)
    return Classifier(
        used, encoder, head, embed(encoder, plan.features), mode, replace(comparison, judged=everything, best=best)
    )


def choose_mode(plan: FitPlan, frozen: Judged, encoder: Encoder) -> tuple[str | None, list[Judged]]:
    """The mode of fine-tuning; None if the frozen encoder ranks hidden positives better by more than noise.

    Judged on fold 0, whose labels neither the encoder nor these heads have seen.
    """
    rows, labelled, seed = plan.features, plan.labelled, plan.options.seed
    used = plan.fold != 0
    candidate = replace(frozen.candidate, folds=(0,))
    pseudo = candidate.label(
        used, plan.train_positive, prior=share_of_rest(plan, plan.prior), seed=seed, negative=plan.train_negative
    )
    judged, modes = [], modes_of(plan.options.fine_tune)
    for number, mode in enumerate(modes):
        plan.progress("fine-tuning", number / (len(modes) + 1), f"{mode}, to be judged")
        own, head = _kept(plan, f"judged on {mode}", used, pseudo, encoder, mode)
        logits = np.full(len(labelled), np.nan)
        with torch.no_grad():
            logits[~used.numpy()] = head(embed(own, rows[~used])).double().numpy()
        judged.append(Judged(_named(candidate, mode), logits))
    names = [*modes, None]
    return names[choose([*judged, frozen], labelled.numpy(), plan.aside)], judged


def _kept(
    plan: FitPlan, stage: str, used: Tensor, pseudo: PseudoLabels, encoder: Encoder, mode: str
) -> tuple[Encoder, LinearHead]:
    """`fine_tuned` on some rows, or what an interrupted fit has kept of it."""
    known = None if plan.unfinished is None else plan.unfinished.load(stage)
    if known is not None:
        tensors = known[0]
        own = ready_to_tune(encoder, plan.features)
        own.load_state_dict({name: value for name, value in tensors.items() if name not in HEAD})
        return own.eval().requires_grad_(False), LinearHead(*(tensors[name] for name in HEAD))
    own, head = fine_tuned(
        plan.features[used],
        plan.train_positive[used],
        pseudo,
        encoder,
        mode,
        seed=plan.options.seed,
        device=plan.device,
    )
    if plan.unfinished is not None:
        plan.unfinished.keep(stage, {**own.state_dict(), **dict(zip(HEAD, (head.weight, head.bias), strict=True))})
    return own, head


def fine_tuned(
    rows: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    encoder: Encoder,
    mode: str,
    *,
    seed: int,
    device: torch.device,
) -> tuple[Encoder, LinearHead]:
    """Encoder and head trained together on the pseudo-labels, in some mode; both are returned on the CPU."""
    if mode == RENEWED:
        tuned = self_train(rows, labelled, pseudo, encoder, TuneConfig(seed=seed), device=device).cpu()
    elif mode == MOVING:
        moving = MomentumConfig(strong_view=_view(tuple(rows.shape[1:])), seed=seed)
        tuned = momentum_train(rows, labelled, pseudo, encoder, moving, device=device).cpu()
    else:
        config = TuneConfig(encoder_scale=FIXED_SCALE, view=_view(tuple(rows.shape[1:])), seed=seed)
        tuned = fine_tune(rows, labelled, pseudo, encoder, config, device=device).cpu()
    head = LinearHead(tuned.layer.weight[0] * tuned.layer.in_features**0.5, tuned.layer.bias[0])
    own = tuned.encoder
    if not isinstance(own, Encoder):  # a copy of the one given
        raise TypeError(type(own).__name__)
    return own, head


def _named(candidate: Candidate, mode: str) -> Candidate:
    return replace(candidate, encoder=f"{candidate.encoder}{TUNED}{mode}", head="linear")


def _view(shape: tuple[int, ...]) -> str | View:
    name = default_view(shape)
    return make_view(name, scale=CROPS) if name == "simclr" else name
