"""Checkpoints: bit for bit, the newest kept, damage named, other runs refused; fingerprints of data."""

import errno
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from checkpoint_examples import RUN, holds, keep, names, pairs
from pucl.errors import InputError, RunWarning
from pucl.training import checkpoints
from pucl.training.checkpoints import Checkpoints, check_unused, committed, fingerprint, load, save


def bits(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def test_round_trip_bit_for_bit(tmp_path: Path, generator: torch.Generator) -> None:
    noise = torch.randn(2, 3, 4, 5, generator=generator)
    strange = torch.tensor([float("nan"), float("inf"), -0.0, 1e-45])
    quiet_nan = torch.tensor([0x7FC00001, 0x7F800000], dtype=torch.int32).view(torch.float32)
    tensors = {
        "float32": noise,
        "same storage": noise,
        "a view of it": noise[0, :, 1:3],
        "transposed": noise.transpose(0, 2),
        "expanded": noise[:1].expand(7, 3, 4, 5),
        "channels_last": noise.to(memory_format=torch.channels_last),
        "parameter": nn.Parameter(noise),
        "strange": strange,
        "nan": quiet_nan,
        "0-d": torch.tensor(3.5, dtype=torch.float64),
        "int64": torch.tensor([2**62 + 1, -(2**63)]),
        "bool": torch.tensor([True, False]),
        "empty": torch.empty(0, 3),
        "generator": generator.get_state(),
        **{str(dtype): noise.to(dtype) for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.complex64)},
    }
    state = {"at": 7, "history": [0.1, float("inf"), 1 / 3], "text": "π̂", "none": None, "nested": {"a": [True]}}
    path = save(Checkpoints(tmp_path), step=7, tensors=tensors, state=state, run=RUN)
    saved = load(tmp_path, run=RUN)
    assert saved is not None and (saved.step, saved.state, saved.path) == (7, state, path)
    assert saved.tensors.keys() == tensors.keys()
    for name, tensor in tensors.items():
        back = saved.tensors[name]
        assert (back.dtype, back.shape, back.device.type) == (tensor.dtype, tensor.shape, "cpu"), name
        assert back.is_contiguous() and torch.equal(bits(back), bits(tensor)), name
    saved.tensors["same storage"].zero_()
    assert torch.equal(saved.tensors["float32"], noise), "what was shared comes back apart"


def test_a_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    def steps(weight: Tensor, generator: torch.Generator, n: int) -> Tensor:
        for _ in range(n):
            weight = weight * 0.9 + torch.randn(5, generator=generator)
        return weight

    generator = torch.Generator().manual_seed(3)
    whole = steps(torch.zeros(5), generator, 8)
    generator.manual_seed(3)
    half = steps(torch.zeros(5), generator, 4)
    keep(tmp_path, 4, tensors={"w": half, "rng": generator.get_state()})
    saved = load(tmp_path, run=RUN)
    assert saved is not None
    fresh = torch.Generator()
    fresh.set_state(saved.tensors["rng"])
    assert torch.equal(steps(saved.tensors["w"], fresh, 4), whole)


def test_the_folder_is_made_and_none_is_found_in_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "one"
    assert load(folder, run=RUN) is None
    check_unused(folder)
    where = Checkpoints(str(folder))  # type: ignore[arg-type]
    assert where.folder == folder
    path = save(where, step=0, tensors={}, state={}, run={})
    saved = load(str(folder), run={})  # type: ignore[arg-type]
    assert saved is not None and (saved.step, saved.tensors, saved.state, saved.path) == (0, {}, {}, path)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text("mine")
    (tmp_path / "step-1.safetensors").write_text("mine")
    for step in (99_999_998, 99_999_999, 100_000_000, 100_000_001):
        keep(tmp_path, step)
    assert names(tmp_path) == ["notes.json", "step-1.safetensors", *pairs(100_000_000, 100_000_001)]
    assert holds(tmp_path, 100_000_001)
    save(Checkpoints(tmp_path, keep=1), step=100_000_002, tensors={}, state={}, run=RUN)
    assert committed(tmp_path) == [100_000_002]


