"""What people write, and lines of results: lists of positives, grids, options, logs, folders of texts."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np

from fuzz.reader import MB, Files, Reader
from fuzz.structured import ODD, odd, odd_json, odd_toml
from pucl.bench.grid.grid import read_grid
from pucl.bench.results import notebooks, published
from pucl.bench.results.maps import read_maps
from pucl.bench.results.store import read_results, writing
from pucl.cli.fit import fit
from pucl.cli.options import with_config
from pucl.data.own import open_rows, read
from pucl.data.own.transform import TableTransform
from pucl.training.log import RunLog

HERE = Path(__file__).parent
LINES = (
    "0",
    "1",
    "11",
    "12",
    "-1",
    "1.0",
    "1e3",
    "0x1",
    "9" * 30,
    "r01",
    "r99",
    "",
    " ",
    "id",
    "a,b",
    '"',
    "'",
    "\x00",
    "\ufeff1",
    "é",
    "🎲",
    "\u2028",
    "x" * 2_000,
    "../r01",
    "1 2",
    "１",
    "nan",
    "#",
    "positive/00.png",
    "\x85",
    "9" * 5_000,
    "NaN\t",
    "'=1",
)


def _list_seeds(_: Path) -> Sequence[Files]:
    file = io.BytesIO()
    np.save(file, np.array([0, 3]))
    return [
        {"known.txt": b"0\n3\n"},
        {"known.csv": b"row\n0\n3\n"},
        {"known.tsv": b"row\ta\n0\tx\n3\ty\n"},
        {"known.npy": file.getvalue()},
        {"named.txt": b"r01\nr02\n"},
        {"named.csv": b"id,a\nr01,1\nr02,2\n"},
    ]


def _read_list(folder: Path) -> object:
    import pyarrow as pa

    name = next(path.name for path in folder.iterdir())
    table = pa.table({"id": [f"r{i:02d}" for i in range(12)], "a": range(12)})
    id_column = "id" if name.startswith("named") else None
    one = read(table, positives=folder / name, id_column=id_column).s
    try:
        two = read(table, positives=["r11"] if id_column else [11], negatives=folder / name, id_column=id_column).s
    except ValueError as error:
        if "which is a labelled positive" not in str(error):
            raise
        return one
    return one, two


def _list(rng: Random, _: Sequence[Files]) -> Files:
    name = rng.choice(("known", "named")) + rng.choice((".txt", ".csv", ".tsv"))
    lines = [rng.choice(LINES) for _ in range(rng.choice((1, 3, 20)))]
    text = rng.choice(("\n", "\r\n", "\r", "\n\n")).join(lines)
    return {name: text.encode(rng.choice(("utf-8", "utf-8", "utf-16", "latin-1", "utf-8-sig")), "replace")}


def _list_arrays(rng: Random, _: Sequence[Files]) -> Files:
    file = io.BytesIO()
    arrays = (
        np.arange(3.0),
        np.zeros((2, 2), int),
        np.array(["r01", "r02"]),
        np.array([b"r01"]),
        np.array([True] * 12),
        np.array(5),
        np.array([], int),
        np.array(["2024-01-01"], "M8[D]"),
        np.array([2**64 - 1], np.uint64),
        np.array([1j]),
        np.array([(1, 2)], "i4,i4"),
    )
    np.save(file, rng.choice(arrays))
    return {rng.choice(("known.npy", "named.npy")): file.getvalue()}


def _grid_seeds(_: Path) -> Sequence[Files]:
    paper = HERE.parent.parent / "paper"
    smoke = (paper / "smoke.toml").read_bytes()
    more = b"""tasks = ["digits"]
n_labelled = [100]
seeds = [0]
[recipe.quick]
epochs = 2
view = "shift"
[recipe.quick.task.digits]
epochs = 3
[readout.mine]
labeller = "pupl"
head = "linear"
[settings.nnpu]
epochs = 5
[[block]]
objectives = ["pucl", "punce"]
encoder = "small_cnn"
recipes = ["quick"]
readouts = ["pupl", "mine"]
prior = "oracle"
objective_options = { punce = { variant = ["paper", "released"] } }
n_unlabelled = [500, 900]
prior_error = [-0.2, 0.2]
knn_every = 1
[[block]]
methods = ["nnpu", "naive"]
prior = { nnpu = "oracle" }
true_prior = 0.3
"""
    return [{"grid.toml": smoke}, {"grid.toml": more}]


def _read_grid(folder: Path) -> object:
    return [cell.key for cell in read_grid(folder / "grid.toml")]


def _toml(rng: Random, seeds: Sequence[Files]) -> Files:
    files = dict(rng.choice(seeds))
    return {name: odd_toml(rng, data) for name, data in files.items()}


def _config_seeds(_: Path) -> Sequence[Files]:
    text = b"""label = "known"
