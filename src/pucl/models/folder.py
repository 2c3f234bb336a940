"""Models on disk: a folder of safetensors and JSON, with checksums; nothing is ever unpickled."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of
from torch import Tensor

from pucl import __version__
from pucl.encoders.embedding import embed
from pucl.encoders.frozen.encoder import FrozenEncoder
from pucl.encoders.frozen.resolve import refill
from pucl.encoders.inputs import Encoder
from pucl.encoders.saved import ABOUT as ENCODER_JSON
from pucl.encoders.saved import WEIGHTS as ENCODER_WEIGHTS
from pucl.encoders.saved import load_encoder, read_about, save_encoder
from pucl.errors import Described, InputError, RunError, about_file, bad_argument, one_line, signed_by
from pucl.files import is_temporary, replace_file
from pucl.heads.calibration import Calibrated
from pucl.heads.stored import HeadParts
from pucl.models.evidence import Effect, Evidence, Explained, Shown, well_shaped
from pucl.models.model import Model
from pucl.models.places import check_folder
from pucl.models.record import FitRecord
from pucl.models.schema import Schema
from pucl.models.stored_values import number, text
from pucl.models.swap import LAST, NEW, READY, current, exchanging, read_whole
from pucl.texts import Arrays

FORMAT, OLDEST = 2, 1  # what is written, and the oldest that is read
MODEL, HEAD, EVIDENCE = LAST, "head.safetensors", "evidence.safetensors"
TEXTS = "texts.safetensors"  # what text encoders have learnt, of models that take text
PARTS = (ENCODER_JSON, ENCODER_WEIGHTS, HEAD)  # that every model has, with model.json
FRONT = "front"  # the stem of the files of a frozen encoder
FRONT_FILES = (f"{FRONT}.json", f"{FRONT}.safetensors")
OPTIONAL = (EVIDENCE, TEXTS, *FRONT_FILES)
UNFINISHED = ".fit"  # what an interrupted fit has saved, in the folder of its model to be
SAVE, LOAD = "pucl.save_model", "pucl.load_model"
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".joblib", ".npy", ".npz", ".bin")
PICKLE_START = b"\x80"  # of every pickle since Python 2.3


@dataclass(frozen=True)
class ModelCard:
    """What model.json says of a model, without its tensors."""

    format: int
    written_by: str
    schema: Schema
    record: FitRecord


def check_out(folder: str | Path) -> None:
    """Refuse a folder that is neither new, empty, a model, nor what an interrupted save left of one."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise bad_argument(SAVE, f"folder {folder}", "a folder", Described("a file"))
    if folder.is_dir() and not is_model(folder):
        there = {path.name for path in folder.iterdir() if not is_temporary(path)}
        other = there - {*PARTS, *OPTIONAL, NEW, READY, UNFINISHED}
        if other:
            allowed = "new, empty or a model that is to be replaced"
            raise bad_argument(SAVE, f"folder {folder}", allowed, Described(f"one with {min(other)} in it"))
    for path in (folder / NEW, folder / READY, folder / UNFINISHED, *(folder / UNFINISHED).glob("*")):
        if path.is_symlink():  # what is written into it would end up elsewhere
            got = Described(f"one with the link {path.relative_to(folder)} in it; remove the link")
            raise bad_argument(SAVE, f"folder {folder}", "a folder whose parts are its own", got)
    check_folder(SAVE, "folder", folder)


@signed_by(SAVE)
def save_model(folder: str | Path, model: Model) -> Path:
    """Write the model into a folder. Whatever interrupts this, what loads is the old model or the new one, whole.

    Of several processes that write to one folder, one at a time does, and the last one counts.

    Args:
        folder: made when missing; an existing model is replaced, a folder with other files is refused.
        model: what to write.
    """
    folder = Path(folder)
    check_out(folder)
    try:
        with exchanging(folder, optional=OPTIONAL) as new:
            _write(new, model)
    except OSError as error:
        raise RunError(f"{SAVE}: cannot write to {folder}: {error.strerror or error}") from None
    return folder


def is_model(folder: str | Path) -> bool:
    """Whether a folder holds a model."""
    return (current(Path(folder)) / MODEL).is_file()


