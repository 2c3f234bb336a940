"""Which readout of a grid is best by hidden positives: the choice that comes before runs with more seeds.

``python studies/choose_readout.py paper/moving.toml --only task=cifar1 --only encoder=cnn7 --only n_labelled=1000``,
with ``PUCL_DATA`` set. A fifth of P and of U is hidden from labellers and heads, and the labels of those rows from the
encoder, which all readouts of a recipe share. Judged by PU-AUC: the chance that a hidden row of P scores above a hidden
row of U. Test accuracies are stored beside it, to be looked at after the choice. References that see true labels, and
readouts with a teacher, are left out. Lines of JSON go to ``--out``; what is there is not run again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pucl.bench.grid.cells import Pipeline, units
from pucl.bench.grid.grid import read_grid
from pucl.bench.run.encoding import EncoderStore
from pucl.bench.run.exam import pose
from pucl.bench.run.runner import select
from pucl.bench.run.stages import Embedded, fit_readout
from pucl.device import pick_device
from pucl.numerics.auc import auc
from pucl.selection import hold_out

HIDDEN = 0.2


def candidates(grid: Path, only: list[str], seed: int) -> list[list[Pipeline]]:
    """The pipelines of a grid that see no truth and have no teacher, by encoder, with one seed for all."""
    cells = [cell for cell in select(read_grid(grid), only) if isinstance(cell, Pipeline) and cell.place.seed == seed]
    chosen = [cell for cell in cells if not cell.is_reference and cell.readout.teacher is None and cell.epoch is None]
    return [[cell for cell in unit if isinstance(cell, Pipeline)] for unit in units(chosen)]


def judged(unit: list[Pipeline], store: EncoderStore, done: set[str]) -> Iterator[dict[str, Any]]:
    """A line for every readout of an encoder."""
    left = [cell for cell in unit if cell.key not in done]
    if not left:
        return
    observed, exam = pose(left[0].place)
    hidden = hold_out(observed.s, HIDDEN, observed.seed)
    encoder = store.encoder(left[0].encoder_cell, replace(observed, s=observed.s & ~hidden), exam).encoder
    seen, s_hidden = observed.only(~hidden), observed.s[hidden]
    rows = Embedded(encoder, seen, store.device, left[0].recipe.withheld)
    for cell in left:
        began = time.perf_counter()
        score = fit_readout(cell.readout, rows, exam).score
        if score is None:
            continue
        seconds, logits = time.perf_counter() - began, score(observed.x[hidden]).double().cpu().numpy()
        area, error = auc(logits[s_hidden], logits[~s_hidden])
        yield {
            "key": cell.key, "name": cell.name, "readout": cell.readout.name, "pu_auc": round(area, 5),
            "error": round(error, 5), "hidden": int(s_hidden.sum()), "seconds": round(seconds, 1),
            "test": exam.grade(score(exam.test_rows)),
        }  # fmt: skip


def table(lines: list[dict[str, Any]]) -> str:
    """The lines, the best PU-AUC first, without what was seen of the test rows."""
    best_first = sorted(lines, key=lambda line: -line["pu_auc"])
    return "\n".join(f"{line['pu_auc']:.4f} ± {line['error']:.4f}  {line['name']}" for line in best_first)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("grid", type=Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    parser.add_argument("--encoders", type=Path, default=Path("results/encoders/hidden"))
    parser.add_argument("--out", type=Path, default=Path("choose_readout.jsonl"))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = [json.loads(text) for text in given.out.read_text().splitlines()] if given.out.exists() else []
    store = EncoderStore(given.encoders, str(pick_device(given.device)))
    with given.out.open("a", encoding="utf-8") as file:
        for unit in candidates(given.grid, given.only, given.seed):
            for line in judged(unit, store, {line["key"] for line in lines}):
                lines.append(line)
                print(f"{line['seconds']:7.1f} s  {line['name']}", flush=True)
                file.write(json.dumps(line) + "\n")
                file.flush()
    print(table(lines))


if __name__ == "__main__":
    main()
