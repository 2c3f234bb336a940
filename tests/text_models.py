"""Tiny networks of texts: real folders where transformers is installed, and stand-ins for the packages."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from text_examples import BATTERY, ORDERS, SHARED

KNOWN = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *BATTERY, *ORDERS, *SHARED)


def tiny_bert(folder: Path) -> Path:
    """A BERT of two small layers with random weights, and its tokeniser, as transformers saves them."""
    transformers = pytest.importorskip("transformers")
    import torch

    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(KNOWN), encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(KNOWN), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformers.BertModel(config).save_pretrained(folder)
    tokeniser = transformers.BertTokenizer(vocab=str(folder / "vocab.txt"), model_max_length=64)
    tokeniser.save_pretrained(folder)
    return folder


def tiny_sentence_model(folder: Path) -> Path:
    """The same with mean pooling, as sentence-transformers saves it."""
    sentence_transformers = pytest.importorskip("sentence_transformers")
    plain = str(tiny_bert(folder / "bert"))
    sentence_transformers.SentenceTransformer(plain, device="cpu", local_files_only=True).save(str(folder / "st"))
    return folder / "st"


def stand_in_sentence_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose models count the words of a vocabulary in their folder."""

    class SentenceTransformer:
        def __init__(self, place: str, *, local_files_only: bool, trust_remote_code: bool, **_: Any) -> None:
            assert local_files_only and not trust_remote_code
            self.words = json.loads((Path(place) / "words.json").read_text(encoding="utf-8"))

        def encode(self, texts: Sequence[str], **_: Any) -> Any:
            counts = [[re.findall(r"\w+", text).count(word) for word in self.words] for text in texts]
            return np.array(counts, dtype=np.float32)

    module = ModuleType("sentence_transformers")
    module.__dict__["SentenceTransformer"] = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)


def stand_in_folder(folder: Path) -> Path:
    """What the stand-in reads, beside files that must not be taken along."""
    folder.mkdir()
    (folder / "words.json").write_text(json.dumps([*BATTERY, *ORDERS]), encoding="utf-8")
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.Transformer"}]))
    (folder / "pytorch_model.bin").write_bytes(b"a pickle")
    (folder / "code.py").write_text("raise SystemExit")
    return folder
