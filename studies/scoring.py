"""Rows per second and peak memory of scoring a Parquet file of embeddings with a fitted model.

    python studies/scoring.py [ROWS]

writes a file of ROWS × 128 (1,000,000 by default) in a temporary folder, fits a small model to some of its
rows, and scores the file and its first tenth, each in a fresh process: constant memory means that both peaks are alike.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from own_data import peak_megabytes

from pucl.data.own.batch import need

DIMENSIONS, GROUP, MOST, LABELLED, SHARE, APART = 128, 65_536, 2_000, 0.02, 0.3, 0.5


def write(path: Path, n_rows: int) -> None:
    """Two normal clouds; some rows of the first are labelled."""
    pa, pq = need("pyarrow", "the benchmark"), need("pyarrow.parquet", "the benchmark")
    rng = np.random.default_rng(0)
    schema = pa.schema([("id", pa.int64()), ("s", pa.int8()), ("z", pa.list_(pa.float32(), DIMENSIONS))])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n_rows, GROUP):
            n = min(GROUP, n_rows - start)
            positive = rng.random(n) < SHARE
            z = rng.standard_normal((n, DIMENSIONS), dtype=np.float32) + APART * positive[:, None].astype(np.float32)
            s = (positive & (rng.random(n) < LABELLED)).astype(np.int8)
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(z.ravel()), DIMENSIONS)
            writer.write_table(pa.table([np.arange(start, start + n), s, vectors], schema=schema), GROUP)


def fit(folder: Path) -> None:
    from pucl.data.own import ReadOptions
    from pucl.fitting.from_files import fit_files
    from pucl.fitting.plan import FitOptions
    from pucl.models.folder import save_model

    reading = ReadOptions(label="s", id_column="id")
    options = FitOptions(encoder="mlp", epochs=2, head="linear")
    model = fit_files(folder / "small.parquet", reading, options, max_rows=MOST)
    save_model(folder / "model", model)


def score(folder: Path, name: str) -> None:
    from pucl.models.folder import load_model
    from pucl.models.scoring import score_to_file

    model = load_model(folder / "model")
    before, start = peak_megabytes(), time.perf_counter()
    scored = score_to_file(model, folder / f"{name}.parquet", folder / f"{name}-scores.parquet", id_column="id")
    seconds = time.perf_counter() - start
    print(
        f"{scored.rows:,} rows × {DIMENSIONS} in {seconds:.1f} s: {scored.rows / seconds:,.0f} rows/s, "
        f"peak memory {peak_megabytes() - before:.0f} MB above the {before:.0f} MB of the loaded model",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) > 2:
        folder, step = Path(sys.argv[1]), sys.argv[2]
        fit(folder) if step == "fit" else score(folder, step)
        return
    n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as place:
        write(Path(place) / "large.parquet", n_rows)
        write(Path(place) / "small.parquet", n_rows // 10)
        for step in ("fit", "small", "large"):
            subprocess.run([sys.executable, __file__, place, step], check=True)


if __name__ == "__main__":
    main()
