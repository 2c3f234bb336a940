"""Pseudo-labellers, prior estimators and selection without negatives, on embeddings that were kept.

    python studies/representation.py --tasks cifar1 … --embeddings emb
    OMP_NUM_THREADS=1 python studies/labellers.py emb --priors

Of every file a fifth of P and of U is held out. Labellers, heads and estimators get the rest, without π and without the
truth; only accuracies, the ceiling and the reference head `nnpu` with the true π read it. One line per file, labeller
and head, and with ``--priors`` per file and estimator. Lines that are there are not computed again, so long as
``--logits`` still has the logits of the held-out rows, which the choice among labellers needs. KM1 and KM2 draw at most
2,000 rows of each kind themselves.
"""

import argparse
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor

import pucl
from pucl.bench.run.probes import linear_probe_accuracy
from pucl.bench.run.provenance import provenance
from pucl.heads import fit_head
from pucl.pseudo_labels import PseudoLabels, labellers, pseudo_label
from pucl.ranking import DEFAULT_RANKER
from pucl.registry import entries
from pucl.selection import CRITERIA, hold_out, pu_scores, select

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {"pupl5": ("pupl", {"n_init": 5, "guard": True})}
HEADS = ("linear", "knn", "mlp", "nearest_centroid", "nnpu")  # of --heads-of; the others have the first alone
NAME = ("task", "objective", "encoder", "n_labelled", "seed", "epochs")  # of the files, see representation.py
CLOSE = 0.5  # points of accuracy
Line = dict[str, Any]


@dataclass(frozen=True)
class Kept:
    """Embeddings of one file: rows to learn from, rows held out, test rows; P and U of each and their truth."""

    about: dict[str, Any]
    z: Tensor
    s: NDArray[np.bool_]
    y: Tensor
    z_held: Tensor
    s_held: NDArray[np.bool_]
    z_test: Tensor
    y_test: Tensor

    @property
    def prior(self) -> float:
        """The true π of the rows to learn from."""
        return float(self.y[~torch.from_numpy(self.s)].float().mean())


def real(names: Iterable[str]) -> list[str]:
    """Names of labellers, each once, with that of "auto" in its place."""
    return list(dict.fromkeys(DEFAULT_RANKER if name == "auto" else name for name in names))


def open_file(path: Path) -> Kept:
    words = path.stem.split("-")
    if len(words) < len(NAME):
        raise SystemExit(f"{path}: the name must be {'-'.join(NAME)}.npz, as representation.py writes it")
    about: dict[str, Any] = {"file": path.stem, **dict(zip(NAME, words, strict=False))}
    about |= {key: int(about[key]) for key in ("n_labelled", "seed", "epochs")}
    with np.load(path) as arrays:
        z, z_test = (F.normalize(torch.from_numpy(arrays[key]).float(), dim=1) for key in ("z", "z_test"))
        s, y, y_test = (arrays[key].astype(bool) for key in ("s", "y", "y_test"))
    held = hold_out(s, 0.2, seed=about["seed"])
    rest, truth = ~held, torch.from_numpy(y)
    return Kept(about, z[rest], s[rest], truth[rest], z[held], s[held], z_test, torch.from_numpy(y_test))


def label(kept: Kept, name: str) -> tuple[PseudoLabels, float]:
    """What the labeller says without π, and the seconds it took."""
    method, options = VARIANTS.get(name, (name, {}))
    began = time.perf_counter()
    pseudo = pseudo_label(kept.z, kept.s, method=method, seed=kept.about["seed"], **options)
    return pseudo, time.perf_counter() - began


def accuracy(predicted: Tensor, truth: Tensor) -> float:
    return round(100 * float((predicted == truth).float().mean()), 3)


def study(kept: Kept, said: PseudoLabels, head: str) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """Figures of one head on one labeller's word, and its logits on the held-out rows."""
    options = {"prior": kept.prior} if head == "nnpu" else {}
    began = time.perf_counter()
    fitted = fit_head(kept.z, kept.s, said, method=head, **options)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        held, test = fitted(kept.z_held), fitted(kept.z_test)
    unlabelled = torch.from_numpy(~kept.s)
    edge = 1 / (1 + len(kept.s))
    scores = pu_scores(held, kept.s_held, prior=min(max(said.prior, edge), 1 - edge))
    metrics = {
        "label_accuracy": accuracy(said.labels[unlabelled], kept.y[unlabelled]),
        "test_accuracy": accuracy(test > 0, kept.y_test),
        "pu_auc": round(scores.pu_auc.value, 5),
        "proxy_accuracy": round(100 * scores.proxy_accuracy.value, 3),
        "prior": round(said.prior, 4),
        "true_prior": round(kept.prior, 4),
        "seconds_head": round(seconds, 3),
    }
    return metrics, held.numpy().astype(np.float32)


