"""Rows, encoders and stand-in packages for the tests of frozen encoders."""

import hashlib
import io
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

N = 120


def labels(n: int = N) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which rows are positive, and PU labels."""
    positive = np.arange(n) < n // 2
    return positive, (np.arange(n) < n // 4).astype(np.int64)


def vectors(n: int = N, width: int = 6) -> NDArray[np.float32]:
    """Rows of two classes, the positive ones further along every axis."""
    rows = np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)
    rows[: n // 2] += 2
    return rows


def images(n: int = N, side: int = 8, channels: int = 3) -> NDArray[np.uint8]:
    """Bytes, of positives brighter."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 120, size=(n, channels, side, side)).astype(np.uint8)
    rows[: n // 2] += 90
    return rows


class Pooled(nn.Module):
    """The user's own encoder: three lines of torch."""

    def __init__(self, out: int = 4) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, out, 3)

    def forward(self, x: Tensor) -> Tensor:
        pooled: Tensor = self.layer(x).mean(dim=(2, 3))
        return pooled


def own_network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return Pooled()


def write_onnx(path: Path, *, side: int | None = None) -> Path:
    """A graph that gives the mean of every channel."""
    import onnx

    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    size = ["h", "w"] if side is None else [side, side]
    axes = onnx.numpy_helper.from_array(np.array([2, 3]), "axes")
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["x", "axes"], ["z"], keepdims=0)],
        "means",
        [helper.make_tensor_value_info("x", floats, ["n", 3, *size])],
        [helper.make_tensor_value_info("z", floats, ["n", 3])],
        [axes],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


class Body(nn.Module):
    """A stand-in for a published network: a convolution, pooled, and a classifier."""

    def __init__(self, classes: int = 5) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 7, 3)
        self.fc = nn.Linear(7, classes) if classes else nn.Identity()
        self.config = SimpleNamespace(to_json_string=lambda: '{"model_type": "stand-in"}')

    def forward(self, x: Tensor | None = None, pixel_values: Tensor | None = None) -> Any:
        given = x if x is not None else pixel_values
        assert given is not None and given.shape[1:] == (3, 12, 12)
        pooled = self.conv(given).mean(dim=(2, 3))
        if pixel_values is not None:
            return SimpleNamespace(pooler_output=None, last_hidden_state=self.conv(given).flatten(2).transpose(1, 2))
        return self.fc(pooled)


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> ModuleType:
    module = ModuleType(name)
    module.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def published(seed: int = 0) -> Body:
    torch.manual_seed(seed)
    return Body()


def stand_in_hub(
    monkeypatch: pytest.MonkeyPatch, calls: list[Any], folder: Path, *, here: bool = True, settings: str = "{}"
) -> None:
    """huggingface_hub, with or without the files on this machine; they come to `folder`."""

    def answer(repo: str, *, local_files_only: bool, **_: Any) -> str:
        calls.append((repo, local_files_only))
        if local_files_only and not here:
            raise FileNotFoundError("not in the cache")
        place = folder / "weights"
        place.mkdir(exist_ok=True)
        (place / "model.safetensors").touch()
        (place / "config.json").write_text(settings, encoding="utf-8")
        return str(place)

    _module(monkeypatch, "huggingface_hub", snapshot_download=answer)


def stand_in_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    def create_model(_: str, *, pretrained: bool, num_classes: int, pretrained_cfg_overlay: Any = None) -> Body:
        assert num_classes == 0 and (pretrained_cfg_overlay is not None) == pretrained
        assert not pretrained or Path(pretrained_cfg_overlay["file"]).is_file()
        body = published(0 if pretrained else 1)
        body.fc = nn.Identity()
        return body

    config = {"input_size": (3, 12, 12), "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2), "interpolation": "bicubic"}
    _module(
        monkeypatch, "timm", create_model=create_model, is_model=lambda name: name == "tiny",
        models=SimpleNamespace(get_pretrained_cfg=lambda _: SimpleNamespace(hf_hub_id="timm/tiny")),
        data=SimpleNamespace(resolve_model_data_config=lambda _: config),
    )  # fmt: skip


def stand_in_torchvision(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *, here: bool = True, fetch: Callable[..., None] | None = None
) -> None:
    """torchvision, with or without the weights on this machine; `fetch` downloads them."""
    content = io.BytesIO()
    torch.save(published().state_dict(), content)
    file = folder / "checkpoints" / f"tiny-{hashlib.sha256(content.getvalue()).hexdigest()[:8]}.pth"
    settings = SimpleNamespace(crop_size=[12], mean=(0.4, 0.4, 0.4), std=(0.3, 0.3, 0.3))

    def write(**_: Any) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.getvalue())

    if here:
        write()
    address = f"https://x/{file.name}"
    weights = SimpleNamespace(url=address, transforms=lambda: settings, get_state_dict=fetch or write)

    def get_model_weights(name: str) -> Any:
        if name != "tiny":
            raise ValueError(f"Unknown model {name}")
        return SimpleNamespace(DEFAULT=weights)

    _module(monkeypatch, "torchvision")
    _module(
        monkeypatch, "torchvision.models", get_model_weights=get_model_weights,
        get_model=lambda _name, weights: published(1),  # noqa: ARG005
    )  # fmt: skip
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder))


def stand_in_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    processor = SimpleNamespace(size={"shortest_edge": 12}, image_mean=[0.5] * 3, image_std=[0.5] * 3, resample=3)

    def without_network(place: str, *, local_files_only: bool, trust_remote_code: bool, **_: Any) -> str:
        assert Path(place).name == "weights" and local_files_only and not trust_remote_code
        return place

    def model(place: str, **options: Any) -> Body:
        assert options["use_safetensors"] and without_network(place, **options)
        return published()

    _module(
        monkeypatch, "transformers",
        AutoModel=SimpleNamespace(from_pretrained=model, from_config=lambda config, **_: published(1)),  # noqa: ARG005
        AutoImageProcessor=SimpleNamespace(from_pretrained=lambda place, **o: processor if without_network(place, **o)
                                           else None),
        AutoConfig=SimpleNamespace(for_model=lambda model_type: model_type),
    )  # fmt: skip
