"""How often labellers fail: the same task over many seeds, with fewer and fewer labelled positives.

    python studies/no_flip.py --jobs 2
    python studies/no_flip.py --digits --jobs 2 --embeddings /tmp/digits

Half of U is positive. P and U are drawn apart. The settings, all with unit variance and rows used as embeddings:

    figure  one mode per class, 4 apart, the origin half-way: the two separable Gaussians of the paper's fig:puPL_gmm
    spread  three modes per class in 10 dimensions, at distance 4 from the origin in random directions, drawn anew for
            each seed, no two less than 60° apart: what a good encoder makes of classes with several kinds in them; the
            six centres are independent, so a linear score can tell the classes apart, yet no class is one cluster
    circle  three modes per class, taking turns on a circle, neighbours 5 apart: no linear score can tell them apart
    digits  odd against even, rows embedded by an encoder trained with puCL on the same P and U, anew for each seed

Labellers scale rows to length 1. Nothing is lost by that here: modes differ in direction. A flip is an accuracy on U
below one half. Test rows are fresh, judged by a head: kNN, since three modes need no line between them, and `linear`
on digits. The supervised line is the same head on the same rows with their true labels. Every labeller, seed and
number of labels is one line of ``--raw``; what is there is not computed again. ``--out`` gets one line per labeller,
number and setting, over all seeds of ``--raw``.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pucl.bench.run.provenance import provenance
from pucl.data import Dataset, load
from pucl.data.observe import PUData, observe
from pucl.encoders.embedding import embed
from pucl.errors import InputError
from pucl.heads import fit_head
from pucl.pseudo_labels import PseudoLabels, pseudo_label
from pucl.ranking import DEFAULT_RANKER
from pucl.training import TrainConfig, pretrain

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"pupl5": ("pupl", {"n_init": 5, "guard": True})}
SUPERVISED = "supervised"
MIXTURES: dict[str, dict[str, Any]] = {
    "figure": {"modes": 1, "separation": 4.0},
    "spread": {"modes": 3, "radius": 4.0, "dim": 10},
    "circle": {"modes": 3, "separation": 5.0},
}
N_UNLABELLED, N_TEST = 2000, 2000
SHARES = (4, 10, 20, 50)  # 1/γ
EPOCHS = 60
DIGITS_LABELLED = (250, 100, 50, 20)  # γ from 1/3 to 1/61: there are 632 odd digits to label and to leave
Line = dict[str, Any]
Task = tuple[str, int, int, list[str], Path | None, str]


def spread(*, seed: int, n_train: int, n_test: int, dim: int, modes: int, radius: float) -> Dataset:
    """Modes in random directions, even ones positive, no two less than 60° apart."""
    rng = np.random.default_rng(seed)
    closest = 1.0
    while closest > 0.5:
        centres = rng.standard_normal((2 * modes, dim))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        closest = float((centres @ centres.T - 2 * np.eye(2 * modes)).max())

    def draw(n: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        y = rng.permutation(np.arange(n) < n // 2)
        mode = 2 * rng.integers(modes, size=n) + ~y
        return (radius * centres[mode] + rng.standard_normal((n, dim))).astype(np.float32), y

    return Dataset("spread", "vector", "even modes", "odd modes", *draw(n_train), *draw(n_test))


def mixture(setting: str, n_labelled: int, seed: int) -> tuple[Dataset, PUData]:
    n_train = N_UNLABELLED + 2 * N_UNLABELLED // min(SHARES)  # enough positives for P and for U; the same for every γ
    options = {"seed": seed, "n_train": n_train, "n_test": N_TEST, **MIXTURES[setting]}
    data = spread(**options) if setting == "spread" else load("gaussians", **options)
    return data, observe(data, n_labelled, seed=seed, n_unlabelled=N_UNLABELLED, prior=0.5)


def digits(n_labelled: int, seed: int, folder: Path | None, device: str) -> tuple[Dataset, PUData, Tensor, Tensor]:
    """Digits and their embeddings, from `folder` if they are there; in float16, kept or not."""
    data = load("digits", seed=seed)
    seen = observe(data, n_labelled, seed=seed)
    path = folder / f"digits-{n_labelled}-{seed}.npz" if folder else None
    if path is not None and path.exists():
        with np.load(path) as arrays:
            return data, seen, torch.from_numpy(arrays["z"]), torch.from_numpy(arrays["z_test"])
    config = TrainConfig(epochs=EPOCHS, batch_size=256, learning_rate=4.0, seed=seed)
    trained = pretrain(
        seen.x, seen.s, objective="pucl", encoder="small_cnn", view="small_image", config=config, device=device
    )
    z, z_test = (embed(trained.encoder, torch.as_tensor(x)).half().cpu() for x in (seen.x, data.x_test))
    if path is not None:
        whole = path.with_suffix(".part.npz")  # a run that is stopped leaves no half file
        np.savez(whole, z=z.numpy(), z_test=z_test.numpy())
        whole.replace(path)
    return data, seen, z, z_test


def run(task: Task) -> list[Line]:
    """The lines of some labellers on one draw of the data."""
    setting, n_labelled, seed, names, folder, device = task
    began = time.perf_counter()
    if setting == "digits":
        data, seen, z, z_test = digits(n_labelled, seed, folder, device)
    else:
        data, seen = mixture(setting, n_labelled, seed)
        z, z_test = torch.from_numpy(seen.x), torch.from_numpy(data.x_test)
    z, z_test = (F.normalize(rows.float(), dim=1) for rows in (z, z_test))
    y, y_test = torch.from_numpy(data.y_train[seen.sample.rows]), torch.from_numpy(data.y_test)
    made = time.perf_counter() - began
    config = {"setting": setting, "n_labelled": n_labelled, "seed": seed}
    about = {"n_unlabelled": int((~seen.s).sum()), "seconds_data": round(made, 3)}
    head = "linear" if setting == "digits" else "knn"
    return [
        {"config": config | {"labeller": name}, "metrics": judge(name, z, seen, y, z_test, y_test, head, seed), **about}
        for name in names
    ]


def judge(
    name: str, z: Tensor, seen: PUData, y: Tensor, z_test: Tensor, y_test: Tensor, head: str, seed: int
) -> dict[str, Any]:
    """Accuracy on U and, through a head, on test rows; or why there is none."""
    began = time.perf_counter()
    try:
        if name == SUPERVISED:
            said = PseudoLabels(y, y.float(), torch.ones(len(y)), float(y[torch.from_numpy(~seen.s)].float().mean()))
        else:
            method, options = VARIANTS.get(name, (name, {}))
            said = pseudo_label(z, seen.s, method=method, seed=seed, **options)
        seconds = time.perf_counter() - began
        with torch.no_grad():
            predicted = fit_head(z, seen.s, said, method=head)(z_test) > 0
    except InputError as error:
        return {"error": str(error)}
    unlabelled = torch.from_numpy(~seen.s)
    return {
        "on_u": round(100 * float((said.labels == y)[unlabelled].float().mean()), 3),
        "test": round(100 * float((predicted == y_test).float().mean()), 3),
        "prior": round(said.prior, 4),
        "seconds": round(seconds, 4),
    }


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def missing(options: argparse.Namespace, names: list[str]) -> list[Task]:
    """What is still to do, all settings of a seed together, so that a stopped run has whole seeds."""
    known = {json.dumps(line["config"], sort_keys=True) for line in read(options.raw)}
    mixtures = [(setting, N_UNLABELLED // share) for setting in MIXTURES for share in SHARES]
    cells = [("digits", n) for n in options.labelled] if options.digits else mixtures
    cells = [(setting, n) for setting, n in cells if setting in (options.settings or (setting,))]
    tasks = []
    for seed, (setting, n) in product(range(options.first, options.first + options.seeds), cells):
        config = {"setting": setting, "n_labelled": n, "seed": seed}
        left = [name for name in names if json.dumps(config | {"labeller": name}, sort_keys=True) not in known]
        if left:
            tasks.append((setting, n, seed, left, options.embeddings, options.device))
    return tasks


def one_thread() -> None:
    torch.set_num_threads(1)


def work(tasks: list[Any], jobs: int) -> Iterable[list[Line]]:
    """Lines as they come, from processes with one thread each."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=one_thread) as pool:
        yield from pool.imap_unordered(run, tasks)