def test_what_killed_runs_left_is_cleaned_and_does_not_count(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    for name in ("step-00000002.safetensors", "step-00000003.safetensors.tmp", "step-00000002.json.tmp"):
        (tmp_path / name).write_bytes(b"torn")
    assert holds(tmp_path, 1)
    keep(tmp_path, 2)
    assert names(tmp_path) == pairs(1, 2) and holds(tmp_path, 2)


def test_an_old_checkpoint_that_cannot_be_deleted_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(tmp_path, 1)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.suffix != ".tmp":
            raise PermissionError(errno.EACCES, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.warns(RunWarning, match="step-00000001.* cannot be deleted: Permission denied"):
        save(Checkpoints(tmp_path, keep=1), step=2, tensors={"w": torch.full((9,), 2)}, state={"at": 2}, run=RUN)
    assert holds(tmp_path, 2)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_json(path: Path) -> None:
    path.write_text("[1]")


def other_state(path: Path) -> None:
    path.write_text(path.read_text().replace('"at": 3', '"at": 4'))


@pytest.mark.parametrize(
    ("kind", "damage"),
    [
        ("safetensors", truncate),
        ("safetensors", flip),
        ("safetensors", empty),
        ("safetensors", Path.unlink),
        ("json", truncate),
        ("json", empty),
        ("json", other_json),
        ("json", other_state),
    ],
)
def test_damage_is_named_with_the_way_back(tmp_path: Path, kind: str, damage: Callable[[Path], None]) -> None:
    for step in (1, 2, 3):
        save(Checkpoints(tmp_path, keep=3), step=step, tensors={"w": torch.zeros(500)}, state={"at": step}, run=RUN)
    bad = tmp_path / f"step-00000003.{kind}"
    damage(bad)
    flip(tmp_path / "step-00000002.safetensors")
    message = (
        f"^checkpoint {re.escape(str(bad))}: damaged: [^\n]*; the newest intact one before it is of step 1. "
        "Delete step-00000003.json and step-00000003.safetensors to continue from there$"
    )
    with pytest.raises(InputError, match=message):
        load(tmp_path, run=RUN)
    for step in (2, 3):
        for name in pairs(step):
            (tmp_path / name).unlink(missing_ok=True)
    saved = load(tmp_path, run=RUN)
    assert saved is not None and saved.step == 1


def test_every_bit_of_a_checkpoint_is_watched(tmp_path: Path) -> None:
    keep(tmp_path, 1, tensors={"w": torch.zeros(3)})
    for path in map(tmp_path.joinpath, pairs(1)):
        whole = path.read_bytes()
        for at in range(0, len(whole), 7):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            with pytest.raises(InputError, match="^checkpoint "):
                load(tmp_path, run=RUN)
        path.write_bytes(whole)
    assert load(tmp_path, run=RUN) is not None


def test_damage_without_an_older_one(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    flip(tmp_path / "step-00000001.safetensors")
    with pytest.raises(InputError, match="no older one is intact. Delete step-00000001.json and .* to start anew"):
        load(tmp_path, run=RUN)


def test_a_newer_format(tmp_path: Path) -> None:
    path = keep(tmp_path, 1)
    path.write_text(json.dumps({"format": checkpoints.FORMAT + 1, "pucl": "9.9"}))
    with pytest.raises(
        InputError, match="written by pucl 9.9 in format 2; this is pucl .* up to format 1. Upgrade pucl"
    ):
        load(tmp_path, run=RUN)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            {**RUN, "config": {"epochs": 200, "projection": [512, 128]}},
            "config.epochs was 300; this run has 200. Resume",
        ),
        ({**RUN, "config": {"epochs": 300, "projection": (1, 2)}}, "projection was [512, 128]; this run has [1, 2]."),
        ({**RUN, "config": {"epochs": 300}}, "config.projection was [512, 128]; this run has none."),
        ({**RUN, "config": None}, "config was {'epochs': 300, 'projection': [512, 128]}; this run has None."),
        ({**RUN, "more": "x"}, "more was not set; this run has 'x'."),
        ({"config": RUN["config"]}, "data was 'abc'; this run has none."),
    ],
)
def test_another_run_is_refused(tmp_path: Path, run: dict[str, Any], message: str) -> None:
    path = keep(tmp_path, 1)
    with pytest.raises(InputError) as caught:
        load(tmp_path, run=run)
    assert str(caught.value).startswith(f"checkpoint {path}: ") and message in str(caught.value)
    assert str(caught.value).endswith("Resume with the same settings or give another folder")


