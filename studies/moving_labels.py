"""Labels that stay, that the network renews and that move: PU-AUC of hidden positives, then truth, and CPU seconds.

``python studies/moving_labels.py digits --seeds 0 1 2 3 4`` or ``fmnist1 --rows 4000``, with ``PUCL_DATA`` set. A fifth
of P and U is hidden; all regimes of a seed share one encoder, which is kept in ``--cache``. Each regime is judged with
the weights of its last step and with their running average. Lines of JSON go to ``--out``.
"""

import argparse
import copy
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pucl.data import load
from pucl.data.pu_split import make_pu
from pucl.encoders.embedding import embed
from pucl.encoders.inputs import Encoder
from pucl.heads import fit_head
from pucl.heads.finetune import fine_tune, self_train
from pucl.heads.momentum import MomentumConfig, momentum_train
from pucl.heads.tuned import FineTuned
from pucl.heads.tuning import Steps, TuneConfig
from pucl.numerics.auc import auc
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.selection import hold_out
from pucl.training import TrainConfig, pretrain
from pucl.views import View, make_view

AVERAGE = 0.99
Regime = Callable[[Any, Any, PseudoLabels, Encoder, int], FineTuned]


def regimes(view: str | View, epochs: int) -> dict[str, Regime]:
    """What is compared, by name; `view` is the strong one."""

    def usual(tune: Callable[..., FineTuned], **more: Any) -> Regime:
        settings = {"epochs": epochs, "average": AVERAGE, **more}
        return lambda x, s, pseudo, encoder, seed: tune(
            x, s, pseudo, encoder, TuneConfig(**settings, seed=seed), device="cpu"
        )

    def moving(**more: Any) -> Regime:
        settings = {"epochs": epochs, "average": AVERAGE, "strong_view": view, **more}
        return lambda x, s, pseudo, encoder, seed: momentum_train(
            x, s, pseudo, encoder, MomentumConfig(**settings, seed=seed), device="cpu"
        )

    return {
        "fixed": usual(fine_tune, encoder_scale=0.3, view=view),
        "renewed": usual(self_train),
        "moving, prototypes": moving(),
        "moving, stacked": moving(labels="stacked"),
        "staying, non-contrastive loss": moving(label_momentum=1.0),
        "staying, no confident negatives": moving(label_momentum=1.0, confident_negative=0.0),
        "staying, mixup": moving(label_momentum=1.0, mixup=1.0),
        "prototypes, no non-contrastive loss": moving(alignment=0.0),
    }


def task(name: str, rows: int, seed: int, cache: Path) -> tuple[Any, ...]:
    """Rows, labels, hidden rows, encoder and pseudo-labels; the encoder is kept."""
    data = load(name, seed=seed)
    digits = name == "digits"
    n_p = 100 if digits else rows // 10
    sample = make_pu(data.y_train, n_p, n_unlabelled=None if digits else rows - n_p, seed=seed)
    x, s = torch.as_tensor(data.x_train[sample.rows]), np.asarray(sample.s)
    hidden = hold_out(s, 0.2, seed)
    seen = s & ~hidden
    place = cache / f"{name}-{len(x)}-{seed}.pt"
    view = make_view("simclr", scale=(0.6, 1.0), jitter=0.2) if not digits else "small_image"
    if place.exists():
        encoder = torch.load(place, weights_only=False)
    else:
        config = TrainConfig(epochs=60 if digits else 30, batch_size=256, learning_rate=4.0, seed=seed)
        kind = "small_cnn" if digits else "lenet5"
        encoder = pretrain(x, seen, encoder=kind, view=view, config=config, device="cpu").encoder
        torch.save(encoder, place)
    used = torch.as_tensor(~hidden)
    pseudo = pseudo_label(embed(encoder, x)[used], s[~hidden], seed=seed)
    return data, sample, x, s, hidden, encoder, pseudo, view


def measured(name: str, rows: int, seed: int, cache: Path, only: list[str], epochs: int) -> Iterator[dict[str, Any]]:
    """A line for every regime and kind of weights."""
    data, sample, x, s, hidden, encoder, pseudo, view = task(name, rows, seed, cache)
    x_test, y_test = torch.as_tensor(data.x_test), torch.as_tensor(data.y_test)
    used, y = ~hidden, torch.as_tensor(data.y_train[sample.rows])

    def line(regime: str, weights: str, model: nn.Module, seconds: float) -> dict[str, Any]:
        with torch.no_grad():
            logits, test = score(model, x[hidden]).double().numpy(), score(model, x_test)
        area = auc(logits[s[hidden]], logits[~s[hidden]])[0]
        accuracy = float(((test > 0) == y_test).float().mean())
        return {
            "task": name, "rows": len(x), "seed": seed, "regime": regime, "weights": weights,
            "pu_auc": round(area, 5), "accuracy": round(100 * accuracy, 2), "seconds": round(seconds, 1),
        }  # fmt: skip

    def score(model: nn.Module, rows: Tensor) -> Tensor:
        return torch.cat([model(part) for part in torch.split(rows, 1000)])

    head = fit_head(embed(encoder, x[used]), s[used], pseudo)
    frozen = _Frozen(encoder, head)
    right = float((pseudo.labels == y[torch.as_tensor(used)]).float()[torch.as_tensor(~s[used])].mean())
    yield {**line("frozen", "-", frozen, 0.0), "labels_right": round(100 * right, 2), "prior": round(pseudo.prior, 3)}
    run = Steps.run
    for regime, train in regimes(view, epochs).items():
        if only and regime not in only:
            continue
        last: list[Any] = []

        def stashing(self: Steps, last: list[Any] = last) -> Any:
            kept = run(self)
            last.append(copy.deepcopy(self.network))
            return kept

        Steps.run = stashing  # type: ignore[method-assign]
        began = time.process_time()
        averaged = train(x[used], s[used], pseudo, encoder, seed)
        seconds = time.process_time() - began
        Steps.run = run  # type: ignore[method-assign]
        yield line(regime, "last", last[0].folded().eval(), seconds)
        yield line(regime, "average", averaged, seconds)


class _Frozen(nn.Module):
    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(embed(self.encoder, x))
        return logits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path, default=Path("moving_labels.jsonl"))
    parser.add_argument("--cache", type=Path, default=Path("encoders"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    given.cache.mkdir(exist_ok=True)
    for seed in given.seeds:
        for result in measured(given.task, given.rows, seed, given.cache, given.only, given.epochs):
            print(json.dumps(result), flush=True)
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")
