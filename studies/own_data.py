"""Peak memory of training on, and of scoring, a Parquet file of embeddings that is larger than memory should be.

    python studies/own_data.py FOLDER [GIGABYTES]

writes FOLDER/embeddings.parquet (5 GB by default), reads it in fresh processes and deletes it.
"""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from pucl.data.own import batches, read, sample
from pucl.data.own.batch import need

DIMENSIONS, GROUP, SAMPLE, BATCH = 128, 65_536, 100_000, 8_192


def write(path: Path, gigabytes: float) -> int:
    pa, pq = need("pyarrow", "the benchmark"), need("pyarrow.parquet", "the benchmark")

    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), ("s", pa.int8()), ("z", pa.list_(pa.float32(), DIMENSIONS))])
    n_rows = 0
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        while path.stat().st_size < gigabytes * 1e9:
            z = rng.standard_normal((GROUP, DIMENSIONS), dtype=np.float32)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), DIMENSIONS)
            s = (rng.random(GROUP) < 0.1).astype(np.int8)
            writer.write_table(pa.table([np.arange(n_rows, n_rows + GROUP), s, vectors], schema=schema), GROUP)
            n_rows += GROUP
    return n_rows


def train(path: str) -> str:
    rows = sample(read(path, label="s", id_column="id"), SAMPLE, seed=0).load()
    return f"sample of {rows.shape[0]:,} × {rows.shape[1]}"


def score(path: str) -> str:
    weights = np.ones(DIMENSIONS, dtype=np.float32)
    parts = batches(path, batch_size=BATCH, columns=["z"], id_column="id")
    scores = np.concatenate([batch.rows @ weights for batch in parts])
    return f"{len(scores):,} rows scored"


def peak_megabytes() -> float:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return float(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    folder, argument = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "5"
    path = folder / "embeddings.parquet"
    if argument in ("train", "score"):
        start = time.perf_counter()
        text = (train if argument == "train" else score)(str(path))
        seconds = time.perf_counter() - start
        print(f"{argument}: {text} in {seconds:.0f} s, peak memory {peak_megabytes():.0f} MB", flush=True)
        return
    try:
        start = time.perf_counter()
        n_rows = write(path, float(argument))
        size = path.stat().st_size / 1e9
        print(f"file: {size:.2f} GB, {n_rows:,} rows, written in {time.perf_counter() - start:.0f} s", flush=True)
        for step in ("train", "score"):
            subprocess.run([sys.executable, __file__, str(folder), step], check=True)
    finally:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
