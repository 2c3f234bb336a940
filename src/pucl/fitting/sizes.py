"""How long an encoder is trained, in batches of how many rows, and by which optimiser, where the user did not say."""

from typing import TYPE_CHECKING, Any

from torch import device as Device

from pucl.models.schema import Schema
from pucl.training.config import TrainConfig

if TYPE_CHECKING:
    from pucl.fitting.plan import FitOptions

CPU_STEPS, GPU_STEPS, TABLE_STEPS = 400, 15_000, 600  # of pretraining on images, and on tables and vectors
MANY = 20_000  # rows from which the authors' batches and epochs are used; fewer rows are soon memorised
OWN_WEIGHTS_EPOCHS, OWN_WEIGHTS_RATE, OWN_WEIGHTS_BATCH = 5, 1e-4, 64  # of a network that came with weights
MAX_EPOCHS, MAX_EPOCHS_FEW_ROWS, MAX_EPOCHS_TABLE = 300, 60, 60


def batch_size_for(schema: Schema, n: int) -> int:
    """Rows of a batch where the user did not say."""
    largest = 1024 if schema.kind == "image" and n >= MANY else 256 if schema.kind == "image" else 512
    return max(2, min(largest, n // 4))


def config_for(options: "FitOptions", schema: Schema, n: int, batch: int, device: Device) -> TrainConfig:
    """Epochs, optimiser and rate: as the user chose, else by kind and number of rows and by device."""
    images = schema.kind == "image"
    if getattr(options.encoder, "own_scaling", False):  # it has weights, which a small rate for some epochs keeps
        epochs, rate = options.epochs or OWN_WEIGHTS_EPOCHS, options.learning_rate or OWN_WEIGHTS_RATE
        few = options.batch_size or min(batch, OWN_WEIGHTS_BATCH)
        return TrainConfig(epochs=epochs, batch_size=few, seed=options.seed, optimiser="adamw", learning_rate=rate)
    steps = TABLE_STEPS if not images else GPU_STEPS if device.type == "cuda" else CPU_STEPS
    max_epochs = MAX_EPOCHS_TABLE if not images else MAX_EPOCHS if n >= MANY else MAX_EPOCHS_FEW_ROWS
    epochs = options.epochs or max(5, min(max_epochs, round(steps / max(1, n // batch))))
    if images:
        # The authors' 1.2 at batches of 1,024; small sets of small batches learn faster with more (LOG.md).
        optimiser: dict[str, Any] = {"optimiser": "lars", "learning_rate": 1.2 if batch >= 1024 else 4.0}
    else:
        optimiser = {"optimiser": "adamw", "learning_rate": 1e-3}
    if options.learning_rate is not None:
        optimiser["learning_rate"] = options.learning_rate
    return TrainConfig(epochs=epochs, batch_size=batch, seed=options.seed, **optimiser)
