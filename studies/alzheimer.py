"""Does the published split of the MRI slices leak, and what is left when people are kept apart?

    python studies/alzheimer.py look
    python studies/alzheimer.py methods --seeds 3 --out results/studies/alzheimer.jsonl
    python studies/alzheimer.py methods --seeds 1 --method pucl --out results/studies/alzheimer.jsonl

`look` compares slices in pixels: 32 × 32, each with mean 0 and length 1, by their cosine. It prints how often the
nearest slice is one of the same person, how near the nearest slices of other people are, and how accurate the label
of the nearest training slice is (1-NN with every true label), on the published split and on those of five seeds that
keep people apart. `methods` fits `neighbours`, or `PUClassifier` with its defaults, to 1,000 labelled slices and the
rest of the training rows (case-control) of both tasks; each fit is one line of ``--out``.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pucl.bench.run.provenance import provenance
from pucl.data import Dataset, load
from pucl.data.alzheimer import NAMES, people_of
from pucl.data.observe import PUData, observe
from pucl.data.readers.image_folder import list_images
from pucl.data.sources import get_source
from pucl.metrics import evaluate
from pucl.numerics.nearest import nearest

SIDE = 32
TASKS = ("alzheimer", "alzheimer_grouped")


def pixels(x: Any) -> Tensor:
    """Rows of pixels with mean 0 and length 1, so that products are cosines."""
    flat = torch.from_numpy(x).flatten(1).float()
    return torch.nn.functional.normalize(flat - flat.mean(dim=1, keepdim=True))


def people() -> tuple[Tensor, Tensor]:
    """The person on every row of the published split, with numbers that no two classes share."""
    path, parts = get_source("alzheimer-mri").path, ([], [])  # type: tuple[Any, tuple[list[Any], list[Any]]]
    for number, name in enumerate(NAMES):
        for part, found in zip(
            parts, people_of(*(list_images(path(p) / name) for p in ("train", "test"))), strict=True
        ):
            part.append(found + 1000 * number)
    train, test = (torch.from_numpy(np.concatenate(part)) for part in parts)
    return train, test


def look() -> None:
    """Print how near slices are to those of the same person and of other people."""
    data, (who, who_test) = load("alzheimer", size=SIDE), people()
    z, z_test = pixels(data.x_train), pixels(data.x_test)
    print(f"people: {len(torch.unique(who))}, of the test rows {len(torch.unique(who_test))}, "
          f"of these in training {torch.isin(torch.unique(who_test), who).sum().item()}")  # fmt: skip
    for name, rows, own, skip in (("training", z, who, True), ("test", z_test, who_test, False)):
        products = rows @ z.T
        if skip:
            products.fill_diagonal_(-1)
        same = own[:, None] == who[None, :]
        of_same, of_others = (products.masked_fill(mask, -1).amax(dim=1) for mask in (~same, same))
        print(f"{name} rows: the nearest training row is of the same person for {share(of_same > of_others)}")
        print(f"  cosine of the nearest of the same person {quartiles(of_same)}, of others {quartiles(of_others)}")
    y = torch.from_numpy(data.y_train)
    same_class = (z @ z.T)[y][:, y].flatten()[::31]
    print(f"cosine of two demented training slices {quartiles(same_class)}")
    cosine, index = (part[:, 0] for part in nearest(z_test, z, 1))
    right, own = y[index] == torch.from_numpy(data.y_test), who[index] == who_test
    nearer = share(cosine > same_class.quantile(0.99))
    print(f"test rows nearer to a training row than 99 % of those pairs are to each other: {nearer}")
    print(f"1-NN, published split: {share(right)}")
    print(f"  nearest of the same person ({share(own)} of rows): {share(right[own])}, else {share(right[~own])}")
    height = torch.tensor([int(f.stem.split()[0]) for f in test_files()])
    for k in sorted(set(height.tolist())):
        at = height == k
        near = f"cosine {cosine[at].median():.3f}, same person {share(own[at])}"
        print(f"  slice {k}: {at.sum().item()} rows, {near}, 1-NN {share(right[at])}")
    for seed in range(5):
        apart = load("alzheimer_grouped", size=SIDE, seed=seed)
        cosine, index = (part[:, 0] for part in nearest(pixels(apart.x_test), pixels(apart.x_train), 1))
        right = torch.from_numpy(apart.y_train)[index] == torch.from_numpy(apart.y_test)
        majority = max(apart.y_test.mean(), 1 - apart.y_test.mean())
        print(f"1-NN, people apart, seed {seed}: {share(right)} of {len(right)} rows, majority {majority:.1%}")
        print(f"  cosine {quartiles(cosine)}")


def test_files() -> list[Path]:
    """The test files in the order of the test rows."""
    return [file for name in NAMES for file in list_images(get_source("alzheimer-mri").path("test") / name)]


def share(found: Tensor) -> str:
    return f"{found.float().mean():.1%}"


def quartiles(values: Tensor) -> str:
    low, middle, high = np.quantile(values.numpy(), (0.25, 0.5, 0.75))
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def logits_of(method: str, data: Dataset, seen: PUData, seed: int) -> Any:
    """The logits of the test rows."""
    if method == "pucl":
        from pucl import PUClassifier

        model = PUClassifier(random_state=seed, device="cpu").fit(seen.x, seen.s.astype(int))
        return model.decision_function(data.x_test)
    from pucl.baselines import fit_baseline

    scorer = fit_baseline(method, seen.x, seen.s, seed=seed, device="cpu")
    with torch.no_grad():
        return scorer(torch.from_numpy(data.x_test)).flatten().numpy()


def methods(method: str, seeds: int, out: Path) -> None:
    """Fit a method to both tasks and append what it reaches."""
    for seed in range(seeds):
        for task in TASKS:
            data = load(task, seed=seed)
            seen, began = observe(data, 1000, seed=seed), time.perf_counter()
            scores = evaluate(data.y_test, logits_of(method, data, seen, seed))
            line = {
                "task": task, "method": method, "seed": seed, "prior": seen.prior, "n_test": len(data.y_test),
                "accuracy": 100 * scores.accuracy, "auc": 100 * scores.auc,
                "seconds": round(time.perf_counter() - began, 1), **vars(provenance("cpu")),
            }  # fmt: skip
            print(f"{task} {method} seed {seed}: accuracy {line['accuracy']:.2f}, AUC {line['auc']:.2f}", flush=True)
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["look", "methods"])
    parser.add_argument("--method", choices=["neighbours", "pucl"], default="neighbours")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/studies/alzheimer.jsonl"))
    given = parser.parse_args()
    if given.what == "look":
        look()
    else:
        methods(given.method, given.seeds, given.out)


if __name__ == "__main__":
    main()