def files_of(folder: str | Path) -> dict[str, bytes]:
    """The files of the model in a folder, by name."""
    paths = (current(Path(folder)) / name for name in (MODEL, *PARTS, *OPTIONAL))
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def checksum_of(folder: str | Path) -> str:
    """SHA-256 of the model.json of a model, which has the checksums of its other files."""
    return _sha256((current(Path(folder)) / MODEL).read_bytes())


def _write(folder: Path, model: Model) -> None:
    head = model.head.to_parts()
    content: dict[str, Any] = {
        "format": FORMAT,
        "written_by": __version__,
        "schema": model.schema.to_dict(),
        "head": {"kind": head.kind, **head.options},
        "record": model.record.to_dict(),
        "evidence": _evidence_texts(model.evidence),
    }
    shape = model.schema.shape if model.front is None else _width(model.encoder)
    save_encoder(
        folder, model.encoder, name=model.encoder_name, input_shape=shape, options=model.encoder_options, extra={}
    )
    if model.front is not None:
        about = {"name": model.front.name, "cached": model.front.cached}
        save_encoder(
            folder, model.front, name=model.front.stored_as, input_shape=model.schema.shape,
            options=model.front.options, extra=about, stem=FRONT,
        )  # fmt: skip
    replace_file(folder / HEAD, bytes_of(dict(head.tensors)))
    if model.schema.arrays:
        arrays = {
            name: torch.from_numpy(np.require(array, None, ("C", "W"))) for name, array in model.schema.arrays.items()
        }
        replace_file(folder / TEXTS, bytes_of(arrays))
    if model.evidence is not None:
        replace_file(folder / EVIDENCE, bytes_of(_evidence_tensors(model.evidence)))
    content["files"] = {path.name: _sha256(path.read_bytes()) for path in sorted(folder.iterdir())}
    replace_file(folder / MODEL, _signed(content))


@signed_by(LOAD)
def load_model(folder: str | Path, *, network: Any = None) -> Model:
    """The model that `save_model` wrote. Files that are damaged, exchanged, missing or pickles are refused.

    Args:
        folder: with model.json in it.
        network: a module to fill, for a model whose encoder is not a registered one; or the user's own function or
            transformer that it was fitted with.
    """
    folder = Path(folder)
    with about_file(str(folder)):
        return read_whole(folder, lambda: _load(folder, network))


def _load(folder: Path, network: Any) -> Model:
    content = _read(folder)
    _no_pickles(folder)
    folder = current(folder)
    data = {name: _checked(folder / name, expected) for name, expected in content["files"].items()}
    texts = (
        {name: tensor.numpy() for name, tensor in _tensors(folder / TEXTS, data[TEXTS]).items()}
        if TEXTS in data
        else {}
    )
    card = _card(content, texts)
    schema = card.schema
    front = _front(folder, data, network)
    encoder = load_encoder(folder, network=None if front is not None or network is None else refill(network))
    stored = json.loads(data[ENCODER_JSON])
    shape = tuple(stored["input_shape"] if front is None else json.loads(data[FRONT_FILES[0]])["input_shape"])
    if shape != schema.shape:
        got = Described(f"rows of {shape} and a schema of {schema.shape}")
        raise bad_argument(LOAD, str(folder), "an encoder and a schema that belong together", got)
    head = _head(content["head"], _tensors(folder / HEAD, data[HEAD]))
    evidence = None
    if EVIDENCE in data:
        evidence = _evidence(content.get("evidence"), _tensors(folder / EVIDENCE, data[EVIDENCE]))
    model = Model(schema, encoder, stored["name"], head, card.record, evidence, front, stored["options"])
    _check_computes(model)
    return model


def _check_computes(model: Model) -> None:
    """The parts of a model take what the part before them gives: two rows of zeros go through what was trained here."""
    transform = model.schema.transform
    width = model.schema.shape if transform is None else (sum(rule.width for rule in transform.rules),)
    try:
        with torch.no_grad():
            rows = torch.zeros(2, *(width if model.front is None else _width(model.encoder)))
            taken = rows if model.front is not None or transform is None else model.schema.features(rows)
            vectors = rows if model.head.takes == "rows" else embed(model.encoder, taken)
            shape = tuple(model.head(vectors).shape)
    except Exception as error:  # whatever sizes that were changed lead to
        problem = f"its encoder and its head do not belong together: {one_line(error)}"
        raise InputError(problem, owner=LOAD) from None
    if shape != (2,):
        raise InputError("its encoder and its head do not belong together", owner=LOAD)


