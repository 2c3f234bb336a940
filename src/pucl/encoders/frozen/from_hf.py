"""``hf:ORG/NAME``: a vision network of transformers; size, mean and spread are those of its image processor."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn

from pucl.encoders.preprocessing import Preprocess
from pucl.encoders.shapes import Shape
from pucl.errors import InputError, bad_argument, one_line
from pucl.weights import check_settings, folder_of, need

LOCAL = MappingProxyType({"local_files_only": True, "trust_remote_code": False})
BICUBIC = 3  # among the resampling methods of image processors


class HuggingFaceNetwork(nn.Module):
    """Images within [0, 1] → the network's own image features or pooled output, or else the mean over positions."""

    own_scaling = True

    def __init__(self, preprocess: Preprocess, body: nn.Module) -> None:
        super().__init__()
        self.preprocess, self.body = preprocess, body

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) → (n, k)."""
        pixels = self.preprocess(x)
        features = getattr(self.body, "get_image_features", None)  # of networks of images and text, such as CLIP
        if features is not None:
            out = features(pixel_values=pixels)
            pooled = out if isinstance(out, Tensor) else out.pooler_output
        else:
            out = self.body(pixel_values=pixels)
            pooled = getattr(out, "pooler_output", None)
            if pooled is None:
                last: Tensor = out.last_hidden_state
                pooled = last.mean(dim=1) if last.ndim == 3 else last.mean(dim=(2, 3))
        result: Tensor = pooled
        return result.flatten(1)


def load(target: str, input_shape: Shape, *, owner: str, download: bool) -> tuple[nn.Module, dict[str, Any]]:
    """The network with its weights, from the cache of huggingface_hub or, if allowed, from its site; no remote code."""
    if len(input_shape) != 3:
        raise bad_argument(owner, "encoder", "hf:ORG/NAME for images only", f"hf:{target}")
    transformers = need("transformers", f"encoder 'hf:{target}'")
    place = str(folder_of(target, f"encoder 'hf:{target}'", owner=owner, download=download))
    try:  # from a folder, so that nothing is asked of the network
        check_settings(json.loads(Path(place, "config.json").read_text(encoding="utf-8")), f"encoder 'hf:{target}'")
        body = transformers.AutoModel.from_pretrained(place, use_safetensors=True, **LOCAL)
        processor = transformers.AutoImageProcessor.from_pretrained(place, **LOCAL)
    except InputError:
        raise
    except Exception as error:  # what transformers lacks shows only here
        text = one_line(error)
        problem = f"'hf:{target}' cannot be used as an encoder of images (weights in safetensors only): {text}"
        raise InputError(problem, owner=owner) from None
    options: dict[str, Any] = {
        "size": [_side(processor.size, side) for side in ("height", "width")],
        "mean": [float(value) for value in processor.image_mean],
        "std": [float(value) for value in processor.image_std],
        "mode": "bicubic" if getattr(processor, "resample", 2) == BICUBIC else "bilinear",
    }
    config = json.loads(body.config.to_json_string())
    return _with(body, input_shape, **options), {**options, "config": config}


def _side(size: Any, name: str) -> int:
    """The side of images by an image processor: its own, or that of the shorter edge."""
    known: Any = size if isinstance(size, dict) else vars(size)
    return int(known.get(name) or known["shortest_edge"])


def build(target: str, input_shape: Shape, *, config: dict[str, Any], **options: Any) -> nn.Module:
    """The network without its weights, which are loaded later."""
    transformers = need("transformers", f"encoder 'hf:{target}'")
    check_settings(config, f"encoder 'hf:{target}'")
    body = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(**config), trust_remote_code=False)
    return _with(body, input_shape, **options)


def _with(
    body: nn.Module, shape: Shape, *, size: list[int], mean: list[float], std: list[float], mode: str
) -> nn.Module:
    return HuggingFaceNetwork(Preprocess(shape[0], (size[0], size[1]), mean, std, mode), body)
