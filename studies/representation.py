"""How good representations are: kNN and linear probes on the true labels of embeddings trained without them.

    python studies/representation.py --tasks cifar3 --encoder resnet18 --epochs 200 --logs results/logs

Every run is one line: configuration, seed, accuracies on the test rows, time, versions, hardware and commit. Runs that
have their line already are left out, so a longer list only fills the holes. Probes read the truth; training does not.
``--jobs`` runs take their steps in turn on one card. ``--embeddings`` keeps what the probes were given, as float16;
``--encoders`` keeps the encoders. ``--view-options`` is JSON, such as ``{"scale": [0.6, 1.0]}``.
"""

import argparse
import json
import time
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pucl.bench.run.probes import knn_accuracy, linear_probe_accuracy
from pucl.bench.run.provenance import provenance
from pucl.data import Dataset, load
from pucl.data.observe import PUData, observe
from pucl.encoders.embedding import embed
from pucl.encoders.saved import save_encoder
from pucl.training import TrainConfig
from pucl.training.pretraining import PreparedRun, prepare
from pucl.training.reporting import Watch
from pucl.training.run import train_together
from pucl.views import make_view


def wanted(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The configurations of all runs whose line is not there yet."""
    grid = product(options.tasks, options.objectives, options.labelled, options.seeds)
    fixed = {"encoder": options.encoder, "epochs": options.epochs, "batch_size": options.batch_size}
    fixed |= {"learning_rate": options.learning_rate, "temperature": options.temperature, "view": options.view}
    if options.view_options:
        fixed["view_options"] = options.view_options
    cells = [
        {"task": task, "objective": objective, "n_labelled": n, "seed": seed, **fixed}
        for task, objective, n, seed in grid
    ]
    done = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    known = [json.loads(line)["config"] for line in done]
    return [cell for cell in cells if cell not in known]


def name_of(cell: dict[str, Any]) -> str:
    words = [cell[key] for key in ("task", "objective", "encoder", "n_labelled", "seed", "epochs")]
    return "-".join(str(word) for word in (*words, *(["view"] if "view_options" in cell else [])))


def view_options(cell: dict[str, Any]) -> dict[str, Any]:
    given = cell.get("view_options", {})
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def start(cell: dict[str, Any], seen: PUData, options: argparse.Namespace) -> PreparedRun:
    config = TrainConfig(
        epochs=cell["epochs"],
        batch_size=cell["batch_size"],
        learning_rate=cell["learning_rate"],
        seed=cell["seed"],
        compile=options.compile,
    )
    prior = seen.prior if cell["objective"] in ("punce", "dcl") else None  # the oracle's, said so in the line
    log = options.logs / f"{name_of(cell)}.jsonl" if options.logs else None
    return prepare(
        seen.x, seen.s, objective=cell["objective"], encoder=cell["encoder"],
        view=make_view(cell["view"], **view_options(cell)),
        temperature=cell["temperature"], prior=prior, config=config, device=options.device,
        watch=Watch(log=log, progress=options.jobs == 1),
    )  # fmt: skip


def judge(
    cell: dict[str, Any], work: PreparedRun, data: Dataset, seen: PUData, options: argparse.Namespace
) -> dict[str, Any]:
    """Both probes, on the training rows with their true labels."""
    encoder = work.result().encoder
    z, z_test = (embed(encoder, torch.as_tensor(x)) for x in (data.x_train, data.x_test))
    there = torch.device(options.device)
    truth = (torch.as_tensor(data.y_train, device=there), torch.as_tensor(data.y_test, device=there))
    rows = (z.to(there), truth[0], z_test.to(there), truth[1])
    if options.embeddings:
        keep(options, cell, z, z_test, data, seen)
    if options.encoders:
        shape = data.x_train.shape[1:]
        save_encoder(
            options.encoders / name_of(cell), encoder, name=cell["encoder"], input_shape=shape, options={}, extra=cell
        )
    return {
        "knn": round(100 * knn_accuracy(*rows, k=200, temperature=0.1), 3),
        "linear_probe": round(100 * linear_probe_accuracy(*rows), 3),
        "loss": work.run.history[-1].loss,
    }


def keep(
    options: argparse.Namespace,
    cell: dict[str, Any],
    z: torch.Tensor,
    z_test: torch.Tensor,
    data: Dataset,
    seen: PUData,
) -> None:
    """Embeddings of the sample, P first, and of the test rows; of U at most the given number of rows."""
    options.embeddings.mkdir(parents=True, exist_ok=True)
    s, rows = seen.sample.s, seen.sample.rows
    shuffled = np.random.default_rng(cell["seed"]).permutation(np.flatnonzero(~s))
    used = np.concatenate([np.flatnonzero(s), shuffled[: options.embedding_rows]])
    arrays = {"z": z[rows[used]], "z_test": z_test}
    half: dict[str, Any] = {name: value.to(torch.float16).numpy() for name, value in arrays.items()}
    truth = {"y": data.y_train[rows[used]], "y_test": data.y_test}
    np.savez(options.embeddings / f"{name_of(cell)}.npz", **half, s=s[used], **truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", required=True)
    parser.add_argument("--objectives", nargs="+", default=["pucl"])
    parser.add_argument("--labelled", nargs="+", type=int, default=[1000])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--view", default="simclr")
    parser.add_argument("--epochs", type=int, default=TrainConfig.epochs)
    parser.add_argument("--batch-size", type=int, default=TrainConfig.batch_size)
    parser.add_argument("--learning-rate", type=float, default=TrainConfig.learning_rate)
    parser.add_argument("--temperature", type=float, default=0.5)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--embedding-rows", type=int, default=None, help="of U; all of them when not given")
    parser.add_argument("--encoders", type=Path)
    parser.add_argument("--view-options", type=json.loads, default={})
    parser.add_argument("--commit", default=None, help="what to write down where there is no git")
    parser.add_argument("--out", type=Path, default=Path("results/representation.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.logs:
        options.logs.mkdir(parents=True, exist_ok=True)
    cells = wanted(options)
    where = vars(provenance(options.device, options.commit))
    for first in range(0, len(cells), options.jobs):
        group = cells[first : first + options.jobs]
        sets = [load(cell["task"], seed=cell["seed"]) for cell in group]
        seen = [observe(data, cell["n_labelled"], seed=cell["seed"]) for data, cell in zip(sets, group, strict=True)]
        works = [start(*parts, options) for parts in zip(group, seen, strict=True)]
        began = time.perf_counter()
        train_together([work.run for work in works])
        seconds = time.perf_counter() - began
        for cell, work, data, sample in zip(group, works, sets, seen, strict=True):
            metrics = judge(cell, work, data, sample, options)
            train = asdict(work.run.config)
            about = {"setting": sample.sample.setting, "prior": sample.prior, "train": train, "jobs": len(group)}
            line = {"config": cell, "metrics": metrics, "seconds": round(seconds, 1), **about, **where}
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(json.dumps({**cell, **metrics, "seconds": round(seconds, 1)}), flush=True)


if __name__ == "__main__":
    main()
