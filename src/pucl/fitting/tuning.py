"""Fine-tuning in the end: two ways of it, compared with the frozen encoder by hidden positives."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.fitting.candidates import Candidate, Judged, choose
from pucl.heads import LinearHead
from pucl.heads.finetune import TuneConfig, fine_tune, self_train
from pucl.pseudo_labels import PseudoLabels
from pucl.training.pretraining import default_view
from pucl.views import View, make_view

# Labels that stay suit an encoder that is good already, labels the network renews one that is not (LOG.md).
FIXED, RENEWED = WAYS = ("fixed labels", "renewed labels")
FIXED_SCALE = 0.3  # of the encoder's learning rate, where labels stay
CROPS = (0.5, 1.0)  # milder than in pretraining


def tune(
    rows: Tensor,
    labelled: Tensor,
    pseudo: PseudoLabels,
    encoder: Encoder,
    way: str,
    *,
    seed: int,
    device: torch.device,
) -> tuple[Encoder, LinearHead]:
    """Encoder and head trained together on the pseudo-labels, in one of `WAYS`, on the CPU in the end."""
    if way == RENEWED:
        tuned = self_train(rows, labelled, pseudo, encoder, TuneConfig(seed=seed), device=device).cpu()
    else:
        config = TuneConfig(encoder_scale=FIXED_SCALE, view=_view(tuple(rows.shape[1:])), seed=seed)
        tuned = fine_tune(rows, labelled, pseudo, encoder, config, device=device).cpu()
    head = LinearHead(tuned.layer.weight[0] * tuned.layer.in_features**0.5, tuned.layer.bias[0])
    own = tuned.encoder
    if not isinstance(own, Encoder):  # a copy of the one given
        raise TypeError(type(own).__name__)
    return own, head


def choose_way(
    rows: Tensor,
    labelled: Tensor,
    fold: Tensor,
    frozen: Judged,
    encoder: Encoder,
    *,
    prior: float | None,
    seed: int,
    device: torch.device,
) -> tuple[str | None, list[Judged]]:
    """The way to fine-tune, None where the frozen encoder ranks hidden positives better by more than noise.

    Judged on fold 0, whose labels neither the encoder nor these heads have seen.
    """
    used = fold != 0
    candidate = replace(frozen.candidate, honest=(0,))
    pseudo = candidate.label(used, labelled, prior=prior, seed=seed)
    judged = []
    for way in WAYS:
        own, head = tune(rows[used], labelled[used], pseudo, encoder, way, seed=seed, device=device)
        logits = np.full(len(labelled), np.nan)
        with torch.no_grad():
            logits[~used.numpy()] = head(embed(own, rows[~used])).double().numpy()
        judged.append(Judged(_named(candidate, way), logits))
    names = [*WAYS, None]
    return names[choose([*judged, frozen], labelled.numpy())], judged


def _named(candidate: Candidate, way: str) -> Candidate:
    return replace(candidate, encoder=f"{candidate.encoder}, fine-tuned on {way}", head="linear")


def _view(shape: tuple[int, ...]) -> str | View:
    name = default_view(shape)
    return make_view(name, scale=CROPS) if name == "simclr" else name
