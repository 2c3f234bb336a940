"""``timm:NAME``: a network of timm with its published weights; size, mean and spread are those it was trained with."""

from typing import Any

from torch import nn

from pucl.encoders.preprocessing import Preprocess, Preprocessed
from pucl.encoders.shapes import Shape
from pucl.errors import InputError
from pucl.weights import folder_of, need

WEIGHTS = "model.safetensors"  # of its repository; pickled weights are not read


def load(target: str, input_shape: Shape, *, owner: str, download: bool) -> tuple[nn.Module, dict[str, Any]]:
    """The network with its weights, from the cache of huggingface_hub or, if allowed, from its site."""
    timm = need("timm", f"encoder 'timm:{target}'")
    published = timm.models.get_pretrained_cfg(target) if timm.is_model(target.split(".", maxsplit=1)[0]) else None
    place = getattr(published, "hf_hub_id", None)
    if place is None:
        problem = (
            f"timm has no model {target!r} with weights on the Hugging Face hub; timm.list_models(pretrained=True)"
        )
        raise InputError(problem, owner=owner)
    file = folder_of(place, f"encoder 'timm:{target}'", owner=owner, download=download) / WEIGHTS
    if not file.is_file():
        raise InputError(f"'timm:{target}' has no {WEIGHTS}; pickled weights are not read", owner=owner)
    body = timm.create_model(target, pretrained=True, num_classes=0, pretrained_cfg_overlay={"file": str(file)})
    settings = timm.data.resolve_model_data_config(body)
    options: dict[str, Any] = {
        "size": [int(side) for side in settings["input_size"][-2:]],
        "mean": [float(value) for value in settings["mean"]],
        "std": [float(value) for value in settings["std"]],
        "mode": str(settings.get("interpolation", "bilinear")),
    }
    return _with(body, input_shape, **options), options


def build(target: str, input_shape: Shape, **options: Any) -> nn.Module:
    """The network without its weights, which are loaded later."""
    timm = need("timm", f"encoder 'timm:{target}'")
    if not timm.is_model(target.split(".", maxsplit=1)[0]):  # hf-hub:… and local-dir:… would be looked for elsewhere
        raise InputError(f"timm has no model {target!r}; timm.list_models() has the names")
    return _with(timm.create_model(target, pretrained=False, num_classes=0), input_shape, **options)


def _with(
    body: nn.Module, shape: Shape, *, size: list[int], mean: list[float], std: list[float], mode: str
) -> nn.Module:
    return Preprocessed(Preprocess(shape[0], (size[0], size[1]), mean, std, mode), body)
