"""Pretraining of an encoder: views → encoder → projection head → objective, by name or with one's own parts."""

from pucl.training.config import TrainConfig
from pucl.training.pretrain import Pretrained, pretrain

__all__ = ["Pretrained", "TrainConfig", "pretrain"]
