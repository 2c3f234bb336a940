"""Fit a small model with the pucl that is installed, and store it with the probabilities it gives some rows.

    python tests/stored_models/make.py record-4-table      # or -vectors

The names of models are FORMAT-table and FORMAT-vectors. Run this when the format of models or of their record changes;
models that are there are not made again, as their code is that of their time.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
ROWS = (0, 4, 11, 13, 16, 25)  # labelled, with a missing value, unlabelled positives and negatives
N = 26
POSITIVE = np.arange(N) < 13
OPTIONS = {"encoder": "raw", "random_state": 0}


def table() -> pd.DataFrame:
    """Numbers of which some are missing, a category and dates; positives are older and came later."""
    rng = np.random.default_rng(0)
    height = np.round(1.7 + 0.1 * rng.normal(size=N), 2)
    height[4::9] = np.nan
    return pd.DataFrame(
        {
            "age": np.round(40 + 8 * POSITIVE + 3 * rng.normal(size=N), 1),
            "city": np.array(["Bonn", "Kiel", "Ulm"])[rng.integers(3, size=N)],
            "height": height,
            "joined": [f"20{year}-03-01" for year in 10 + 5 * POSITIVE + rng.integers(5, size=N)],
        }
    )


def vectors() -> np.ndarray[Any, Any]:
    """Three numbers a row, the first of which tells most."""
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(N, 3)) + 2 * POSITIVE[:, None] * [1, 0.5, 0], 2).astype(np.float32)


def make(name: str, into: Path = HERE, **options: Any) -> None:
    """Fit, save and note what was given and what was predicted."""
    from pucl import PUClassifier, load_model

    is_table = "table" in name
    x: Any = table() if is_table else vectors()
    classifier = PUClassifier(**{**OPTIONS, **options}).fit(x, (np.arange(N) < 8).astype(int))
    classifier.save(into / name)
    some = x.iloc[list(ROWS)] if is_table else x[list(ROWS)]
    rows = json.loads(some.to_json(orient="records")) if is_table else np.round(some.astype(float), 2).tolist()
    probability = classifier.predict_proba(some)[:, 1].tolist()
    written = json.loads((into / name / "model.json").read_text(encoding="utf-8"))
    versions = {"format": written["format"], "record": written.get("record", {}).get("record_version", 1)}
    made = json.dumps({**versions, "rows": rows, "probability": probability})
    (into / f"{name}.json").write_text(f"{made}\n", encoding="utf-8")
    load_model(into / name)


if __name__ == "__main__":
    given: dict[str, Any] = dict(option.split("=") for option in sys.argv[2:])  # such as head=linear
    make(sys.argv[1], **given)
