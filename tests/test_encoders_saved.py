"""Encoders on disk: bit for bit, and what is refused."""

import hashlib
import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Generator, nn

from pucl.encoders import make_encoder
from pucl.encoders.inputs import Encoder, Standardise
from pucl.encoders.saved import load_encoder, save_encoder
from pucl.errors import InputError, RunError

SHAPE = (1, 28, 28)


def trained(name: str = "lenet5", shape: tuple[int, ...] = SHAPE, **options: Any) -> Encoder:
    """An encoder whose norms have seen data, too."""
    x = torch.rand(20, *shape, generator=Generator().manual_seed(0))
    encoder = Encoder(Standardise.of(x), make_encoder(name, shape, seed=3, **options))
    encoder(x)
    return encoder


def save(folder: Path, encoder: Encoder | None = None, **changes: Any) -> Path:
    about: dict[str, Any] = {"name": "lenet5", "input_shape": SHAPE, "options": {}, "extra": {}}
    return save_encoder(folder, encoder or trained(), **{**about, **changes})


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "encoder.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def same_bits(one: nn.Module, other: nn.Module) -> bool:
    first, second = one.state_dict(), other.state_dict()
    same = all(torch.equal(v, second[k]) and v.dtype == second[k].dtype for k, v in first.items())
    return same and first.keys() == second.keys()


def test_saved_encoder_comes_back_bit_for_bit(tmp_path: Path) -> None:
    encoder, x = trained(), torch.rand(5, *SHAPE)
    state = torch.get_rng_state()
    folder = save(tmp_path / "new" / "folder", encoder, extra={"τ": 0.5, "epochs": 3})
    again = load_encoder(folder)
    assert torch.equal(state, torch.get_rng_state())
    assert same_bits(encoder, again) and not again.training
    assert torch.equal(encoder.eval()(x), again(x))
    assert all(p.requires_grad for p in again.parameters())
    assert sorted(path.name for path in folder.iterdir()) == ["encoder.json", "encoder.safetensors"]
    about = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    assert about["sha256"] == hashlib.sha256((folder / "encoder.safetensors").read_bytes()).hexdigest()
    assert (about["format"], about["name"], about["input_shape"]) == (1, "lenet5", [1, 28, 28])
    assert about["extra"] == {"τ": 0.5, "epochs": 3}


def test_saved_options_precision_and_layout(tmp_path: Path) -> None:
    encoder = trained("mlp", (6,), width=8, depth=2).to(torch.bfloat16)
    encoder.network[1].weight.data = encoder.network[1].weight.data.T.contiguous().T  # type: ignore[index]
    save(tmp_path, encoder, name="mlp", input_shape=(6,), options={"width": 8, "depth": 2})
    assert same_bits(encoder, load_encoder(tmp_path))


def test_saving_again_replaces(tmp_path: Path) -> None:
    save(tmp_path)
    other = trained("mlp", (6,))
    save(tmp_path, other, name="mlp", input_shape=(6,))
    assert same_bits(other, load_encoder(tmp_path)) and len(list(tmp_path.iterdir())) == 2


def test_network_of_ones_own(tmp_path: Path) -> None:
    x = torch.rand(9, 6)
    shared = nn.Linear(6, 6)
    encoder = Encoder(Standardise.of(x), nn.Sequential(shared, shared))
    save(tmp_path, encoder, name=None, input_shape=(6,))
    with pytest.raises(
        InputError, match="^pucl.load_encoder: network must be a module to fill, as the saved one is not"
    ):
        load_encoder(tmp_path)
    layer = nn.Linear(6, 6)
    again = load_encoder(tmp_path, network=nn.Sequential(layer, layer))
    assert torch.equal(again(x), encoder(x)) and torch.equal(layer.weight, shared.weight)
    with pytest.raises(InputError, match="^pucl.load_encoder: the weights in .* do not fit the network: .*") as caught:
        load_encoder(tmp_path, network=nn.Linear(6, 6))
    assert "\n" not in str(caught.value)


def test_truncated_weights_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path) / "encoder.safetensors"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match="must be the file encoder.json was written for .*; got another or a damaged"):
        load_encoder(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="encoder.safetensors cannot be read: No such file"):
        load_encoder(tmp_path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "sprung",))

    data = pickle.dumps(Trap())
    (save(tmp_path) / "encoder.safetensors").write_bytes(data)
    edit(tmp_path, sha256=hashlib.sha256(data).hexdigest())
    with pytest.raises(InputError, match="encoder.safetensors cannot be read"):
        load_encoder(tmp_path)
    assert not (tmp_path / "sprung").exists()


def test_newer_format_is_refused(tmp_path: Path) -> None:
    edit(save(tmp_path), format=2, version="9.0")
    with pytest.raises(InputError, match="must be of format 1 or lower; got format 2, written by pucl 9.0; a newer"):
        load_encoder(tmp_path)


def test_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown encoder 'lenet6': did you mean 'lenet5'"):
        save(tmp_path / "none", name="lenet6")
    assert not (tmp_path / "none").exists()
    edit(save(tmp_path), name="lenet6")
    with pytest.raises(InputError, match="unknown encoder 'lenet6': did you mean 'lenet5'"):
        load_encoder(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "1"}', '{"format": 1, "name": 3}'])
def test_other_json_is_refused(text: str, tmp_path: Path) -> None:
    (save(tmp_path) / "encoder.json").write_text(text)
    with pytest.raises(InputError, match="^pucl.load_encoder: .*encoder.json"):
        load_encoder(tmp_path)


def test_an_empty_folder_and_options_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="folder must be a folder with encoder.json and encoder.safetensors; got"):
        load_encoder(tmp_path)
    edit(save(tmp_path), options={"colour": 1})
    with pytest.raises(InputError, match="encoder 'lenet5' cannot be made again: .*'colour'"):
        load_encoder(tmp_path)
    edit(tmp_path, options={}, input_shape=[3, 28, 28])
    with pytest.raises(InputError, match="do not fit the network"):
        load_encoder(tmp_path)


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="save_encoder: encoder must be one that name='lenet5'.* differs in 0.weight$"):
        save(tmp_path, input_shape=(3, 28, 28))
    with pytest.raises(InputError, match="save_encoder: options must be options of encoder 'lenet5'; got .*'colour'"):
        save(tmp_path, options={"colour": 1})
    for extra in ({"x": object()}, {"x": math.nan}):
        with pytest.raises(InputError, match="save_encoder: options and extra must be what JSON can hold"):
            save(tmp_path, extra=extra)
    assert not list(tmp_path.iterdir())


def test_a_failed_save_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = trained()
    save(tmp_path, old)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(RunError, match="^pucl.save_encoder: cannot write to .*: No space left on device; "):
            save(tmp_path, trained("mlp", (6,)), name="mlp", input_shape=(6,))
    assert same_bits(old, load_encoder(tmp_path)) and len(list(tmp_path.iterdir())) == 2
