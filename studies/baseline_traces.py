"""Baselines while they are trained: what they may look at (P and U), beside what they may not (the test rows).

``python studies/baseline_traces.py vpu fmnist2 --hidden 0.1 --set steps=10 --set epochs=15``, with ``PUCL_DATA`` set.
A line of JSON after every ``--every`` epochs goes to ``--out``. For diagnosis only: why a number is far from the
published one, and whether any epoch or threshold reaches that. Nothing is chosen by it.
"""

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

from pucl.baselines import fit_baseline, settings_of
from pucl.baselines.shared import learning
from pucl.baselines.shared.training_problem import PUProblem
from pucl.baselines.vpu import half_of_largest, held_out_loss
from pucl.bench.grid.place import Place
from pucl.bench.run.exam import pose
from pucl.data import load
from pucl.device import pick_device
from pucl.encoders.inputs import Standardise
from pucl.numerics.auc import auc
from pucl.risks.upu import upu
from pucl.selection import hold_out

PIECE = 2500
THRESHOLDS = 401  # of which the best is taken


@dataclass(frozen=True)
class Rows:
    """What a trace looks at: the test rows with their truth, hidden rows with their labels s, and π."""

    x_test: Tensor
    y_test: Tensor
    x_hidden: Tensor
    s_hidden: Tensor
    prior: float


@torch.no_grad()
def seen(scorer: Callable[[Tensor], Tensor], problem: PUProblem, rows: Rows) -> dict[str, float]:
    """Numbers of a network: of the rows it learns from, of hidden rows of P and U, and of the test rows.

    Accuracies are in per cent, at the thresholds 0, half of the largest φ (vPU), the one with a share π of U above it
    (PUSB), and the best of all.
    """

    def scores(x: Tensor) -> Tensor:
        return torch.cat([scorer(part.to(problem.device)).float() for part in torch.split(x, PIECE)]).cpu()

    u = problem.unlabelled[torch.randperm(len(problem.unlabelled), generator=problem.drawing("trace"))[:10_000]]
    p, own, test = scores(problem.x[problem.positives]), scores(problem.x[u]), scores(rows.x_test)
    both, labelled = torch.cat([p, own]), torch.arange(len(p) + len(own)) < len(p)
    half = float(half_of_largest(nn.functional.logsigmoid(both)))
    grid = torch.quantile(test, torch.linspace(0, 1, THRESHOLDS))

    def accuracy(threshold: float) -> float:
        return 100 * float(((test > threshold) == rows.y_test).float().mean())

    share = float(torch.quantile(own, 1 - rows.prior))
    found = {
        "accuracy": accuracy(0.0), "accuracy_half": accuracy(half), "accuracy_prior": accuracy(share),
        "accuracy_best": max(map(accuracy, grid.tolist())), "auc": 100 * area(test, rows.y_test),
        "called_positive": float((test > 0).float().mean()), "labelled_positive": float((p > 0).float().mean()),
        **pu_values("training", both, labelled, rows.prior),
    }  # fmt: skip
    if len(rows.x_hidden):
        found |= pu_values("hidden", scores(rows.x_hidden), rows.s_hidden, rows.prior)
    return {name: round(value, 4) for name, value in found.items()}


def pu_values(of: str, logits: Tensor, labelled: Tensor, prior: float) -> dict[str, float]:
    """What P and U tell: uPU's risk, its 0-1 form 2 π FNR_P + FPR_U − π, vPU's loss, and the AUC of P against U."""
    wrong = 2 * prior * (logits[labelled] <= 0).float().mean() + (logits[~labelled] > 0).float().mean() - prior
    return {
        f"{of}_upu": float(upu(logits, labelled, prior=prior)), f"{of}_error": float(wrong),
        f"{of}_variational": float(held_out_loss(logits, labelled)), f"{of}_pu_auc": 100 * area(logits, labelled),
    }  # fmt: skip