id-column = "id"
positives = ["r1", "r2"]
columns = "a,b"
prior = 0.3
seed = 3
encoder = "raw"
skip-unreadable = true
size = 32
"""
    return [{"fit.toml": text}]


def _read_config(folder: Path) -> object:
    import inspect

    return with_config(fit, folder / "fit.toml", dict.fromkeys(inspect.signature(fit).parameters))


def _published_seeds(_: Path) -> Sequence[Files]:
    return [{"published.csv": (Path(published.__file__).with_name("published.csv")).read_bytes()}]


def _read_published(folder: Path) -> object:
    with mock.patch.object(published, "files", return_value=folder):
        for each in (published.stored_rows, published.published, notebooks.points):
            each.cache_clear()
        tables = [published.published(table) for table in published.TABLES]
        return tables, [notebooks.points(group) for group in notebooks.GROUPS]


def _results_seeds(_: Path) -> Sequence[Files]:
    return [{"results.jsonl": _first_lines("benchmark.jsonl", 3)}]


def _read_results(folder: Path) -> object:
    lines = read_results(folder / "results.jsonl")
    with writing(folder / "results.jsonl") as writer:
        return [line.key for line in lines], len(writer.lines)


def _maps_seeds(_: Path) -> Sequence[Files]:
    return [{"maps.jsonl": _first_lines("maps.jsonl", 1)}]


def _read_maps(folder: Path) -> object:
    return read_maps(folder / "maps.jsonl")


def _first_lines(name: str, n: int) -> bytes:
    """Of a file of stored results."""
    lines = (HERE.parent.parent / "results" / name).read_bytes().split(b"\n")
    return b"\n".join(lines[:n]) + b"\n"


def _json_lines(rng: Random, seeds: Sequence[Files]) -> Files:
    """A line whose values are others; its key is mended where that is possible."""
    from pucl.bench.grid.identity import key_of

    name, data = rng.choice([*rng.choice(seeds).items()])
    lines = data.split(b"\n")
    at = rng.randrange(max(1, len(lines) - 1))
    changed = odd_json(rng, lines[at])
    try:
        content = json.loads(changed)
        content["key"] = key_of(content["config"])
        changed = json.dumps(content).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    return {name: b"\n".join([*lines[:at], changed, *lines[at + 1 :]])}


def _texts_seeds(_: Path) -> Sequence[Files]:
    return [
        {
            "positive/a.txt": b"one two three",
            "unlabelled/b.txt": b"two three four",
            "unlabelled/c.txt": "fünf\n".encode(),
        }
    ]


def _read_texts(folder: Path) -> object:
    rows = open_rows(folder).batches(2)
    data = read(folder)
    TableTransform.fit(data.load(), text_columns=["text"]).apply(data.load())
    return [batch.ids for batch in rows]


def _texts(rng: Random, _: Sequence[Files]) -> Files:
    """Texts of one long word, of nothing, of control characters, in other encodings, with odd names."""
    texts = (
        "x" * 2_000_000,
        "",
        "\0" * 500,
        "\ud800",
        "a " * 20_000,
        "\u202e\u0301" * 900,
        "<b>",
        "e\u0301" * 9,
        "\n" * 999,
    )
    folders, files = ("positive", "unlabelled", "unlabelled"), {}
    for i, folder in enumerate(folders):
        name = rng.choice(("a", "\n", "é", "x" * 200, "a b", "'", "\udcff", ".."))
        files[f"{folder}/{i}{name}.txt"] = rng.choice(texts).encode(rng.choice(("utf-8", "utf-16")), "surrogatepass")
    return files


def _log_seeds(_: Path) -> Sequence[Files]:
    lines = [
        {"event": "start", "seed": 0},
        {"epoch": 1, "step": 10, "loss": 1.5},
        {"epoch": 2, "step": 20, "loss": 1.25},
    ]
    return [{"log.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines)}]


def _read_log(folder: Path) -> object:
    with RunLog(folder / "log.jsonl", resume_from=10):
        return (folder / "log.jsonl").read_bytes()


def _log(rng: Random, seeds: Sequence[Files]) -> Files:
    lines = [json.loads(line) for line in seeds[0]["log.jsonl"].splitlines()]
    lines = odd(rng, lines) if rng.random() < 0.7 else [rng.choice(ODD) for _ in range(3)]
    return {"log.jsonl": b"".join(json.dumps(line).encode() + b"\n" for line in lines)}


READERS = (
    Reader(
        "positives files", _list_seeds, _read_list, {"lines": _list, "arrays": _list_arrays}, share=80, memory=64 * MB
    ),
    Reader("text folder", _texts_seeds, _read_texts, {"texts": _texts}, share=5, names=("TableTransform",)),
    Reader("TOML grid", _grid_seeds, _read_grid, {"values": _toml}, share=18),
    Reader("--config TOML", _config_seeds, _read_config, {"values": _toml}, share=80, memory=64 * MB),
    Reader("published.csv", _published_seeds, _read_published, share=10, memory=64 * MB),
    Reader("stored results", _results_seeds, _read_results, {"values": _json_lines}, share=30, memory=64 * MB),
    Reader("stored maps", _maps_seeds, _read_maps, {"values": _json_lines}, share=30, memory=64 * MB),
    Reader("training log", _log_seeds, _read_log, {"values": _log}, share=40, memory=64 * MB),
)