def _front(folder: Path, data: Mapping[str, bytes], network: Any) -> FrozenEncoder | None:
    """The frozen encoder of a model; None where it has none."""
    if FRONT_FILES[0] not in data:
        return None
    about = read_about(folder / FRONT_FILES[0])
    known = about.get("extra")
    if not isinstance(known, dict) or "name" not in known:
        raise bad_argument(LOAD, str(folder / FRONT_FILES[0]), "complete", Described("no usable name of the encoder"))
    if about["name"] is None and network is None:
        why = "as your own code is not stored with a model (network= of load, in Python)"
        what = f"the encoder {known['name']!r} again, {why}"
        raise bad_argument(LOAD, "network", what, None)
    own = refill(network) if about["name"] is None else None
    loaded = load_encoder(folder, network=own, stem=FRONT)
    cached = known.get("cached") is True
    return FrozenEncoder(
        loaded.network, name=str(known["name"]), stored_as=about["name"], options=about["options"], cached=cached
    )


def _width(encoder: Encoder) -> tuple[int, ...]:
    """The length of the vectors that an encoder of vectors takes."""
    return tuple(encoder.standardise.mean.shape)


def read_card(folder: str | Path) -> ModelCard:
    """What model.json says of the model in a folder; the tensors are not read."""
    with about_file(str(folder)):
        return read_whole(Path(folder), lambda: _card(_read(folder)))


def _card(content: Mapping[str, Any], texts: Arrays | None = None) -> ModelCard:
    record = FitRecord.from_dict(content[_record_key(content["format"])])
    schema = Schema.from_dict(content["schema"], texts)
    return ModelCard(content["format"], str(content.get("written_by")), schema, record)


def _record_key(format_: int) -> str:
    return "about" if format_ == 1 else "record"


def _read(folder: str | Path) -> dict[str, Any]:
    """The content of model.json, after its checksum, format and keys were checked."""
    path = current(Path(folder)) / MODEL
    if not path.is_file():
        interrupted = (Path(folder) / UNFINISHED).is_dir()
        got = Described(f"{str(folder)!r}, whose fit was interrupted ('pucl fit … --resume' goes on)")
        raise bad_argument(LOAD, "folder", f"a model folder, with {MODEL} in it", got if interrupted else str(folder))
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {one_line(error)}", owner=LOAD) from None
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise bad_argument(LOAD, str(path), "written by pucl", Described("another JSON file"))
    if version > FORMAT:
        by = Described(f"format {version}; install pucl {content.get('written_by', '(unknown)')} or newer to read it")
        raise bad_argument(LOAD, str(path), f"of format {FORMAT} or lower", by)
    if version < OLDEST:
        by = Described(f"format {version}; fit it again, or install pucl {content.get('written_by', '(unknown)')}")
        raise bad_argument(LOAD, str(path), f"of format {OLDEST} or higher", by)
    if content.pop("sha256", None) != _sha256(_canonical(content)):
        raise bad_argument(LOAD, str(path), "as it was written (by its SHA-256)", Described("a changed file"))
    missing = [
        key for key in ("schema", "head", _record_key(version), "files") if not isinstance(content.get(key), dict)
    ]
    if missing:
        raise bad_argument(LOAD, str(path), "complete", Described(f"no usable {', '.join(missing)}"))
    if not {*PARTS} <= {*content["files"]} <= {*PARTS, *OPTIONAL}:
        raise bad_argument(LOAD, str(path), f"about {', '.join(PARTS)}", Described(", ".join(content["files"])))
    return dict(content)


def _signed(content: Mapping[str, Any]) -> bytes:
    try:
        plain = json.loads(json.dumps(content, allow_nan=False))  # as it will be read: tuples are lists then
    except (TypeError, ValueError) as error:
        raise bad_argument(SAVE, "model.record", "what JSON can hold", Described(str(error))) from None
    signed = {**plain, "sha256": _sha256(_canonical(plain))}
    return f"{json.dumps(signed, indent=1, ensure_ascii=False)}\n".encode(errors="surrogatepass")


