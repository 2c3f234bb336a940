"""pucl: classifiers from positive and unlabelled data."""

import importlib
import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Threads of torch that wait sleep instead of spinning, unless the user has said otherwise; see pucl.numerics.threads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Nothing that pucl runs reports to anybody: newer versions of onnxruntime would, and leave a file in TMPDIR.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

if TYPE_CHECKING:
    from pucl.baselines import fit_baseline, settings_of
    from pucl.data import Dataset, load
    from pucl.data.observe import PUData, observe
    from pucl.data.own import OwnData, TableTransform, read
    from pucl.data.pu_split import PUSample, make_pu
    from pucl.encoders.embedding import embed
    from pucl.encoders.saved import load_encoder, save_encoder
    from pucl.errors import InputError
    from pucl.estimators import PriorEstimator, PseudoLabeller, PUBaseline, PUClassifier, PUEncoder, pu_scorer
    from pucl.heads import fit_head
    from pucl.heads.calibration import Calibrated
    from pucl.heads.finetune import fine_tune, self_train
    from pucl.heads.momentum import MomentumConfig, momentum_train
    from pucl.heads.tuning import TuneConfig
    from pucl.labels import check_labels
    from pucl.losses import ContrastiveLoss, contrastive_loss
    from pucl.metrics import evaluate
    from pucl.models.folder import load_model, save_model
    from pucl.models.model import Model
    from pucl.models.scorer import Scorer, scorer
    from pucl.priors import PriorEstimate
    from pucl.pseudo_labels import PseudoLabels, pseudo_label
    from pucl.ranking.prior import estimate_prior
    from pucl.risks import PURisk, pu_risk
    from pucl.selection import PUScores, Selection, diagnose, hold_out, pu_scores, select, threshold_curve
    from pucl.training import Checkpoints, Pretrained, TrainConfig, pretrain

# Where each public name lives. It is imported on first use: `import pucl` alone loads neither torch nor scikit-learn.
_HOME = (
    ("Calibrated", "pucl.heads.calibration"),
    ("Checkpoints", "pucl.training"),
    ("ContrastiveLoss", "pucl.losses"),
    ("Dataset", "pucl.data"),
    ("InputError", "pucl.errors"),
    ("Model", "pucl.models.model"),
    ("MomentumConfig", "pucl.heads.momentum"),
    ("OwnData", "pucl.data.own"),
    ("PUBaseline", "pucl.estimators"),
    ("PUClassifier", "pucl.estimators"),
    ("PUData", "pucl.data.observe"),
    ("PUEncoder", "pucl.estimators"),
    ("PURisk", "pucl.risks"),
    ("PUSample", "pucl.data.pu_split"),
    ("PUScores", "pucl.selection"),
    ("Pretrained", "pucl.training"),
    ("PriorEstimate", "pucl.priors"),
    ("PriorEstimator", "pucl.estimators"),
    ("PseudoLabeller", "pucl.estimators"),
    ("PseudoLabels", "pucl.pseudo_labels"),
    ("Scorer", "pucl.models.scorer"),
    ("Selection", "pucl.selection"),
    ("TableTransform", "pucl.data.own"),
    ("TrainConfig", "pucl.training"),
    ("TuneConfig", "pucl.heads.tuning"),
    ("check_labels", "pucl.labels"),
    ("contrastive_loss", "pucl.losses"),
    ("diagnose", "pucl.selection"),
    ("embed", "pucl.encoders.embedding"),
    ("estimate_prior", "pucl.ranking.prior"),
    ("evaluate", "pucl.metrics"),
    ("fine_tune", "pucl.heads.finetune"),
    ("fit_baseline", "pucl.baselines"),
    ("fit_head", "pucl.heads"),
    ("hold_out", "pucl.selection"),
    ("load", "pucl.data"),
    ("load_encoder", "pucl.encoders.saved"),
    ("load_model", "pucl.models.folder"),
    ("make_pu", "pucl.data.pu_split"),
    ("momentum_train", "pucl.heads.momentum"),
    ("observe", "pucl.data.observe"),
    ("pretrain", "pucl.training"),
    ("pseudo_label", "pucl.pseudo_labels"),
    ("pu_risk", "pucl.risks"),
    ("pu_scorer", "pucl.estimators"),
    ("pu_scores", "pucl.selection"),
    ("read", "pucl.data.own"),
    ("save_encoder", "pucl.encoders.saved"),
    ("save_model", "pucl.models.folder"),
    ("scorer", "pucl.models.scorer"),
    ("select", "pucl.selection"),
    ("self_train", "pucl.heads.finetune"),
    ("settings_of", "pucl.baselines"),
    ("threshold_curve", "pucl.selection"),
)

__all__ = [
    "Calibrated",
    "Checkpoints",
    "ContrastiveLoss",
    "Dataset",
    "InputError",
    "Model",
    "MomentumConfig",
    "OwnData",
    "PUBaseline",
    "PUClassifier",
    "PUData",
    "PUEncoder",
    "PURisk",
    "PUSample",
    "PUScores",
    "Pretrained",
    "PriorEstimate",
    "PriorEstimator",
    "PseudoLabeller",
    "PseudoLabels",
    "Scorer",
    "Selection",
    "TableTransform",
    "TrainConfig",
    "TuneConfig",
    "check_labels",
    "contrastive_loss",
    "diagnose",
    "embed",
    "estimate_prior",
    "evaluate",
    "fine_tune",
    "fit_baseline",
    "fit_head",
    "hold_out",
    "load",
    "load_encoder",
    "load_model",
    "make_pu",
    "momentum_train",
    "observe",
    "pretrain",
    "pseudo_label",
    "pu_risk",
    "pu_scorer",
    "pu_scores",
    "read",
    "save_encoder",
    "save_model",
    "scorer",
    "select",
    "self_train",
    "settings_of",
    "threshold_curve",
]

_PARTS = ("losses", "risks")  # found as pucl.losses and pucl.risks without an import of their own
_RENAMED = (("PseudoLabeler", "PseudoLabeller"),)  # old names and new ones; the old ones go with the next version


def __getattr__(name: str) -> Any:
    for old, new in _RENAMED:
        if name == old:
            from pucl.deprecation import warn_renamed

            warn_renamed("pucl", old, new)
            name = new
    if name in _PARTS:
        return importlib.import_module(f"pucl.{name}")
    for public, home in _HOME:
        if name == public:
            return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'pucl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PARTS})
