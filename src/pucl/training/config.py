"""How to train: one frozen set of values, checked when it is made."""

from dataclasses import dataclass
from typing import Literal

from pucl.errors import bad_argument, check_count, check_known, check_positive, check_share, is_number

OWNER = "TrainConfig"
OPTIMISERS = ("lars", "sgd", "adamw")
PRECISIONS = ("auto", "float32", "bfloat16")
# These change the speed of a run but not its result: a resumed run may change them.
FREE = ("compile", "capture", "resident")


@dataclass(frozen=True)
class TrainConfig:
    """Optimisation of the contrastive stage; by default as in the paper, or in the authors' code where it is silent.

    Attributes:
        epochs: passes over the data.
        batch_size: samples per step (two views each), over all processes together.
        chunk_size: samples, over all processes together, that go through the encoder at a time, while the loss sees the
            whole batch (cached gradients): the memory of a small batch for the gradient of a large one, in up to twice
            the time. Batch norm in the encoder then takes its statistics from a chunk. None: the whole batch at once.
        optimiser: ``"lars"``, ``"sgd"`` or ``"adamw"``.
        learning_rate: at the top of the schedule.
        final_learning_rate: where the cosine ends.
        warmup_epochs: epochs of linear warm-up; never more than a tenth of all.
        momentum: of LARS (Nesterov's) and SGD.
        weight_decay: of LARS on everything, of SGD and AdamW not on biases and norms.
        clip: largest norm of the gradient, to which larger ones are scaled down; None for no clipping.
        average: the decay of a running average of the weights, such as 0.999, which is then what is kept; 0 keeps the
            weights of the last step.
        projection: hidden and output width of the projection head.
        output_norm: batch norm on the output of the projection head, as in the authors' released code.
        labelled_share: share of labelled rows in every batch; None draws all rows alike. With a larger share than in
            the data, the encoder may learn to separate labelled from unlabelled positives; `held_out` shows whether.
        held_out: share of the labelled positives whose label is hidden from training, to see whether the others
            drift away from them.
        precision: ``"bfloat16"`` (autocast) or ``"float32"``; ``"auto"`` is bfloat16 on a GPU, float32 on a CPU.
        deterministic: only deterministic cuDNN algorithms, as in the paper.
        seed: of the weights, the batches and the views.
        compile: compile network and view with `torch.compile`: some twenty seconds at the start. The package's own
            encoders have fused kernels and gain nothing; your own network on a GPU may.
        capture: replay the whole step as a CUDA graph; None where it is safe (the package's own views and encoders).
        resident: keep all rows on the device; None where they fit, otherwise they are streamed.
    """

    epochs: int = 300
    batch_size: int = 1024
    chunk_size: int | None = None
    optimiser: Literal["lars", "sgd", "adamw"] = "lars"
    learning_rate: float = 1.2
    final_learning_rate: float = 1e-5
    warmup_epochs: int = 10
    momentum: float = 0.9
    weight_decay: float = 1e-4
    clip: float | None = None
    average: float = 0.0
    projection: tuple[int, int] = (512, 128)
    output_norm: bool = False
    labelled_share: float | None = None
    held_out: float = 0.0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    deterministic: bool = False
    seed: int = 0
    compile: bool = False
    capture: bool | None = None
    resident: bool | None = None

    def __post_init__(self) -> None:
        check_count(OWNER, "epochs", self.epochs)
        check_count(OWNER, "batch_size", self.batch_size, low=2)
        check_positive(OWNER, "learning_rate", self.learning_rate)
        check_count(OWNER, "warmup_epochs", self.warmup_epochs, low=0)
        check_count(OWNER, "seed", self.seed, low=0)
        for name, known in (("optimiser", OPTIMISERS), ("precision", PRECISIONS)):
            check_known(OWNER, name, [getattr(self, name)], known)
        if not isinstance(self.projection, tuple | list) or len(self.projection) != 2:
            raise bad_argument(OWNER, "projection", "(hidden width, output width)", self.projection)
        for width in self.projection:
            check_count(OWNER, "projection", width)
        for name in ("final_learning_rate", "momentum", "weight_decay", "held_out", "average"):
            value = getattr(self, name)
            if not is_number(value) or not 0 <= value < 1:
                raise bad_argument(OWNER, name, "a number in [0, 1)", value)
        if self.clip is not None:
            check_positive(OWNER, "clip", self.clip)
        if self.labelled_share is not None:
            check_share(OWNER, "labelled_share", self.labelled_share)
        if self.chunk_size is not None:
            self._check_chunks(check_count(OWNER, "chunk_size", self.chunk_size, low=2))

    @property
    def chunks(self) -> int:
        """How many chunks a batch has."""
        return self.batch_size // (self.chunk_size or self.batch_size)

    def _check_chunks(self, size: int) -> None:
        if self.batch_size % size:
            raise bad_argument(OWNER, "chunk_size", f"a divisor of batch_size ({self.batch_size:,})", size)
        for name in ("compile", "capture"):  # the second pass runs inside the backward pass, where neither reaches
            if getattr(self, name):
                raise bad_argument(OWNER, name, "left out with chunk_size", True)
