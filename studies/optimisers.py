"""LARS of the authors' released code, now that of this package, and the former one: what encoders learn under each.

    python studies/optimisers.py --parts digits                                  # on a CPU, seconds
    python studies/optimisers.py --parts fmnist cifar seeds variants --out results/studies/optimisers-h200.jsonl

The recipe is `paper` of paper/benchmark1.toml (its 100 epochs, where the authors train for 300). Every run is one line:
configuration, kNN and linear probe on the test rows after the last epoch, spread of the embeddings, versions, hardware
and commit. The probes read the true labels, training does not. Runs of a group take their steps in turn on one card.
Runs that have their line already are left out; several processes share a plan through ``--claims``.
"""

import argparse
import hashlib
import json
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from pucl import Dataset, TrainConfig, embed, load, observe
from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.bench.run.provenance import provenance
from pucl.data.observe import PUData
from pucl.errors import RunError
from pucl.training.lars import LARS
from pucl.training.monitor import effective_rank, uniformity
from pucl.training.pretraining import PreparedRun, prepare
from pucl.training.run import train_together
from pucl.training.sgd import SGD
from pucl.views import make_view

GRID = Path(__file__).parents[1] / "paper" / "benchmark1.toml"
# The stored lines call the former LARS of this package "lars"; the authors' is that of the package now.
FORMER, AUTHORS = "lars", "authors"
# The authors' with one of its parts taken away.
HEAVY_BALL, FREE_VECTORS = "authors without Nesterov", "authors, vectors unscaled"


class HeavyBall(LARS):
    """The authors' LARS without Nesterov: w ← w − lr · v."""

    nesterov = False


