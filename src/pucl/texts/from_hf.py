"""``hf:ORG/NAME``: a network of texts of transformers, from its hub or a folder; the mean over the pieces of words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from pucl.device import pick_device
from pucl.texts import Floats
from pucl.texts.published import Encode, PublishedEncoder
from pucl.weights import need

PACKAGE = "transformers"
BATCH, MOST = 64, 512  # texts at a time, and pieces of words that are read


@dataclass(frozen=True)
class TextNetwork(PublishedEncoder):
    """What the network makes of the pieces of words, averaged.

        z = h / |h|,  h = Σ_t x_t / T

    where x_t is the last hidden state at the T first pieces of words of a text, at most `MOST`.
    """

    scheme: ClassVar[str] = "hf"

    @classmethod
    def check_packages(cls, what: str) -> None:
        """The package transformers."""
        need(PACKAGE, what)

    def opened(self, folder: Path) -> Encode:
        """The network and the tokeniser in a folder."""
        transformers = need(PACKAGE, f"text encoder '{self.scheme}'")
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        tokeniser = transformers.AutoTokenizer.from_pretrained(str(folder), **local)
        if tokeniser.pad_token is None:
            tokeniser.pad_token = tokeniser.eos_token
        network = transformers.AutoModel.from_pretrained(str(folder), use_safetensors=True, **local)
        network = network.eval().to(pick_device(None))
        return lambda texts: _means(network, tokeniser, texts)


@torch.no_grad()
def _means(network: Any, tokeniser: Any, texts: Sequence[str]) -> Floats:
    """Texts of about the same length go through together."""
    order = np.argsort([len(text) for text in texts], kind="stable")
    parts = []
    for start in range(0, len(order), BATCH):
        some = [texts[i] for i in order[start : start + BATCH]]
        most = min(MOST, tokeniser.model_max_length)
        pieces = tokeniser(some, padding=True, truncation=True, max_length=most, return_tensors="pt")
        pieces = pieces.to(network.device)
        known = pieces["attention_mask"][..., None]
        x = network(**pieces).last_hidden_state
        parts.append(F.normalize((x * known).sum(dim=1) / known.sum(dim=1).clamp(min=1), dim=1).float().cpu().numpy())
    vectors = np.concatenate(parts)
    vectors[order] = vectors.copy()
    return vectors