def area(logits: Tensor, positive: Tensor) -> float:
    """The AUC of logits."""
    values = logits.double().numpy()
    return auc(values[positive.numpy()], values[~positive.numpy()])[0]


@contextlib.contextmanager
def watching(look: Callable[[PUProblem, nn.Module, str, int], None], every: int) -> Iterator[None]:
    """Have every training of a baseline looked at, at its begin, after every so many epochs and at its end."""
    real = learning.train

    def train(problem: PUProblem, settings: Any, update: Any, *learners: Any, **options: Any) -> None:
        phase, before = options.pop("phase", "train"), options.pop("before_epoch", lambda _: None)
        network = learners[0].network

        def before_epoch(epoch: int) -> None:
            if epoch % every == 0:
                look(problem, network, phase, epoch)
            before(epoch)

        real(problem, settings, update, *learners, phase=phase, before_epoch=before_epoch, **options)
        look(problem, network, phase, settings.epochs)

    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("pucl.baselines") and getattr(module, "train", None) is real:
                stack.enter_context(patch.object(module, "train", train))
        yield


def trace(
    method: str, place: Place, *, changes: dict[str, Any], hidden: float, inputs: str, every: int, device: str | None
) -> Iterator[dict[str, Any]]:
    """The lines of one run, the last with what the scorer has in the end."""
    observed, exam = pose(place)
    test, prior = load(place.task, seed=place.seed), exam.prior("oracle") or 0.0
    out = hold_out(observed.s, hidden, place.seed) if hidden else np.zeros(len(observed.s), dtype=bool)
    rows = Rows(
        torch.as_tensor(test.x_test), torch.as_tensor(test.y_test), torch.as_tensor(observed.x[out]),
        torch.as_tensor(observed.s[out]), prior,
    )  # fmt: skip
    about = {"task": place.task, "method": method, "seed": place.seed, "setting": place.setting, "inputs": inputs}
    about |= {"n_labelled": int(observed.s[~out].sum()), "changes": changes}
    lines, began = list[dict[str, Any]](), time.perf_counter()

    def look(problem: PUProblem, network: nn.Module, phase: str, epoch: int) -> None:
        mode = network.training
        found = seen(network.eval(), problem, rows)
        network.train(mode)
        lines.append({**about, "phase": phase, "epoch": epoch, **found, "s": round(time.perf_counter() - began)})
        print(json.dumps(lines[-1]), flush=True)

    scaling = {"mean": torch.tensor(0.5 / 255), "scale": torch.tensor(0.5 / 255)}  # of vPU's author, by an oversight
    as_author = patch.object(Standardise, "of", lambda _: Standardise(**scaling))
    with watching(look, every), as_author if inputs == "vpu" else contextlib.nullcontext():
        scorer = fit_baseline(
            method, observed.x[~out], observed.s[~out], prior=prior, seed=place.seed, device=device,
            settings=settings_of(method, place.task, **changes),
        )  # fmt: skip
    with torch.no_grad():
        logits = torch.cat([scorer(part.to(pick_device(device))) for part in torch.split(rows.x_test, PIECE)])
    yield from lines
    yield {**about, "phase": "end", **exam.grade(logits)}


def value(text: str) -> tuple[str, Any]:
    """``name=value`` of a setting."""
    name, _, content = text.partition("=")
    found = json.loads(content)
    return name, tuple(found) if isinstance(found, list) else found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("task")
    parser.add_argument("--labelled", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--setting", default="case-control")
    parser.add_argument("--set", type=value, action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--hidden", type=float, default=0.0, help="share of P and U that the method never sees")
    parser.add_argument("--inputs", choices=["standardised", "vpu"], default="standardised")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=Path("baseline_traces.jsonl"))
    given = parser.parse_args()
    for seed in given.seeds:
        place = Place(given.task, given.setting, given.labelled, seed)
        for line in trace(
            given.method, place, changes=dict(given.set), hidden=given.hidden, inputs=given.inputs, every=given.every,
            device=given.device,
        ):  # fmt: skip
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
