"""Texts: package descriptions of Debian, positives by section, against TF-IDF with logistic regression.

The corpus is made here, from what ``apt-get update`` fetches for the English descriptions of Debian's main archive:
about 61,000 different texts of 63 words on average, each with the section of its package. Nothing is installed; the
lists go to the folder given. A task is 9,000 texts, a third of them held out, 1,000 of one section, of whose training
texts 30 % are labelled.

    python studies/texts.py FOLDER games net --seeds 0 1 2 --encoders hashed
"""

import argparse
import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

import pucl
from pucl.bench.run.tfidf import fit_tfidf

N, N_POSITIVE, LABELLED = 9000, 1000, 0.3
Corpus = list[tuple[str, str]]  # section and text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sections", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--encoders", nargs="+", default=["hashed"])
    parser.add_argument("--tune", nargs="+", choices=["frozen", "head", "auto"], default=["frozen"])
    parser.add_argument("--rows", type=int, default=N)
    parser.add_argument("--positives", type=int, default=N_POSITIVE)
    options = parser.parse_args()
    corpus = debian_descriptions(options.folder)
    for section in options.sections:
        for seed in options.seeds:
            task = draw(corpus, section, seed, options.rows, options.positives)
            fits = [(encoder, tune) for encoder in options.encoders for tune in options.tune]
            for line in [*peers(task), *(ours(task, *each, seed) for each in fits)]:
                print(json.dumps({"section": section, "seed": seed, "rows": options.rows, **line}), flush=True)


class Task:
    """Texts, their truth and the labels, split into training and test rows."""

    def __init__(self, texts: list[str], y: NDArray[np.bool_], rng: np.random.Generator) -> None:
        train = np.arange(len(texts)) < len(texts) * 2 // 3
        self.x = [text for text, here in zip(texts, train, strict=True) if here]
        self.x_test = [text for text, here in zip(texts, train, strict=True) if not here]
        self.y, self.y_test = y[train], y[~train]
        self.s = self.y & (rng.random(len(self.y)) < LABELLED)


def draw(corpus: Corpus, section: str, seed: int, n: int, n_positive: int) -> Task:
    rng = np.random.default_rng(seed)
    y = np.array([name == section for name, _ in corpus])
    chosen = [rng.permutation(np.flatnonzero(y))[:n_positive], rng.permutation(np.flatnonzero(~y))[: n - n_positive]]
    index = rng.permutation(np.concatenate(chosen))
    return Task([corpus[i][1] for i in index], y[index], rng)


def peers(task: Task) -> Iterator[dict[str, Any]]:
    """TF-IDF and logistic regression: of P against U, with π known for the threshold, and with every true label."""
    for name, labels in (("tf-idf + logistic regression, P against U", task.s), ("the same, every label", task.y)):
        began = time.process_time()
        scorer = fit_tfidf(task.x, labels)
        score = scorer(task.x_test).numpy()
        cut = np.quantile(scorer(task.x).numpy()[~task.s], 1 - task.y[~task.s].mean()) if labels is task.s else 0
        yield {"method": name, **figures(task, score, cut), "cpu_s": round(time.process_time() - began, 1)}


def ours(task: Task, encoder: str, tune: str, seed: int) -> dict[str, Any]:
    began = time.process_time()
    model = pucl.PUClassifier(text_encoder=encoder, tune=tune, random_state=seed).fit(task.x, task.s)
    seconds = round(time.process_time() - began, 1)
    share = {"labelled": int(task.s.sum()), "prior": model.prior_, "true_prior": float(task.y[~task.s].mean())}
    score = model.decision_function(task.x_test)
    cut = np.quantile(model.decision_function(task.x)[~task.s], 1 - share["true_prior"])
    known = figures(task, score, cut)
    return {"method": f"pucl, {encoder}, {tune}", **figures(task, score, 0.0), "cpu_s": seconds, **share,
            "accuracy_with_true_prior": known["accuracy"], "f1_with_true_prior": known["f1"]}  # fmt: skip


def figures(task: Task, score: NDArray[np.float64], cut: float) -> dict[str, float]:
    found = score > cut
    figures = {"auc": roc_auc_score(task.y_test, score), "accuracy": accuracy_score(task.y_test, found)}
    return {name: round(float(value), 4) for name, value in {**figures, "f1": f1_score(task.y_test, found)}.items()}


def debian_descriptions(folder: Path) -> Corpus:
    """Section and English description of every package of main, each description once, in the order of the archive."""
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    where = (
        "-o",
        "Acquire::Languages=en",
        "-o",
        f"Dir::State::lists={lists.resolve()}",
        "-o",
        f"Dir::Cache={folder.resolve()}",
    )
    if not list(lists.glob("*_main_i18n_Translation-en*")):
        subprocess.run(["/usr/bin/apt-get", *where, "update"], check=True, capture_output=True)
    named = [path for path in sorted(lists.iterdir()) if "security" not in path.name and "updates" not in path.name]
    texts = {each["Description-md5"]: each["Description-en"] for each in _stanzas(named, "_main_i18n_Translation-en")}
    corpus: dict[str, tuple[str, str]] = {}
    for package in _stanzas(named, "_Packages"):
        key = package.get("Description-md5", "")
        if key in texts:
            corpus.setdefault(key, (package["Section"].rpartition("/")[2], texts[key]))
    return list(corpus.values())


def _stanzas(paths: list[Path], part: str) -> Iterator[dict[str, str]]:
    path = next(path for path in paths if part in path.name)
    content = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", str(path)], check=True, capture_output=True).stdout
    for stanza in content.decode("utf-8", "replace").split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith((" ", "\t")):
                fields[key] += f"\n{line.strip()}"
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


if __name__ == "__main__":
    main()
