"""Tops: what stands on an encoder, by name. A labeller with a head, a PU head, fine-tuning, or a reference.

| top | labeller | head | is told |
|---|---|---|---|
| pupl | puPL | linear | nothing |
| auto | the default labeller | linear | nothing |
| nnpu | none | nnPU risk | the true π |
| nnpu_auto | none | nnPU risk | an estimate of π from the embeddings |
| finetune | the default labeller | encoder and linear layer together | nothing |
| knn | – | k nearest training rows, k = 200, τ = 0.1 | every training label |
| ceiling | the truth | linear | every training label |
| finetune_ceiling | the truth | encoder and linear layer together | every training label |

A grid adds its own under ``[top.NAME]``, with the keys `labeller`, `head`, `prior`, `labeller_options`, `head_options`.
With ``labeller = "teacher"`` the labels are the probabilities of another pipeline on the same rows, which `teacher`
describes: a table with `encoder`, `recipe`, `top` and, where it is not the cell's own, `objective`. With
``head_options = { match = true }`` fine-tuning asks it about every view of a row, not once about the row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pucl.bench.cells import FINE_TUNE, KNN, KNN_OPTIONS, MATCH, ORACLE, TEACHER, TRUTH, Config
from pucl.bench.options import keywords, resolved
from pucl.errors import bad_argument, unknown_name
from pucl.heads.finetune import fine_tune
from pucl.pseudo_labels import AUTO
from pucl.registry import entries, get

KEYS = ("labeller", "head", "prior", "labeller_options", "head_options", TEACHER)
TEACHER_KEYS = ("encoder", "recipe", "top", "objective")
BUILT_IN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pupl": {"labeller": "pupl", "head": "linear"},
        "auto": {"labeller": "auto", "head": "linear"},
        "nnpu": {"head": "nnpu", "prior": ORACLE},
        "nnpu_auto": {"head": "nnpu", "prior": "auto"},
        "finetune": {"labeller": "auto", "head": FINE_TUNE},
        "knn": {"labeller": TRUTH, "head": KNN},
        "ceiling": {"labeller": TRUTH, "head": "linear"},
        "finetune_ceiling": {"labeller": TRUTH, "head": FINE_TUNE, "head_options": {"renew": False}},
    }
)
NOT_FOR_GRIDS = ("prior", "seed", "device", "teacher")  # they come from the cell


def resolve_top(name: str, defined: Mapping[str, Any]) -> Config:
    """The keys of a cell that describe its top; `defined` are the grid's own, which come before the built-in ones."""
    known = {**BUILT_IN, **defined}
    if name not in known:
        raise unknown_name("top", name, known)
    owner, given = f"top {name!r}", known[name]
    if not isinstance(given, Mapping):
        raise bad_argument(owner, "its description", "a table", given)
    for key in given:
        if key not in KEYS:
            raise unknown_name(f"key of {owner}", key, KEYS)
    if "head" not in given:
        raise bad_argument(owner, "head", f"given: a head, '{FINE_TUNE}' or '{KNN}'", None)
    labeller = given.get("labeller")
    labeller = AUTO if labeller == "auto" else labeller
    if labeller is None and given["head"] != "nnpu" and given["head"] != "upu":
        raise bad_argument(owner, "labeller", f"given with the head {given['head']!r}", None)
    if (labeller == TEACHER) != (TEACHER in given):
        raise bad_argument(owner, TEACHER, "a table, with the labeller 'teacher' only", given.get(TEACHER))
    options = _head_options(given["head"], given.get("head_options", {}))
    if MATCH in options and labeller != TEACHER:
        raise bad_argument(owner, MATCH, "given with the labeller 'teacher' only", options[MATCH])
    return {
        "top": name,
        "labeller": labeller,
        "labeller_options": _labeller_options(labeller, given.get("labeller_options", {})),
        "head": given["head"],
        "head_options": options,
        "top_prior": check_prior(owner, given.get("prior")),
    }


def check_teacher(owner: str, given: Any) -> Mapping[str, Any]:
    """The description of a teacher: encoder, recipe and top have to be given."""
    if not isinstance(given, Mapping) or not {*TEACHER_KEYS[:3]} <= given.keys():
        raise bad_argument(owner, TEACHER, f"a table with {', '.join(TEACHER_KEYS[:3])}", given)
    for key in given:
        if key not in TEACHER_KEYS:
            raise unknown_name(f"key of the teacher of {owner}", key, TEACHER_KEYS)
    return given


def check_prior(owner: str, prior: Any) -> str | None:
    """None, "oracle" or the name of an estimator."""
    known = (ORACLE, "auto", *entries("priors"))
    if prior is not None and prior not in known:
        raise unknown_name(f"prior of {owner}", prior, known)
    return None if prior is None else str(prior)


def _labeller_options(labeller: str | None, given: Any) -> dict[str, Any]:
    if labeller in (None, TRUTH, TEACHER):
        return resolved(f"labeller {labeller!r}", {}, given)
    function = get("pseudo-labellers", str(labeller)).function
    return resolved(f"labeller {labeller!r}", keywords(function), given, without=NOT_FOR_GRIDS)


def _head_options(head: str, given: Any) -> dict[str, Any]:
    owner = f"head {head!r}"
    if head == KNN:
        return {**KNN_OPTIONS, **resolved(owner, {}, given)}
    if head != FINE_TUNE:
        if head not in entries("heads"):
            raise unknown_name("head", head, (*entries("heads"), FINE_TUNE, KNN))
        return resolved(owner, keywords(get("heads", head).function), given, without=NOT_FOR_GRIDS)
    defaults = {**keywords(fine_tune), "view_options": None, MATCH: False}
    options = resolved(owner, defaults, given, without=NOT_FOR_GRIDS)
    if "view" in options:
        shown = keywords(get("views", options["view"]).function)
        options["view_options"] = resolved(f"view {options['view']!r}", shown, options.get("view_options", {}))
    elif "view_options" in options:
        raise bad_argument(owner, "view", "given with view_options", None)
    return options
