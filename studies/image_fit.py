"""Time and quality of `PUClassifier` on 9,000 images of 64 pixels.

    PUCL_DATA=… python studies/image_fit.py RESULTS [SET] [SEED …]

appends one JSON line for each seed: seconds in all and of pretraining, what hidden positives say, and the truth.
Three of the ten classes of SET (`imagenette` or `imagewoof`) are the positives, 500 of them labelled.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

import pucl
from pucl.fitting import encode
from pucl.training.pretraining import pretrain

ROWS, LABELLED, POSITIVE = int(os.environ.get("ROWS", "9000")), 500, 3


def images(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    folder = Path(os.environ["PUCL_DATA"]) / f"{name}2-64" / "train"
    classes = sorted(each.name for each in folder.iterdir() if each.is_dir())
    paths = [
        (path, place < POSITIVE) for place, each in enumerate(classes) for path in sorted((folder / each).iterdir())
    ]
    chosen = np.random.default_rng(seed).permutation(len(paths))[:ROWS]
    x = np.stack([np.asarray(Image.open(paths[i][0]).convert("RGB")) for i in chosen])
    return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), np.array([paths[i][1] for i in chosen])


def fit(x: np.ndarray, y: np.ndarray, seed: int) -> dict[str, object]:
    s = np.zeros(len(x), dtype=int)
    s[np.random.default_rng(seed).permutation(np.flatnonzero(y))[:LABELLED]] = 1
    spent: list[float] = []

    def timed(*args: Any, **options: Any) -> Any:
        before = time.perf_counter()
        result = pretrain(*args, **options)
        spent.append(time.perf_counter() - before)
        return result

    setattr(encode, "pretrain", timed)  # noqa: B010  (a name that the module only imports)
    began = time.perf_counter()
    model = pucl.PUClassifier(random_state=seed).fit(x, s)
    seconds = time.perf_counter() - began
    score, label, unlabelled = model.decision_function(x), model.predict(x), s == 0
    return {
        "seed": seed, "seconds": round(seconds, 1), "pretraining": round(sum(spent), 1),
        "true_auc": roc_auc_score(y[unlabelled], score[unlabelled]), "accuracy": (label == y)[unlabelled].mean(),
        "prior": model.prior_, "is_bound": model.prior_is_bound_, "true_prior": y[unlabelled].mean(),
        "scores": {name: each["value"] for name, each in model.scores_.items() if isinstance(each, dict)},
        "verdict": str(model.verdict_),
    }  # fmt: skip


def main() -> None:
    results, name = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "imagenette"
    x, y = images(name, 0)
    for seed in sys.argv[3:] or ["0"]:
        line = {"set": name, **fit(x, y, int(seed))}
        print(json.dumps(line, default=float), flush=True)
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=float) + "\n")


if __name__ == "__main__":
    main()
