"""What a model loses when it learns from a sample of a table: accuracy, π, time and memory by the number of rows.

    python studies/past_memory.py FOLDER [ROWS]

writes a table of ROWS rows (10 million by default; 18 numbers, 2 categories, 5 % positives, of which 3,000 are
labelled) as Parquet files into FOLDER/rows, fits models to samples of it in fresh processes, judges them on 200,000
rows more, and deletes what it wrote.
"""

import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pucl.data.own import ReadOptions
from pucl.data.own.batch import need

NUMBERS, FILE, HELD_OUT, SHARE, LABELLED = 18, 500_000, 200_000, 0.05, 3_000
CITIES, PLANS = np.array([f"city {i}" for i in range(40)]), np.array(["basic", "plus", "pro", "none"])
SAMPLES, SEEDS = (10_000, 100_000, 1_000_000), (0, 1, 2)
STEEPNESS = 6.0  # of the chance of being positive


def chunk(n: int, seed: int) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """Columns of n rows, and the score that the chance of being positive depends on, which no plane fits."""
    rng = np.random.default_rng([28, seed])
    x = rng.standard_normal((NUMBERS, n), dtype=np.float32)
    city, plan = rng.integers(len(CITIES), size=n), rng.integers(len(PLANS), size=n)
    x[15:] = np.exp(x[15:])  # three skewed columns
    x[17][rng.random(n) < 0.1] = np.nan
    score = x[0] * x[1] + np.sin(2 * x[2]) + 0.7 * np.abs(x[3]) - 0.5 * x[4] ** 2 + 0.8 * x[5] * (plan == 2)
    score += 0.8 * x[6] + 0.5 * np.log(x[15]) + np.cos(city) + 0.6 * (plan == 1)
    columns = {f"x{j}": x[j] for j in range(NUMBERS)}
    return {**columns, "city": CITIES[city], "plan": PLANS[plan]}, score.astype(np.float32)


def threshold() -> float:
    """The score at which a row is as likely positive as not, so that `SHARE` of the rows are positive."""
    score = chunk(400_000, 10_000)[1]
    low, high = -10.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(score, middle).mean() > SHARE else (low, middle)
    return low


def chance(score: NDArray[np.float32], at: float) -> NDArray[np.float32]:
    return np.asarray((1 + np.tanh(STEEPNESS * (score - at) / 2)) / 2, dtype=np.float32)


def write(folder: Path, n_rows: int) -> None:
    """The files with the rows, and one with held-out rows and the truth about them."""
    pa, pq = need("pyarrow", "the study"), need("pyarrow.parquet", "the study")
    at, rows = threshold(), folder / "rows"
    rows.mkdir(parents=True)
    share, positives, unlabelled = LABELLED / (SHARE * n_rows), 0, 0
    for part in range(-(-n_rows // FILE)):
        n = min(FILE, n_rows - part * FILE)
        columns, score = chunk(n, part)
        rng = np.random.default_rng([29, part])
        positive = rng.random(n) < chance(score, at)
        known = positive & (rng.random(n) < share)
        positives, unlabelled = positives + int((positive & ~known).sum()), unlabelled + int((~known).sum())
        ids = np.arange(part * FILE, part * FILE + n)
        table = pa.table({"id": ids, **columns, "known": known.astype(np.int8)})
        pq.write_table(table, rows / f"part-{part:04d}.parquet", row_group_size=100_000)
    columns, score = chunk(HELD_OUT, 20_000)
    truth = np.random.default_rng(30).random(HELD_OUT) < chance(score, at)
    pq.write_table(pa.table({**columns, "truth": truth}), folder / "held_out.parquet")
    (folder / "share.json").write_text(json.dumps(positives / unlabelled), encoding="utf-8")


def learn(folder: Path, rows: int, seed: int) -> dict[str, Any]:
    """Fit to a sample and judge on the held-out rows."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    from pucl.fitting.from_files import fit_files
    from pucl.fitting.plan import FitOptions
    from pucl.models.scoring import scores

    began = time.perf_counter()
    reading = ReadOptions(label="known", id_column="id")
    model = fit_files(str(folder / "rows"), reading, FitOptions(seed=seed), max_rows=rows)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds, record = time.perf_counter() - began, model.record
    truth = need("pyarrow.parquet", "the study").read_table(folder / "held_out.parquet", columns=["truth"])["truth"]
    score = np.concatenate([batch.score for batch in scores(model, folder / "held_out.parquet", drop=["truth"])])
    prior = record.prior
    return {
        "rows": record.rows.n, "seed": seed, "auc": roc_auc_score(truth, score),
        "average_precision": average_precision_score(truth, score), "prior": [prior.value, prior.low, prior.high],
        "is_bound": prior.is_bound, "wall_s": seconds, "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024, "chosen": record.choices.to_dict(),
    }  # fmt: skip


def main() -> None:
    folder, *rest = Path(sys.argv[1]), *sys.argv[2:]
    if rest[:1] == ["learn"]:
        print(json.dumps(learn(folder, int(rest[1]), int(rest[2]))), flush=True)
        return
    n_rows = int(rest[0]) if rest else 10_000_000
    try:
        write(folder, n_rows)
        print(f"{n_rows:,} rows; true share of positives in U {(folder / 'share.json').read_text()}", flush=True)
        for rows in SAMPLES:
            for seed in SEEDS:
                subprocess.run([sys.executable, __file__, str(folder), "learn", str(rows), str(seed)], check=True)
    finally:
        shutil.rmtree(folder / "rows", ignore_errors=True)
        for name in ("held_out.parquet", "share.json"):
            (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