def summary(lines: list[Line]) -> list[Line]:
    """One line per setting, number of labels and labeller, over all seeds."""
    cells: dict[tuple[str, int], dict[str, list[Line]]] = {}
    for line in lines:
        config = line["config"]
        by_name = cells.setdefault((config["setting"], config["n_labelled"]), {})
        by_name.setdefault(config["labeller"], []).append(line)
    rows = []
    for (setting, n), by_name in cells.items():
        truth = {line["config"]["seed"]: line["metrics"]["test"] for line in by_name[SUPERVISED]}
        for name, group in sorted(by_name.items()):
            if name != SUPERVISED:
                n_u = round(float(np.mean([line["n_unlabelled"] for line in group])))
                config = {"setting": setting, "n_labelled": n, "n_unlabelled": n_u, "labeller": name}
                data = MIXTURES.get(setting, {"epochs": EPOCHS})
                rows.append({"config": config, "metrics": figures(group, truth), "data": data})
    return rows


def figures(group: list[Line], truth: dict[int, float]) -> dict[str, Any]:
    well = [line for line in group if "error" not in line["metrics"]]
    if not well:
        return {"seeds": len(group), "errors": len(group)}
    on_u, test, seconds = (np.array([line["metrics"][key] for line in well]) for key in ("on_u", "test", "seconds"))
    seeds = [line["config"]["seed"] for line in well]
    supervised = np.array([truth.get(seed, np.nan) for seed in seeds])
    values = {
        "on_u": on_u.mean(),
        "worst_on_u": on_u.min(),
        "test": test.mean(),
        "worst_test": test.min(),
        "supervised": supervised.mean(),
        "difference": (test - supervised).mean(),
        "seconds": seconds.mean(),
    }
    counts = {"seeds": len(group), "errors": len(group) - len(well), "flips": int((on_u < 50).sum())}
    rounded = {key: round(float(value), 3) for key, value in values.items()}
    return {**counts, **rounded, "worst_seed": seeds[int(on_u.argmin())]}


