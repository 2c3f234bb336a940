"""How to train: one frozen set of values, checked when it is made."""

from dataclasses import dataclass

from pucl.errors import bad_argument, check_count, check_positive

OWNER = "TrainConfig"


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation of the contrastive stage; the defaults are the authors' released settings.

    Attributes:
        epochs: passes over the data.
        batch_size: samples per step (two views each); a smaller data set is one batch.
        learning_rate: LARS learning rate at the top of the schedule.
        final_learning_rate: where the cosine ends.
        warmup_epochs: epochs of linear warm-up; never more than a tenth of all.
        momentum: of LARS.
        weight_decay: on weights, not on biases and norms.
        projection: hidden and output width of the projection head.
        seed: of the weights, the batches and the views.
    """

    epochs: int = 300
    batch_size: int = 1024
    learning_rate: float = 1.2
    final_learning_rate: float = 1e-5
    warmup_epochs: int = 10
    momentum: float = 0.9
    weight_decay: float = 1e-4
    projection: tuple[int, int] = (512, 128)
    seed: int = 0

    def __post_init__(self) -> None:
        check_count(OWNER, "epochs", self.epochs)
        check_count(OWNER, "batch_size", self.batch_size, low=2)
        check_positive(OWNER, "learning_rate", self.learning_rate)
        check_count(OWNER, "warmup_epochs", self.warmup_epochs, low=0)
        check_count(OWNER, "seed", self.seed, low=0)
        for width in self.projection:
            check_count(OWNER, "projection", width)
        for name in ("final_learning_rate", "momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise bad_argument(OWNER, name, "a number in [0, 1)", getattr(self, name))
