"""pucl: classifiers from positive and unlabelled data."""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pucl.data import Dataset, load
    from pucl.data.observe import PUData, observe
    from pucl.data.own import OwnData, TableTransform, read
    from pucl.data.pu_split import PUSample, make_pu
    from pucl.embeddings import embed
    from pucl.encoders.saved import load_encoder, save_encoder
    from pucl.errors import InputError
    from pucl.heads import fit_head
    from pucl.labels import check_labels
    from pucl.losses import contrastive_loss
    from pucl.metrics import evaluate
    from pucl.priors import PriorEstimate
    from pucl.pseudo_labels import PseudoLabels, pseudo_label
    from pucl.training import Checkpoints, Pretrained, TrainConfig, pretrain

# Where each public name lives. It is imported on first use: `import pucl` alone loads neither torch nor scikit-learn.
_HOME = (
    ("Checkpoints", "pucl.training"),
    ("Dataset", "pucl.data"),
    ("InputError", "pucl.errors"),
    ("OwnData", "pucl.data.own"),
    ("PUData", "pucl.data.observe"),
    ("PUSample", "pucl.data.pu_split"),
    ("Pretrained", "pucl.training"),
    ("PriorEstimate", "pucl.priors"),
    ("PseudoLabels", "pucl.pseudo_labels"),
    ("TableTransform", "pucl.data.own"),
    ("TrainConfig", "pucl.training"),
    ("check_labels", "pucl.labels"),
    ("contrastive_loss", "pucl.losses"),
    ("embed", "pucl.embeddings"),
    ("evaluate", "pucl.metrics"),
    ("fit_head", "pucl.heads"),
    ("load", "pucl.data"),
    ("load_encoder", "pucl.encoders.saved"),
    ("make_pu", "pucl.data.pu_split"),
    ("observe", "pucl.data.observe"),
    ("pretrain", "pucl.training"),
    ("pseudo_label", "pucl.pseudo_labels"),
    ("read", "pucl.data.own"),
    ("save_encoder", "pucl.encoders.saved"),
)

__all__ = [
    "Checkpoints",
    "Dataset",
    "InputError",
    "OwnData",
    "PUData",
    "PUSample",
    "Pretrained",
    "PriorEstimate",
    "PseudoLabels",
    "TableTransform",
    "TrainConfig",
    "check_labels",
    "contrastive_loss",
    "embed",
    "evaluate",
    "fit_head",
    "load",
    "load_encoder",
    "make_pu",
    "observe",
    "pretrain",
    "pseudo_label",
    "read",
    "save_encoder",
]


def __getattr__(name: str) -> Any:
    for public, home in _HOME:
        if name == public:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'pucl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