class FreeVectors(LARS):
    """The authors' LARS with biases and norms neither scaled nor decayed: d = g."""

    def directions(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """The d of every tensor."""
        every = super().directions(weights, gradients, group)
        return [d if w.ndim > 1 else g for w, g, d in zip(weights, gradients, every, strict=True)]


class FormerLARS(SGD):
    """LARS of this package up to commit d582a34: vectors neither scaled nor decayed, plain momentum.

        v ← m v + d,   w ← w − lr · v,   d = λ (g + β w),   λ = η ‖w‖ / (‖g‖ + β ‖w‖)

    For vectors d = g. Where w or g is 0, λ is 1: a weight without gradient is decayed at the full rate.
    """

    def directions(self, weights: list[Tensor], gradients: list[Tensor], group: dict[str, Any]) -> list[Tensor]:
        """The d of every tensor."""
        decay, trust = group["weight_decay"], 1e-3
        size, slope = (torch.stack(torch._foreach_norm(tensors)) for tensors in (weights, gradients))
        ratio = torch.where((size > 0) & (slope > 0), trust * size / (slope + decay * size), 1.0)
        plain = super().directions(weights, gradients, group)
        return [r * d if w.ndim > 1 else d for w, d, r in zip(weights, plain, ratio.unbind(), strict=True)]


KINDS: Mapping[str, type[SGD]] = MappingProxyType(
    {FORMER: FormerLARS, AUTHORS: LARS, HEAVY_BALL: HeavyBall, FREE_VECTORS: FreeVectors}
)


@dataclass(frozen=True)
class Cell:
    """A run: what is trained on what, by which optimiser, and what differs from the recipe.

    Attributes:
        task: data set.
        encoder: network.
        optimiser: `FORMER`, `AUTHORS`, or the latter with a part taken away.
        objective: loss.
        seed: of labels, weights, batches and views.
        output_norm: batch norm on the output of the projection head, as in the released code.
        smallest_crop: smallest area of a crop; None: that of the view.
        rate_factor: multiplies the recipe's learning rate.
        epochs: None: those of the recipe.
    """

    task: str
    encoder: str
    optimiser: str
    objective: str = "pucl"
    seed: int = 0
    output_norm: bool = False
    smallest_crop: float | None = None
    rate_factor: float = 1.0
    epochs: int | None = None


Group = list[Cell]


def both(*tasks: str, encoder: str, seeds: tuple[int, ...] = (0,), **changes: Any) -> Group:
    """The runs of a group under both optimisers."""
    return [
        Cell(task, encoder, name, seed=seed, **changes) for task, seed, name in product(tasks, seeds, (FORMER, AUTHORS))
    ]


def plan() -> dict[str, list[Group]]:
    """All groups of runs by the name of their part, the most wanted first."""
    cnn7 = Cell("cifar1", "cnn7", AUTHORS)
    small_crops = replace(cnn7, smallest_crop=0.08)
    return {
        "digits": [both("digits", encoder="small_cnn"), both("digits", encoder="cnn7", objective="scl_pu")],
        "fmnist": [
            [*both("fmnist1", "fmnist2", encoder="lenet5"), *both("fmnist2", encoder="lenet5", objective="scl_pu")],
            both("fmnist2", encoder="cnn7bn"),
        ],
        "cifar": [
            both("cifar1", "cifar2", encoder="cnn7"),
            both("cifar3", encoder="resnet18"),
            both("cifar3", encoder="cnn13"),
            both("cifar1", encoder="cnn7bn"),
            both("cifar2", encoder="cnn7", objective="scl_pu"),
        ],
        "seeds": [both(task, encoder="cnn7", seeds=(1, 2)) for task in ("cifar1", "cifar2")],
        "lenet": [
            both("fmnist1", "fmnist2", encoder="lenet5", seeds=(1, 2)),
            [
                *both("fmnist2", encoder="lenet5", seeds=(1, 2), objective="scl_pu"),
                *both("fmnist1", "fmnist2", encoder="lenet5", output_norm=True),
            ],
        ],
        "variants": [
            [*both("cifar1", encoder="cnn7", output_norm=True), small_crops],
            [replace(cnn7, optimiser=HEAVY_BALL), replace(cnn7, optimiser=FREE_VECTORS)],
            [replace(small_crops, output_norm=True), replace(cnn7, rate_factor=2.0)],
            [replace(cnn7, rate_factor=4.0)],
        ],
        "collapse": [
            both("fmnist2", encoder="lenet5", objective="scl_pu", output_norm=True),
            [replace(cnn7, task="cifar2", objective="scl_pu", output_norm=True)],
        ],
        "more": [both("fmnist1", encoder="cnn7bn"), both("cifar2", encoder="cnn7bn")],
    }


def recipe_of(task: str) -> dict[str, Any]:
    """The recipe `paper` for a task; digits are too few and too small for it and have their own."""
    if task == "digits":
        return {"epochs": 2, "batch_size": 256, "learning_rate": 1.2, "temperature": 0.5, "view": "small_image"}
    recipe = dict(tomllib.loads(GRID.read_text(encoding="utf-8"))["recipe"]["paper"])
    special = recipe.pop("task")
    return {**recipe, **special.get(task, {})}


@lru_cache(maxsize=8)
def data_of(task: str, seed: int, rows: int | None) -> tuple[Dataset, PUData]:
    """The task and what is seen of it: 1,000 labelled positives, fewer where `rows` or the digits leave few."""
    data = load(task, seed=seed)
    if rows is not None:
        few = {name: getattr(data, name)[:rows] for name in ("x_train", "y_train", "x_test", "y_test")}
        data = replace(data, **few)
    return data, observe(data, min(1000, len(data.y_train) // 10), seed=seed)


def start(cell: Cell, options: argparse.Namespace) -> PreparedRun:
    """The run of a cell, ready to take steps: the library's own, with the optimiser and head of the cell."""
    recipe, (_, seen) = recipe_of(cell.task), data_of(cell.task, cell.seed, options.rows)
    config = TrainConfig(
        epochs=options.epochs or cell.epochs or recipe["epochs"],
        batch_size=min(recipe["batch_size"], len(seen.s) // 2),
        learning_rate=recipe["learning_rate"] * cell.rate_factor,
        seed=cell.seed,
        output_norm=cell.output_norm,
    )
    crop: dict[str, Any] = {} if cell.smallest_crop is None else {"scale": (cell.smallest_crop, 1.0)}
    work = prepare(
        seen.x,
        seen.s,
        objective=cell.objective,
        encoder=cell.encoder,
        view=make_view(recipe["view"], **crop),
        temperature=recipe["temperature"],
        config=config,
        device=options.device,
    )
    run = work.run
    run.optimiser = KINDS[cell.optimiser](
        [weight for weight in run.network.parameters() if weight.requires_grad],
        lr=run.rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    return work


def judge(cell: Cell, work: PreparedRun, options: argparse.Namespace) -> dict[str, Any]:
    """Both probes, and how far the embeddings of the test rows are spread.

    `spread` is 1 − ‖mean z‖² over embeddings z of length 1: 0 when all are the same. Rank and uniformity are those of
    `pucl.training.monitor`.
    """
    data, _ = data_of(cell.task, cell.seed, options.rows)
    trained = work.result()
    z, z_test = (embed(trained.encoder, x).to(options.device) for x in (data.x_train, data.x_test))
    k = min(200, len(z))
    parameters = [parameter.detach().square().sum() for parameter in trained.encoder.parameters()]
    return {
        "knn": round(100 * knn_accuracy(z, data.y_train, z_test, data.y_test, k=k, temperature=0.1), 3),
        "linear_probe": round(100 * linear_probe_accuracy(z, data.y_train, z_test, data.y_test), 3),
        "spread": round(1 - float(z_test.mean(dim=0).square().sum()), 5),
        "rank": round(float(effective_rank(z_test.cpu())), 2),
        "uniformity": round(float(uniformity(z_test.cpu())), 4),
        "weight_norm": round(float(torch.stack(parameters).sum().sqrt()), 4),
        "loss": trained.history[-1].loss,
        "warnings": trained.warnings,
    }


def trained(group: Group, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The lines of a group; where one run diverges, each is trained alone and the line says so."""
    works = [start(cell, options) for cell in group]
    began = time.perf_counter()
    try:
        train_together([work.run for work in works])
    except RunError as error:
        if len(group) == 1:
            yield {"config": asdict(group[0]), "error": str(error)}
        else:
            for cell in group:
                yield from trained([cell], options)
        return
    seconds = round(time.perf_counter() - began, 1)
    for cell, work in zip(group, works, strict=True):
        train = {**recipe_of(cell.task), **asdict(work.run.config), "optimiser": cell.optimiser}
        labelled = int(work.run.labelled.sum())
        about = {"n_labelled": labelled, "rows": options.rows, "seconds": seconds, "jobs": len(group), "train": train}
        yield {"config": asdict(cell), "metrics": judge(cell, work, options), **about}


def mine(group: Group, options: argparse.Namespace) -> Group:
    """The runs of a group that have no line yet and that no other process has claimed."""
    lines = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    done = [json.loads(line)["config"] for line in lines]
    left = [cell for cell in group if asdict(cell) not in done]
    return [cell for cell in left if options.claims is None or claim(options.claims, cell)]


def claim(folder: Path, cell: Cell) -> bool:
    """Whether this process is the first to ask for a run."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / hashlib.sha256(repr(cell).encode()).hexdigest()[:16]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=list(plan()), required=True)
    parser.add_argument("--groups", nargs="+", type=int, help="numbers of the groups of each part; all when not given")
    parser.add_argument("--epochs", type=int, help="instead of the recipe's")
    parser.add_argument("--rows", type=int, help="of the training and of the test rows, to try things out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--claims", type=Path, help="folder in which processes that share a plan say what they took")
    parser.add_argument("--commit", help="what to write down where there is no git")
    parser.add_argument("--out", type=Path, default=Path("optimisers.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    where = vars(provenance(options.device, options.commit))
    for part in options.parts:
        groups = plan()[part]
        for number in options.groups or range(len(groups)):
            group = mine(groups[number], options)
            try:
                for line in trained(group, options) if group else ():
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps({**line, **where}) + "\n")
                    print(json.dumps({**line["config"], **line.get("metrics", {})}), flush=True)
            except Exception:  # the other groups go on
                traceback.print_exc()


if __name__ == "__main__":
    main()
