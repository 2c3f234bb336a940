"""A frozen encoder in front of a fit: rows become vectors once, and everything after takes these vectors."""

import warnings
from dataclasses import dataclass, replace

from torch import Tensor, nn
from torch import device as Device

from pucl.encoders.frozen.embedding import embed_frozen
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.resolve import is_frozen, resolve
from pucl.encoders.frozen.views import view_vectors
from pucl.encoders.plain import RAW
from pucl.errors import Described, RunWarning, bad_argument, users_line
from pucl.fitting.encode import TRAINED
from pucl.fitting.plan import AUTO, FitOptions, name_of
from pucl.fitting.progress import OnProgress, StageProgress
from pucl.fitting.project import PROJECTION
from pucl.models.record import FitRecord
from pucl.models.schema import Schema
from pucl.training.pretraining import default_view
from pucl.views import make_view

FROZEN, HEAD, ALL = "frozen", "head", "all"  # how far an encoder is tuned; or AUTO
AS_REQUESTED, KEPT = "as requested", "kept from the model that this fit started from"  # why it was taken


@dataclass(frozen=True)
class Front:
    """A frozen encoder, what it makes of the rows, and how far it is tuned.

    Attributes:
        encoder: rows → vectors.
        schema: of the rows.
        tune: ``"frozen"``, ``"head"`` or ``"auto"``.
        vectors: of the rows, (n, k).
        views: of random views of the rows, (n, v, k); None where nothing is trained on them.
    """

    encoder: FrozenEncoder
    schema: Schema
    tune: str
    vectors: Tensor
    views: Tensor | None = None

    @property
    def inner_schema(self) -> Schema:
        """What the rest of the fit takes."""
        return Schema("vector", tuple(self.vectors.shape[1:]))

    def inner_options(self, options: FitOptions) -> FitOptions:
        """What the user chose about the rest of the fit: of training only where something is trained."""
        encoder = PROJECTION if self.tune == HEAD else AUTO
        if self.tune != FROZEN:
            return replace(options, encoder=encoder, view=AUTO, fine_tune=False, tune=None)
        return replace(
            options, encoder=encoder, objective=AUTO, view=AUTO, epochs=None, batch_size=None, learning_rate=None,
            fine_tune=False, tune=None,
        )  # fmt: skip


def whole_network(rows: Tensor, schema: Schema, options: FitOptions) -> tuple[FitOptions, FrozenEncoder | None]:
    """With ``tune="all"``, the options with the network itself as the encoder to train; otherwise as they are.

    That the code of the user's own network is not stored with a model is said here, before it is trained.
    """
    frozen = is_frozen(options.encoder, options.tune)
    if isinstance(options.encoder, nn.Module) and not frozen:
        _say_not_stored(type(options.encoder).__name__)
    if options.tune != ALL or not frozen:
        return options, None
    encoder = _resolved(rows, schema, options)
    if not encoder.trainable:
        allowed = "'frozen', 'head' or 'auto' for an encoder without weights to train"
        raise bad_argument(options.owner, "tune", allowed, options.tune)
    network = encoder.network.requires_grad_(requires_grad=True)
    network.own_scaling = True  # type: ignore[assignment]
    return replace(options, encoder=network), encoder


def front_of(
    rows: Tensor, schema: Schema, options: FitOptions, device: Device, on_progress: OnProgress | None = None
) -> Front | None:
    """The frozen encoder with its vectors of the rows; None where an encoder is trained from its start, or none used.

    What cannot be stored with a model is said here, before rows are encoded.
    """
    if not is_frozen(options.encoder, options.tune) or options.tune == ALL:
        return None
    encoder = _resolved(rows, schema, options)
    if encoder.stored_as is None:
        _say_not_stored(encoder.name)

    def tell(share: float) -> None:
        if on_progress is not None:
            on_progress(StageProgress("encoding", share, f"with {encoder.name}"))

    tell(0.0)

    tune = options.tune or FROZEN
    vectors = embed_frozen(encoder, rows, owner=options.owner, device=device, on_progress=tell)
    views = None if tune == FROZEN else _views(encoder, rows, vectors, options, device)
    return Front(encoder, schema, tune, vectors, views)


def with_front(record: FitRecord, front: Front, options: FitOptions, *, why: str = AS_REQUESTED) -> FitRecord:
    """The record of a fit of vectors as one of the rows: their kind, the encoder, and `why` it was taken."""
    name, choices = front.encoder.name, record.choices
    names = ((f"{RAW} + ", f"{name} + "), (f"{TRAINED} + ", f"{name} + {PROJECTION} + "))

    def renamed(text: str) -> str:
        for old, new in names:
            text = text.replace(old, new)
        return text

    first = [f"Encoder {name}: {why}, used as it came; {front.vectors.shape[1]:,} numbers a row."]
    if options.fine_tune:
        first.append("No fine-tuning: the encoder is frozen; tune='all' trains it.")
    left_out = ("No pretraining", "Raw rows: reduced") if choices.training is None else ()
    reasons = [renamed(reason) for reason in record.reasons if not reason.startswith(left_out)]
    return replace(
        record,
        kind=front.schema.kind,
        choices=replace(choices, encoder=name if choices.training is None else f"{name} + {choices.encoder}"),
        candidates=tuple(replace(each, name=renamed(each.name)) for each in record.candidates),
        reasons=(*first, *reasons),
    )


def _say_not_stored(name: str) -> None:
    text = (
        f"Encoder {name} is your own code, which is not stored with a model: pass it again when you load one "
        "(PUClassifier.load(folder, network=…))."
    )
    warnings.warn(text, RunWarning, stacklevel=users_line())


def _resolved(rows: Tensor, schema: Schema, options: FitOptions) -> FrozenEncoder:
    if schema.kind == "table":
        allowed = (
            "left out for tables; for texts use text_encoder=, for a matrix of numbers without missing values "
            "kind='vector'"
        )
        raise bad_argument(options.owner, "encoder", allowed, Described(name_of(options.encoder)))
    return resolve(options.encoder, rows, owner=options.owner, download=options.download)


def _views(encoder: FrozenEncoder, rows: Tensor, vectors: Tensor, options: FitOptions, device: Device) -> Tensor:
    """The vectors of the rows and of random views of them."""
    default = default_view(tuple(rows.shape[1:])) if rows.ndim == 4 else "vector"
    chosen = default if options.view == AUTO else options.view
    view = make_view(chosen) if isinstance(chosen, str) else chosen
    return view_vectors(encoder, rows, vectors, view, seed=options.seed, owner=options.owner, device=device)