def estimate(kept: Kept, method: str) -> dict[str, float]:
    began = time.perf_counter()
    interval = pucl.estimate_prior(kept.z, kept.s, method=method, seed=kept.about["seed"])
    seconds = time.perf_counter() - began
    figures = {"prior": interval.value, "low": interval.low, "high": interval.high, "true_prior": kept.prior}
    return {name: round(value, 4) for name, value in figures.items()} | {"seconds": round(seconds, 3)}


class Book:
    """The lines, by configuration; the newest of equals."""

    def __init__(self, path: Path, logits: Path) -> None:
        self.path, self.logits = path, logits
        self.lines: dict[str, Line] = {}
        for folder in (path.parent, logits):
            folder.mkdir(parents=True, exist_ok=True)
        for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            line = json.loads(text)
            self.lines[json.dumps(line["config"])] = line
        self.where = vars(provenance())

    def logits_of(self, config: Mapping[str, Any]) -> Path:
        """Where the logits of the held-out rows are."""
        return self.logits / f"{config['file']}-{config['labeller']}-{config['head']}.npy"

    def has(self, config: dict[str, Any]) -> bool:
        """Whether nothing is left to compute."""
        return json.dumps(config) in self.lines and ("head" not in config or self.logits_of(config).exists())

    def write(self, config: dict[str, Any], metrics: dict[str, Any]) -> None:
        """Add a line, to the file at once."""
        line = {"config": config, "metrics": metrics, **self.where}
        self.lines[json.dumps(config)] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps({**config, **metrics}), flush=True)


def run_labellers(kept: Kept, names: list[str], heads_of: list[str], book: Book) -> None:
    ceiling: float | None = None
    for name in names:
        cells = [kept.about | {"labeller": name, "head": head} for head in (HEADS if name in heads_of else HEADS[:1])]
        cells = [cell for cell in cells if not book.has(cell)]
        if not cells:
            continue
        if ceiling is None:
            ceiling = round(100 * linear_probe_accuracy(kept.z, kept.y, kept.z_test, kept.y_test), 3)
        said, seconds = label(kept, name)
        for cell in cells:
            metrics, logits = study(kept, said, cell["head"])
            np.save(book.logits_of(cell), logits)
            book.write(cell, {**metrics, "ceiling": ceiling, "seconds": round(seconds, 3)})


def run_estimators(kept: Kept, names: Iterable[str], book: Book) -> None:
    for name in names:
        cell = kept.about | {"estimator": name}
        if not book.has(cell):
            book.write(cell, estimate(kept, name))


def choices(files: Mapping[str, Kept], names: list[str], book: Book) -> dict[str, list[float]]:
    """Points of test accuracy lost to the best labeller, by what chose among their linear heads, one per file."""
    lost: dict[str, list[float]] = {}
    for kept in files.values():
        cells = {name: kept.about | {"labeller": name, "head": "linear"} for name in names}
        logits = {name: np.load(book.logits_of(cell)) for name, cell in cells.items()}
        truth = {name: book.lines[json.dumps(cell)]["metrics"]["test_accuracy"] for name, cell in cells.items()}
        criteria: dict[str, dict[str, Any]] = {chooser: {"criterion": chooser} for chooser in ("auto", *CRITERIA)}
        criteria["proxy_accuracy, true π"] = {"criterion": "proxy_accuracy", "prior": kept.prior}
        for chooser, options in criteria.items():
            chosen = select(logits, kept.s_held, **options).name
            lost.setdefault(chooser, []).append(max(truth.values()) - truth[chosen])
        for name in names:
            lost.setdefault(f"always {name}", []).append(max(truth.values()) - truth[name])
    return lost