def test_equal_runs_are_equal_after_json(tmp_path: Path) -> None:
    keep(tmp_path, 1, run={"a": (1, (2,)), "b": float("nan"), "rate": 1.0})
    assert load(tmp_path, run={"rate": 1, "b": float("nan"), "a": [1, [2]]}) is not None


def test_somebody_elses_checkpoints_are_not_written_over(tmp_path: Path) -> None:
    keep(tmp_path, 5)
    for step in (4, 5):
        with pytest.raises(InputError, match="step 5 is saved there already. Resume, delete it or give another folder"):
            keep(tmp_path, step)
    with pytest.raises(InputError, match="step 5 is saved there already"):
        check_unused(tmp_path)
    assert names(tmp_path) == pairs(5)


@pytest.mark.parametrize("inside", ["", "run"])
def test_a_file_in_place_of_the_folder(tmp_path: Path, inside: str) -> None:
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / "file" / inside
    for call in (lambda: keep(folder, 1), lambda: load(folder, run=RUN), lambda: check_unused(folder)):
        with pytest.raises(InputError, match="folder must be a folder; got the file .*file$"):
            call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": -1}, "step must be a whole number ≥ 0; got -1"),
        ({"tensors": {"a": torch.eye(2).to_sparse()}}, "tensors must be dense; got a of layout torch.sparse_coo"),
        ({"tensors": {"a": torch.zeros(1).to(torch.complex128)}}, "what safetensors can hold; got torch.complex128"),
        ({"tensors": {"__metadata__": torch.zeros(1)}}, "tensors must be named otherwise; got '__metadata__'"),
        ({"state": {"a": {1, 2}}}, "state must be a mapping JSON can hold; got Object of type set is not"),
        ({"run": {"a": torch.zeros(1)}}, "run must be a mapping JSON can hold; got Object of type Tensor is not"),
    ],
)
def test_bad_input(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        keep(tmp_path / "new", changes.pop("step", 1), **changes)
    assert message in str(caught.value) and not (tmp_path / "new").exists()


@pytest.mark.parametrize("changes", [{"every": 0}, {"keep": 0}, {"keep": 1.5}, {"folder": None}])
def test_bad_configuration(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"Checkpoints: {next(iter(changes))} must be "):
        Checkpoints(**{"folder": Path("x"), **changes})


def test_fingerprint_tells_data_apart(generator: torch.Generator) -> None:
    x = torch.randint(256, (50, 3, 4, 4), generator=generator, dtype=torch.uint8)
    s = torch.arange(50) < 9
    same = fingerprint(x, s)
    assert re.fullmatch("50 of 50 rows, sha256 [0-9a-f]{64}", same)
    assert fingerprint(x.clone().to(memory_format=torch.channels_last), s) == same
    changed = x.clone()
    changed[31, 2, 3, 3] += 1
    others = [
        fingerprint(changed, s),
        fingerprint(x.flip(0), s),
        fingerprint(x.reshape(50, 3, 2, 8), s),
        fingerprint(x.view(torch.int8), s),
        fingerprint(x, s.flip(0)),
        fingerprint(x, s.to(torch.uint8)),
        fingerprint(x[:49], s[:49]),
    ]
    assert len({same, *others}) == 8


def test_fingerprint_is_the_same_on_every_machine() -> None:
    known = "3 of 3 rows, sha256 95bf1f89dbc82ecf696f9eac93573a54cff163c88147be881fb284e890564507"
    assert fingerprint(torch.arange(6.0).reshape(3, 2), torch.tensor([True, False, False])) == known


def test_fingerprint_of_large_data_samples_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "HASHED_BYTES", 10 * 4 * 2)
    x, s = torch.arange(200.0).reshape(100, 2), torch.zeros(100)
    first = fingerprint(x, s)
    assert first.startswith("10 of 100 rows, ") and fingerprint(x.clone(), s) == first
    for row, seen in ((0, True), (99, True), (11, True), (12, False)):
        changed = x.clone()
        changed[row] += 1
        assert (fingerprint(changed, s) != first) == seen
    s[50] = 1
    assert fingerprint(x, s) != first, "every label counts"
    monkeypatch.setattr(checkpoints, "HASHED_BYTES", 1)
    assert fingerprint(x, s).startswith("1 of 100 rows, ")