def _canonical(content: Mapping[str, Any]) -> bytes:
    """In the order it has: that of columns means something."""
    return json.dumps(content, separators=(",", ":")).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _checked(path: Path, expected: str) -> bytes:
    """The bytes of a file whose checksum model.json knows."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", owner=LOAD) from None
    if _sha256(data) != expected:
        got = Described(f"another or a damaged one ({len(data):,} bytes)")
        raise bad_argument(LOAD, str(path), f"the file {MODEL} was written for (by its SHA-256)", got)
    return data


def _no_pickles(folder: Path) -> None:
    """Refuse a folder with a pickle in it; the model's own files are compared with their checksums."""
    for path in sorted(folder.iterdir()):
        known = path.name in (*PARTS, *OPTIONAL) or is_temporary(path)
        if path.is_file() and not known and _is_pickle(path):
            raise bad_argument(LOAD, str(folder), "a folder without pickles", Described(path.name))


def _is_pickle(path: Path) -> bool:
    if path.suffix.lower() in PICKLES:
        return True
    try:
        with path.open("rb") as file:
            return file.read(1) == PICKLE_START
    except OSError:
        return False  # it is never read


def _tensors(path: Path, data: bytes) -> dict[str, Tensor]:
    try:
        tensors: dict[str, Tensor] = tensors_of(data)
    except SafetensorError as error:
        raise InputError(f"{path} cannot be read: {error}", owner=LOAD) from None
    return tensors


def _head(about: Mapping[str, Any], tensors: dict[str, Tensor]) -> Calibrated:
    options = dict(about)
    try:
        return Calibrated.from_parts(HeadParts(options.pop("kind"), options, tensors))
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"the stored head cannot be used: {one_line(error)}", owner=LOAD) from None


def _evidence_texts(evidence: Evidence | None) -> dict[str, Any] | None:
    """What JSON holds of it: names and values."""
    if evidence is None:
        return None
    texts: dict[str, Any] = {
        part: {"ids": shown.ids, "values": shown.values} for part, shown in _shown(evidence).items()
    }
    return {**texts, "n_unlabelled": evidence.n_unlabelled, "explained": [asdict(each) for each in evidence.explained]}


def _shown(evidence: Evidence) -> dict[str, Shown]:
    return {"points": evidence.points, "top": evidence.top, "unsure": evidence.unsure}


def _evidence_tensors(evidence: Evidence) -> dict[str, Tensor]:
    arrays: dict[str, Any] = {
        name: getattr(evidence, name) for name in ("place", "held_logit", "held_labelled", "quantiles", "embedding")
    }
    arrays |= {"keys": evidence.keys, "shown": evidence.shown}
    for part, shown in _shown(evidence).items():
        for name in ("row", "probability", "labelled", "pictures"):
            arrays[f"{part}.{name}"] = getattr(shown, name)
    return {name: torch.from_numpy(np.ascontiguousarray(a)) for name, a in arrays.items() if a is not None}


def _evidence(texts: Any, tensors: Mapping[str, Tensor]) -> Evidence:
    def shown(part: str) -> Shown:
        arrays = {name: tensors[f"{part}.{name}"].numpy() for name in ("row", "probability", "labelled")}
        pictures = tensors.get(f"{part}.pictures")
        values = texts[part]["values"]
        return Shown(
            tuple(texts[part]["ids"]), **arrays,
            pictures=None if pictures is None else pictures.numpy(),
            values=None if values is None else {name: tuple(column) for name, column in values.items()},
        )  # fmt: skip

    try:
        return well_shaped(Evidence(
            points=shown("points"),
            place=tensors["place"].numpy(),
            top=shown("top"),
            unsure=shown("unsure"),
            held_logit=tensors["held_logit"].numpy(),
            held_labelled=tensors["held_labelled"].numpy(),
            quantiles=tensors["quantiles"].numpy(),
            n_unlabelled=int(texts["n_unlabelled"]),
            embedding=tensors["embedding"].numpy() if "embedding" in tensors else None,
            explained=tuple(_explained(each) for each in texts.get("explained", ())),
            keys=tensors["keys"].numpy() if "keys" in tensors else None,
            shown=tensors["shown"].numpy() if "shown" in tensors else None,
        ))  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the stored evidence is damaged: {one_line(error)}", owner=LOAD) from None


def _explained(content: Mapping[str, Any]) -> Explained:
    effects = (Effect(text(each["column"]), text(each["value"]), number(each["change"])) for each in content["effects"])
    return Explained(text(content["id"]), tuple(effects))
