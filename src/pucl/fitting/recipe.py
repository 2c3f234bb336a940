"""What somebody wants of a fit, and what is chosen from the data where they do not say."""

from dataclasses import dataclass
from typing import Any

from torch import device as Device
from torch import nn

from pucl.errors import bad_argument, check_count, check_positive, check_share, is_number, unknown_name
from pucl.heads.stored import stored_heads
from pucl.models.record import TrainingChoices
from pucl.models.schema import Schema
from pucl.registry import entries, get
from pucl.training.config import TrainConfig
from pucl.training.pretraining import default_view
from pucl.views import View

OWNER = "PUClassifier"
AUTO, RAW, AXES = "auto", "raw", "axes"
FEWEST, FEWEST_LABELLED = 500, 20  # rows and labelled rows below which nothing can be learnt by contrast
CPU_STEPS, GPU_STEPS, TABLE_STEPS = 400, 15_000, 600  # of pretraining on images, and on tables and vectors
MANY = 20_000  # rows from which the authors' batches and epochs are meant; fewer are soon learnt by heart
MOST_EPOCHS, MOST_FEW, MOST_TABLE = 300, 60, 60
WIDE, HELD = 1 << 15, 1 << 28  # numbers of an image, and of all of them, up to which they are tried as they are


@dataclass(frozen=True)
class Recipe:
    """What was asked for; ``"auto"`` and None leave the choice to the data. The names are those of `PUClassifier`."""

    objective: str = AUTO
    prior: float | str | None = None
    encoder: str | nn.Module = AUTO
    view: str | View = AUTO
    labeller: str = AUTO
    head: str = AUTO
    temperature: float = 0.5
    epochs: int | None = None
    batch_size: int | None = None
    learning_rate: float | None = None
    fine_tune: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        for argument, family in (("objective", "losses"), ("labeller", "pseudo-labellers")):
            if getattr(self, argument) != AUTO:
                get(family, getattr(self, argument))
        if isinstance(self.encoder, str) and self.encoder != AUTO:
            get("encoders", self.encoder)
        if isinstance(self.view, str) and self.view != AUTO:
            get("views", self.view)
        if isinstance(self.prior, str):
            if self.prior != AUTO:
                get("priors", self.prior)
        elif self.prior is not None:
            if not is_number(self.prior):
                raise bad_argument(OWNER, "prior", "None, a number or the name of an estimator", self.prior)
            check_share(OWNER, "prior", self.prior)
        if self.head not in (AUTO, *stored_heads()):
            raise unknown_name("head of a model", self.head, (AUTO, *stored_heads()))
        check_positive(OWNER, "temperature", self.temperature)
        for name in ("epochs", "batch_size"):
            if getattr(self, name) is not None:
                check_count(OWNER, name, getattr(self, name), low=1 if name == "epochs" else 2)
        if self.learning_rate is not None:
            check_positive(OWNER, "learning_rate", self.learning_rate)
        check_count(OWNER, "seed", self.seed, low=0)


@dataclass(frozen=True)
class Pretraining:
    """How the encoder is to be trained, with the reasons."""

    encoder: str | nn.Module
    objective: str
    view: str | View
    config: TrainConfig
    reasons: tuple[str, ...]

    @property
    def choices(self) -> TrainingChoices:
        """As a record holds it; what is not registered is named by its type."""
        config = self.config
        return TrainingChoices(
            self.objective, name_of(self.view), config.epochs, config.batch_size, config.optimiser,
            config.learning_rate, config.weight_decay,
        )  # fmt: skip


def name_of(part: Any) -> str:
    """The name of a registered part, or the type of one's own."""
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


def plan_pretraining(recipe: Recipe, schema: Schema, n: int, n_labelled: int, device: Device) -> Pretraining | None:
    """How to train the encoder, or None where that would not pay: too few rows, or the raw rows were asked for."""
    asked = recipe.encoder != AUTO
    if recipe.encoder in (RAW, AXES) or (not asked and (n < FEWEST or n_labelled < FEWEST_LABELLED)):
        return None
    encoder, why = _encoder(recipe, schema, device)
    view = recipe.view if recipe.view != AUTO else _view(schema)
    objective = recipe.objective if recipe.objective != AUTO else "pucl" if recipe.prior is None else "punce"
    if entries("losses")[objective].needs_prior and recipe.prior is None:
        raise bad_argument(OWNER, "prior", f"a number or an estimator's name for objective {objective!r}", None)
    batch = recipe.batch_size or _batch_size(schema, n)
    config = _config(recipe, schema, n, min(batch, n), device)
    reasons = (
        f"encoder {name_of(encoder)}: {why}",
        f"view {name_of(view)}: " + ("as asked" if recipe.view != AUTO else f"made for rows of kind {schema.kind}"),
        f"objective {objective}: "
        + ("as asked" if recipe.objective != AUTO else "no prior is given" if objective == "pucl" else "a prior is"),
        f"{config.epochs} epochs of batches of {config.batch_size} with {config.optimiser}: for {n:,} rows on a "
        f"{'GPU' if device.type == 'cuda' else 'CPU'}",
    )
    return Pretraining(encoder, objective, view, config, reasons)


def _encoder(recipe: Recipe, schema: Schema, device: Device) -> tuple[str | nn.Module, str]:
    if recipe.encoder != AUTO:
        return recipe.encoder, "as asked"
    if schema.kind != "image":
        return "mlp", "rows are no images"
    side = min(schema.shape[1:])
    if device.type != "cuda":
        return "small_cnn", "quick on a CPU"
    if side < 16:
        return "small_cnn", "tiny images"
    return ("cnn7bn", "images of up to 48 pixels") if side < 48 else ("resnet18", "images of 48 pixels or more")


def _view(schema: Schema) -> str:
    return {"image": default_view(schema.shape), "table": "scarf", "vector": "vector"}[schema.kind]


def _batch_size(schema: Schema, n: int) -> int:
    largest = 1024 if schema.kind == "image" and n >= MANY else 256 if schema.kind == "image" else 512
    return max(2, min(largest, n // 4))


def _config(recipe: Recipe, schema: Schema, n: int, batch: int, device: Device) -> TrainConfig:
    images = schema.kind == "image"
    steps = TABLE_STEPS if not images else GPU_STEPS if device.type == "cuda" else CPU_STEPS
    most = MOST_TABLE if not images else MOST_EPOCHS if n >= MANY else MOST_FEW
    epochs = recipe.epochs or max(5, min(most, round(steps / max(1, n // batch))))
    if images:
        # The authors' 1.2 at batches of 1,024; small sets of small batches learn faster with more (LOG.md).
        how: dict[str, Any] = {"optimiser": "lars", "learning_rate": 1.2 if batch >= 1024 else 4.0}
    else:
        how = {"optimiser": "adamw", "learning_rate": 1e-3}
    if recipe.learning_rate is not None:
        how["learning_rate"] = recipe.learning_rate
    return TrainConfig(epochs=epochs, batch_size=batch, seed=recipe.seed, **how)