def write(path: Path, lines: list[Line], where: dict[str, Any]) -> None:
    """Put the lines into the file, in the place of those with the same configuration."""
    new = {json.dumps(line["config"]): {**line, **where} for line in lines}
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {json.dumps(line["config"]): line for line in read(path)} | new
    path.write_text("".join(json.dumps(line) + "\n" for line in whole.values()), encoding="utf-8")


def show(lines: list[Line]) -> None:
    header = (
        "setting  1/γ  labeller     seeds  errors  flips  on U   worst (seed)   test   worst  supervised  difference"
    )
    print(f"\n{header}  seconds")
    for line in sorted(lines, key=lambda line: (line["config"]["setting"], -line["config"]["n_labelled"])):
        c, m = line["config"], line["metrics"]
        start = f"{c['setting']:8} {c['n_unlabelled'] / c['n_labelled']:3.0f}  {c['labeller']:12} {m['seeds']:5}"
        if "on_u" not in m:
            print(f"{start}  {m['errors']:6}")
            continue
        on_u = f"{m['flips']:6} {m['on_u']:6.2f} {m['worst_on_u']:7.2f} ({m['worst_seed']:>4})"
        test = f"{m['test']:7.2f} {m['worst_test']:6.2f} {m['supervised']:11.2f} {m['difference']:+11.2f}"
        print(f"{start}  {m['errors']:6} {on_u} {test} {m['seconds']:8.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labellers", nargs="+", default=["auto", "cvir", "prototypes", "pupl", "pupl5"])
    parser.add_argument("--digits", action="store_true", help="digits and not the mixtures")
    parser.add_argument("--labelled", nargs="+", type=int, default=DIGITS_LABELLED, help="numbers of labelled digits")
    parser.add_argument("--device", default="cpu", help="where encoders of digits are trained")
    parser.add_argument("--commit", default=None, help="what to write down where there is no git")
    parser.add_argument("--settings", nargs="+", choices=list(MIXTURES), help="some of the mixtures only")
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of one thread each")
    parser.add_argument("--embeddings", type=Path, help="folder that keeps those of digits, 1.8 MB each")
    parser.add_argument("--raw", type=Path, default=Path("results/no-flip-seeds.jsonl"))
    parser.add_argument("--out", type=Path, default=Path("results/studies/no-flip.jsonl"))
    options = parser.parse_args()
    names = [SUPERVISED, *dict.fromkeys(DEFAULT_RANKER if name == "auto" else name for name in options.labellers)]
    for folder in (options.raw.parent, *([options.embeddings] if options.embeddings else [])):
        folder.mkdir(parents=True, exist_ok=True)
    where = vars(provenance(options.device, options.commit))
    where["hardware"] = f"{where['hardware']}, {options.jobs} processes of 1 thread"
    tasks, began = missing(options, names), time.perf_counter()
    for number, lines in enumerate(work(tasks, options.jobs) if tasks else (), 1):
        with options.raw.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({**line, "commit": where["commit"]}) + "\n" for line in lines)
        if number % max(1, len(tasks) // 20) == 0:
            seconds = time.perf_counter() - began
            print(f"{number} of {len(tasks)}, {seconds:.0f} s, {seconds / number:.2f} s each", flush=True)
    settings = {"digits"} if options.digits else set(options.settings or MIXTURES)
    there = [line for line in read(options.raw) if line["config"]["setting"] in settings]
    rows = summary([line for line in there if line["config"]["labeller"] in names])
    write(options.out, rows, where)
    show(rows)


if __name__ == "__main__":
    main()
