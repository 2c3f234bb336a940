"""Ray on this machine: the files of a run without it, whichever worker dies, and what a cluster can get wrong."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_examples import table_model
from pucl.bench.results.store import read_results
from pucl.engines import Engine, ray_pool
from pucl.engines.ray_pool import NICENESS, run_on_ray
from pucl.errors import InputError, RunError
from pucl.models.folder import save_model
from pucl.models.many_files import embed_files, score_files

from bench_examples import N_CELLS
from conftest import SRC, Command

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
RAY = Engine("ray")
FILES = 6


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of two cores on this machine."""
    ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(SRC)  # for the workers
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()
    os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    return save_model(folder / "model", table_model(folder))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pd = pytest.importorskip("pandas")
    place, rng, n = tmp_path_factory.mktemp("data"), np.random.default_rng(0), 30_000
    for i in range(FILES):
        city = np.array(["Bonn", "Kiel", "Ulm"])[rng.integers(3, size=n)]
        frame = pd.DataFrame({"id": np.arange(n) + i * n, "age": rng.normal(45, 5, n), "city": city, "height": 1.7})
        frame.to_parquet(place / f"{i}.parquet")
    return place


def content(place: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in place.iterdir()}


def workers() -> list[int]:
    """The processes that Ray calls by the name of our workers."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes()
        except OSError:  # it has ended
            continue
        if words.startswith(b"ray::Worker"):
            found.append(int(place.parent.name))
    return found


@pytest.mark.parametrize("what", [score_files, embed_files])
def test_a_worker_that_is_killed_changes_nothing(ray: Any, folder: Path, data: Path, tmp_path: Path, what: Any) -> None:
    expected = what(folder, str(data), str(tmp_path / "here"))
    killed: list[int] = []

    def kill(_words: str, _share: float) -> None:
        if not killed:
            killed.extend(workers()[:1])
            os.kill(killed[0], signal.SIGKILL)

    done = what(folder, str(data), str(tmp_path / "ray"), engine=RAY, on_progress=kill)
    assert killed and done.failed == () and (done.files, done.rows) == (FILES, 30_000 * FILES)
    assert done.positive == expected.positive and ray.is_initialized()
    assert content(tmp_path / "ray") == content(tmp_path / "here")


def test_what_is_there_is_not_done_again(ray: Any, folder: Path, data: Path, tmp_path: Path) -> None:
    assert score_files(folder, str(data), str(tmp_path / "out"), shard=(0, 2)).files == FILES // 2
    done = score_files(folder, f"{data}/*.parquet", str(tmp_path / "out"), engine=RAY)
    assert ray.is_initialized() and (done.files, done.there) == (FILES // 2, FILES // 2)


def test_the_model_need_not_be_where_the_workers_are(
    ray: Any, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    real = ray.put

    def put(what: Any) -> Any:
        (copy / "model.json").unlink()
        return real(what)

    monkeypatch.setattr(ray, "put", put)
    done = score_files(copy, f"{data}/0.parquet", str(tmp_path / "out"), engine=RAY)
    assert done.failed == () and done.files == 1


def test_a_bad_file_keeps_no_other_from_being_done(ray: Any, folder: Path, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir()
    (place / "a.parquet").write_bytes(b"half")
    (place / "b.parquet").symlink_to(data / "0.parquet")
    (place / "c.csv").write_text("age,city\n3,Ulm\n", encoding="utf-8")
    done = score_files(folder, str(place), str(tmp_path / "out"), engine=RAY)
    assert (
        ray.is_initialized() and done.files == 1 and sorted(content(tmp_path / "out")) == ["b.parquet", "manifest.json"]
    )
    reasons = dict(done.failed)
    assert "a.parquet cannot be read" in reasons["a.parquet"] and "unknown column of c.csv 'height'" in reasons["c.csv"]


def test_errors_come_as_they_are_and_a_unit_that_kills_its_workers_is_given_up(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "RETRIES", 1)

    def function(unit: int) -> int:  # a local function, which is sent as it is
        if unit == 1:
            raise InputError("one is refused", owner="f")
        if unit == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * unit

    results = dict(run_on_ray(function, range(5), owner="f"))
    assert {unit: results[unit] for unit in (0, 3, 4)} == {0: 0, 3: 30, 4: 40} and ray.is_initialized()
    assert isinstance(results[1], InputError) and str(results[1]) == "f: one is refused"
    assert isinstance(results[2], RunError) and str(results[2]).startswith(
        "2 workers died with it, perhaps for lack of"
    )


def test_another_version_is_refused(
    ray: Any, folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "__version__", "9.9")
    with pytest.raises(RunError, match=r"^pucl.score_files: the workers have pucl \d.*, and this is pucl 9.9: install"):
        score_files(folder, str(data), str(tmp_path / "out"), engine=RAY)
    assert ray.is_initialized() and not (tmp_path / "out").exists()


def test_a_cluster_without_a_free_core(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pool, "PATIENCE", 2.0)

    class Busy:
        def there(self) -> bool:
            return True

    others = ray.remote(num_cpus=2)(Busy).remote()
    assert ray.get(others.there.remote())
    try:
        with pytest.raises(RunError, match=r"f: the cluster started no worker within 2 s \(0 of 2 CPUs free\)"):
            list(run_on_ray(str, [1], owner="f"))
    finally:
        ray.kill(others)


def test_a_cluster_is_known_by_its_first_word(ray: Any) -> None:
    address = ray.get_runtime_context().gcs_address
    ray_pool._check_answers("f", address)
    with pytest.raises(InputError, match=r"which does not answer \(Connection refused\)"):
        ray_pool._check_answers("f", f"{address.partition(':')[0]}:9")


def test_the_workers_of_an_own_cluster_are_as_nice_as_the_caller(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra 'ray' is not installed")
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nfrom pucl.engines.ray_pool import NICENESS, run_on_ray\nos.nice(3)\n"
        "print([nice for _, nice in run_on_ray(lambda _: os.nice(0), [0], owner='f')], NICENESS in os.environ)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(SRC)}
    for more, above in (({}, 3), ({NICENESS: "2"}, 5)):
        expected = min(19, os.nice(0) + above)
        words = [sys.executable, str(script)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, env=env | more)
        assert done.stdout == f"[{expected}] {bool(more)}\n", done.stderr[-3000:]


def test_cells_of_a_benchmark(ray: Any, bench: Command, tmp_path: Path) -> None:
    assert bench("run", "g.toml", "--results", "here.jsonl").code == 0
    run = bench("run", "g.toml", "--engine", "ray", "--results", "ray.jsonl")
    assert run.code == 0 and ray.is_initialized() and f"{N_CELLS} ran in" in run.out
    here, there = (
        {line.key: line.metrics for line in read_results(tmp_path / f"{name}.jsonl")} for name in ("here", "ray")
    )
    assert there == here and len(there) == N_CELLS
    assert (
        f"0 ran in 0 s, {N_CELLS} already there"
        in bench("run", "g.toml", "--engine", "ray", "--results", "ray.jsonl").out
    )
    both = bench("run", "g.toml", "--engine", "ray", "--jobs", "2")
    assert both.code == 2 and "--jobs must be left out with --engine" in both.err
