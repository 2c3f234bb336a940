"""From texts to vectors: hashed n-grams with a truncated SVD, which always work, and sentence encoders."""

import hashlib
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from pucl import cache
from pucl.errors import bad_argument, unknown_name
from pucl.registry import get

FAMILY = "text-encoders"
HASHED = "hashed"  # the one that is used unless the user chooses another
PREFIX = "from_"  # of the files of schemes, such as ``st`` of ``st:NAME``
SPREAD = 4.0  # the variance of all dimensions together: a column of text counts as much as four columns of numbers
SAVED = 2048  # new texts after which the cache is written
MAX_SCALED = 2000  # texts from which the scaling is learnt, so that a slow encoder does not read all of them twice

Floats = NDArray[np.float32]
Arrays = Mapping[str, NDArray[Any]]


class TextEncoder(Protocol):
    """A registered text encoder: texts in, vectors out.

    Attributes:
        cached: whether vectors are kept on disk, because the weights are published ones and computing takes long.
    """

    cached: ClassVar[bool]

    @classmethod
    def fit(cls, texts: Sequence[str], *, seed: int) -> "TextEncoder":
        """Learn from training texts what there is to learn."""

    @classmethod
    def load(cls, arrays: Arrays) -> "TextEncoder":
        """The encoder whose `arrays` were stored; a ValueError or KeyError where they are damaged."""

    @property
    def arrays(self) -> Arrays:
        """Everything it has learnt."""

    def encode(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, k); a row depends on its own text only."""


@dataclass(frozen=True)
class TextVectors:
    """A text encoder by name, and the scaling of what it gives.

        z'_j = (z_j − m_j) / (c √σ_j)

    where m_j and σ_j are the mean and the spread of dimension j over the training texts, and c makes the variances of
    all dimensions sum to `SPREAD`. Dimensions of large spread carry the topics, those of small spread mostly noise: the
    root is half-way between keeping the spread and making all dimensions equal (LOG.md). The small sum keeps the ridge
    of linear models strong: 256 standardised dimensions would be fitted to noise.

    Attributes:
        name: of the encoder.
        encoder: the encoder.
        mean: m, (k,).
        scale: c √σ, (k,).
    """

    name: str
    encoder: TextEncoder
    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, name: str, texts: Sequence[str], *, seed: int = 0, download: bool = False) -> "TextVectors":
        """Learn the encoder and the scaling from training texts; weights are fetched only if `download` allows it."""
        scheme, colon, target = name.partition(":")
        if colon:
            encoder: TextEncoder = _published(scheme).open(target, download=download)
            name = f"{scheme}:{Path(target).name}" if Path(target).is_dir() else name  # a model holds no folders
        else:
            encoder = entry_of(name).fit(texts, seed=seed)
        if len(texts) > MAX_SCALED:
            texts = [texts[i] for i in np.random.default_rng(seed).choice(len(texts), MAX_SCALED, replace=False)]
        return cls(name, encoder, *scaling_of(vectors_of(encoder, texts, name=name)))

    @property
    def width(self) -> int:
        """How many numbers stand for a text."""
        return len(self.mean)

    def encode(self, texts: Sequence[str]) -> Floats:
        """Scaled vectors (n, k)."""
        return (vectors_of(self.encoder, texts, name=self.name) - self.mean) / self.scale

    @property
    def arrays(self) -> Arrays:
        """Everything that was learnt; `load` gives back the same vectors."""
        return {"mean": self.mean, "scale": self.scale, **self.encoder.arrays}

    @classmethod
    def load(cls, name: str, arrays: Arrays) -> "TextVectors":
        """The encoder whose `arrays` were stored; a ValueError or KeyError where they are damaged."""
        own = {key: array for key, array in arrays.items() if key not in ("mean", "scale")}
        mean, scale = arrays["mean"], arrays["scale"]
        if mean.ndim != 1 or mean.shape != scale.shape or not (scale > 0).all():
            raise ValueError("the scaling of texts is damaged")
        scheme, colon, _ = name.partition(":")
        encoder: TextEncoder = _published(scheme).load(own) if colon else entry_of(name).load(own)
        return cls(name, encoder, mean, scale)


def scaling_of(z: Floats) -> tuple[Floats, Floats]:
    """The m and c √σ of `TextVectors` for the vectors of training texts (n, k)."""
    spread = z.std(axis=0, dtype=np.float64)
    scale = np.sqrt(np.maximum(spread, 1e-3 * spread.max(initial=1e-12)))
    scale *= np.sqrt(np.square(spread / scale).sum() / SPREAD) or 1.0
    return z.mean(axis=0, dtype=np.float64).astype(np.float32), scale.astype(np.float32)


def vectors_of(encoder: TextEncoder, texts: Sequence[str], *, name: str) -> Floats:
    """Vectors (n, k) before scaling; those of published encoders come from the cache where they are there.

    They are written to it after every `SAVED` new texts, so that what was stopped goes on from there.
    """
    if not encoder.cached or cache.cache_path() is None or not len(texts):
        return encoder.encode(texts)
    identity, keys = identity_of(encoder, name), cache.text_keys(texts)
    known = cache.look_up(identity, keys)
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    for start in range(0, len(missing), SAVED):
        some = [*missing][start : start + SAVED]
        new = encoder.encode([missing[key] for key in some])
        cache.keep(identity, name, some, new)
        known.update(zip(some, new, strict=True))
    return np.stack([known[key] for key in keys])


def identity_of(encoder: TextEncoder, name: str) -> str:
    """A hash of the scheme or name and of all that was learnt; the folder an encoder came from does not count."""
    digest = hashlib.blake2b(name.partition(":")[0].encode(), digest_size=16)
    for key, array in sorted(encoder.arrays.items()):
        digest.update(f"{key}{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def schemes() -> tuple[str, ...]:
    """The schemes of text encoders that people already have, such as ``st`` of ``st:NAME``."""
    found = (module.name for module in pkgutil.iter_modules(__path__) if module.name.startswith(PREFIX))
    return tuple(sorted(name.removeprefix(PREFIX) for name in found))


def check_encoder(name: str, *, owner: str = "pucl") -> str:
    """The name of a text encoder as it is today; one that is not known, or a scheme without a name, is refused."""
    scheme, colon, target = str(name).partition(":")
    if not colon:
        return get(FAMILY, name).name
    if scheme not in schemes():
        raise unknown_name("scheme of a text encoder", scheme, schemes())
    if not target:
        raise bad_argument(owner, "text_encoder", f"{scheme}:NAME with a name", name)
    return name


def _published(scheme: str) -> Any:
    """The class of a scheme; a ValueError where a stored name has none."""
    if scheme not in schemes():
        raise unknown_name("scheme of a text encoder", scheme, schemes())
    return import_module(f"{__name__}.{PREFIX}{scheme}").TextNetwork


def entry_of(name: str) -> type[TextEncoder]:
    """The class of a registered text encoder."""
    """The class of a registered text encoder."""
    encoder: Any = get(FAMILY, name).function
    return encoder  # type: ignore[no-any-return]
