"""Pretraining of an encoder: views → encoder → projection head → objective, by name or with your own parts."""

from pucl.training.checkpoints import Checkpoints
from pucl.training.config import TrainConfig
from pucl.training.pretraining import Pretrained, pretrain

__all__ = ["Checkpoints", "Pretrained", "TrainConfig", "pretrain"]