def show(title: str, header: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[at]) for row in (header, *rows)) for at in range(len(header))]
    print(f"\n{title}")
    for row in (header, *rows):
        print("  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]))


def show_labellers(lines: list[Line], files: set[str], names: list[str]) -> None:
    """Table (a): means over files, and ranks within a file of the linear heads."""
    of = {
        (line["config"]["file"], line["config"]["labeller"], line["config"]["head"]): line["metrics"] for line in lines
    }
    linear = [[of[file, name, "linear"] for name in names] for file in sorted(files)]

    def mean_rank(key: str) -> NDArray[np.float64]:
        return np.asarray(np.mean([rankdata([-cell[key] for cell in cells]) for cells in linear], axis=0))

    by_auc, by_truth = mean_rank("pu_auc"), mean_rank("test_accuracy")
    rows = []
    for (name, head), ranks in _heads(of, names, dict(zip(names, zip(by_auc, by_truth, strict=True), strict=True))):
        cells = [of[file, name, head] for file in sorted(files) if (file, name, head) in of]
        keys = ("label_accuracy", "test_accuracy", "ceiling", "pu_auc", "proxy_accuracy", "seconds")
        means = dict(zip(keys, np.mean([[cell[key] for key in keys] for cell in cells], axis=0), strict=True))
        worst = max(cell["ceiling"] - cell["test_accuracy"] for cell in cells)
        points = [f"{means[key]:.2f}" for key in ("label_accuracy", "test_accuracy", "ceiling")]
        signals = [f"{means['pu_auc']:.4f}", f"{means['proxy_accuracy']:.2f}"]
        seconds = f"{means['seconds']:.2f}"
        rows.append([f"{name} + {head}", str(len(cells)), *points, f"{worst:.2f}", *signals, *ranks, seconds])
    header = ["labeller + head", "files", "labels", "test", "ceiling", "worst gap", "PU-AUC", "proxy", "rank PU-AUC"]
    show("(a) accuracy, means over files", [*header, "rank truth", "seconds"], rows)


def _heads(
    of: Mapping[tuple[str, str, str], Any], names: list[str], ranks: Mapping[str, tuple[float, float]]
) -> Iterable[tuple[tuple[str, str], list[str]]]:
    """Labellers with their heads, in order; ranks are those of the linear head."""
    there = {(name, head) for _, name, head in of}
    for name in names:
        for head in (head for head in HEADS if (name, head) in there):
            yield (name, head), [f"{rank:.2f}" for rank in ranks[name]] if head == "linear" else ["", ""]


def show_priors(lines: list[Line]) -> None:
    """Table (b): errors of π̂, of the estimators and of the labellers."""
    by_estimator: dict[str, list[dict[str, float]]] = {}
    for line in lines:
        config = line["config"]
        if config.get("head", "linear") == "linear":
            by_estimator.setdefault(config.get("estimator") or f"labeller {config['labeller']}", []).append(
                line["metrics"]
            )
    rows = []
    for name, cells in by_estimator.items():
        error = np.array([cell["prior"] - cell["true_prior"] for cell in cells])
        inside = [cell["low"] <= cell["true_prior"] <= cell["high"] for cell in cells if "low" in cell]
        cover = f"{np.mean(inside):.0%}" if inside else ""
        sizes = [f"{value:.3f}" for value in (np.abs(error).mean(), np.abs(error).max(), error.mean())]
        seconds = f"{np.mean([cell['seconds'] for cell in cells]):.2f}"
        rows.append([name, str(len(cells)), *sizes, cover, seconds])
    rows.sort(key=lambda row: row[2])
    header = ["estimator", "files", "mean |error|", "worst", "bias", "in 90 % interval", "seconds"]
    show("(b) class prior", header, rows)


def show_choices(lost: Mapping[str, list[float]]) -> None:
    """Table (c): how often the choice is as good as the best."""
    rows = []
    for chooser, points in lost.items():
        share = f"{np.mean(np.array(points) <= CLOSE):.0%}"
        rows.append([chooser, str(len(points)), share, f"{np.mean(points):.2f}", f"{max(points):.2f}"])
    title = f"(c) choice among the labellers' linear heads: share of files within {CLOSE} points of the best"
    show(title, ["chosen by", "files", "share", "points lost", "worst"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path, nargs="+", help="folders or files")
    parser.add_argument("--labellers", nargs="+", help="all that are registered, and pupl5, when not given")
    parser.add_argument("--heads-of", nargs="*", default=["auto"], help="labellers that get every head")
    parser.add_argument("--priors", action="store_true", help="estimators of the class prior too")
    parser.add_argument("--estimators", nargs="+", help="all that are registered when not given")
    parser.add_argument("--logits", type=Path, help="folder; that of --out, with -logits, when not given")
    parser.add_argument("--out", type=Path, default=Path("results/studies/labellers.jsonl"))
    options = parser.parse_args()
    names = real(options.labellers or [*labellers(), *VARIANTS])
    estimators = (options.estimators or list(entries("priors"))) if options.priors else []
    book = Book(options.out, options.logits or options.out.with_name(f"{options.out.stem}-logits"))

    paths = [file for path in options.embeddings for file in (sorted(path.glob("*.npz")) if path.is_dir() else [path])]
    if not paths:
        raise SystemExit("no .npz files there")
    for path in paths:
        kept = open_file(path)
        run_labellers(kept, names, real(options.heads_of), book)
        run_estimators(kept, estimators, book)
    files = {path.stem: open_file(path) for path in paths}
    lines = [line for line in book.lines.values() if line["config"]["file"] in files]
    labelled = [line for line in lines if line["config"].get("labeller") in names]
    show_labellers(labelled, set(files), names)
    show_priors([*labelled, *(line for line in lines if line["config"].get("estimator") in estimators)])
    show_choices(choices(files, names, book))


if __name__ == "__main__":
    main()
