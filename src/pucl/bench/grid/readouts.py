"""Tops: what stands on an encoder, by name. A labeller with a head, a PU head, fine-tuning, or a reference.

| top | labeller | head | is told |
|---|---|---|---|
| pupl | puPL | linear | nothing |
| auto | kernel_cvir, the default labeller of the first campaign | linear | nothing |
| stacked | stacked, the default labeller | linear | nothing |
| nnpu | none | nnPU risk | the true π |
| nnpu_auto | none | nnPU risk | an estimate of π from the embeddings |
| finetune | kernel_cvir | encoder and linear layer together | nothing |
| stacked_finetune | stacked | encoder and linear layer together | nothing |
| knn | – | k nearest training rows, k = 200, τ = 0.1 | every training label |
| ceiling | the truth | linear | every training label |
| finetune_ceiling | the truth | encoder and linear layer together | every training label |

A grid adds its own under ``[top.NAME]``, with the keys `labeller`, `head`, `prior`, `labeller_options`, `head_options`.
With ``labeller_options = { other_embeddings = "raw" }`` a labeller that can weigh several embeddings sees the raw rows
too.
With ``labeller = "teacher"`` the labels are the probabilities of another pipeline on the same rows, which `teacher`
describes: a table with `encoder`, `recipe`, `top` and, where it is not the cell's own, `objective`. With
``head_options = { match = true }`` fine-tuning asks it about every view of a row, not once about the row.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_type_hints

from pucl.bench.grid.cells import (
    FINE_TUNE,
    KNN,
    KNN_OPTIONS,
    MATCH,
    ORACLE,
    OTHERS,
    RAW,
    TEACHER,
    TRUTH,
    Config,
    stored_options,
)
from pucl.bench.grid.options import keywords, resolved
from pucl.bench.grid.recipes import VIEW, VIEW_OPTIONS, resolve_view
from pucl.bench.grid.toml import as_name, as_table
from pucl.bench.grid.tune_options import tuning_defaults, tuning_kinds
from pucl.errors import InputError, bad_argument, blamed_on, check_known, unknown_name
from pucl.pseudo_labels.labellers import find_labeller, labellers, renamed_options
from pucl.registry import entries, get

KEYS = ("labeller", "head", "prior", "labeller_options", "head_options", TEACHER)
TEACHER_KEYS = ("encoder", "recipe", "top", "objective")
BUILT_IN: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pupl": {"labeller": "pupl", "head": "linear"},
        "auto": {"labeller": "auto", "head": "linear"},
        "stacked": {"labeller": "stacked", "head": "linear"},
        "nnpu": {"head": "nnpu", "prior": ORACLE},
        "nnpu_auto": {"head": "nnpu", "prior": "auto"},
        "finetune": {"labeller": "auto", "head": FINE_TUNE},
        "stacked_finetune": {"labeller": "stacked", "head": FINE_TUNE},
        "knn": {"labeller": TRUTH, "head": KNN},
        "ceiling": {"labeller": TRUTH, "head": "linear"},
        "finetune_ceiling": {"labeller": TRUTH, "head": FINE_TUNE, "head_options": {"renew": False}},
    }
)
FIRST_LABELLER = "kernel_cvir"  # what "auto" means in grids: the default labeller when most stored cells were run
NOT_FOR_GRIDS = ("prior", "seed", "device", "teacher")  # they come from the cell


def resolve_top(name: str, defined: Mapping[str, Any]) -> Config:
    """The keys of a cell that describe its top; `defined` are the grid's own, which come before the built-in ones."""
    known = {**BUILT_IN, **defined}
    if name not in known:
        raise unknown_name("top", name, known)
    owner = f"top {name!r}"
    given = as_table(owner, "its description", known[name])
    check_known(owner, "key", given, KEYS)
    head, labeller = given.get("head"), given.get("labeller")
    if not isinstance(head, str):
        raise bad_argument(owner, "head", f"the name of a head, '{FINE_TUNE}' or '{KNN}'", head)
    with blamed_on(owner):
        labeller = _labeller_name(labeller)
    if labeller is None and head not in ("nnpu", "upu"):
        raise bad_argument(owner, "labeller", f"given with the head {head!r}", None)
    if (labeller == TEACHER) != (TEACHER in given):
        raise bad_argument(owner, TEACHER, "a table, with the labeller 'teacher' only", given.get(TEACHER))
    with blamed_on(owner):
        labeller_options = _labeller_options(labeller, given.get("labeller_options", {}))
        options = _head_options(head, given.get("head_options", {}))
    if MATCH in options and labeller != TEACHER:
        raise bad_argument(owner, MATCH, "given with the labeller 'teacher' only", options[MATCH])
    return {
        "top": name,
        "labeller": labeller,
        "labeller_options": labeller_options,
        "head": head,
        "head_options": options,
        "top_prior": check_prior(owner, given.get("prior")),
    }


def check_teacher(owner: str, given: Any) -> Mapping[str, Any]:
    """The description of a teacher: encoder, recipe and top have to be given."""
    if not isinstance(given, Mapping) or not {*TEACHER_KEYS[:3]} <= given.keys():
        raise bad_argument(owner, TEACHER, f"a table with {', '.join(TEACHER_KEYS[:3])}", given)
    check_known(f"{owner}: {TEACHER}", "key", given, TEACHER_KEYS)
    for key in ("recipe", "top", "objective"):
        if key in given:
            as_name(owner, f"{key} of the teacher", given[key])
    if "objective" in given:
        check_known(f"{owner}: {TEACHER}", "losses", [given["objective"]], entries("losses"))
    return given


def check_prior(owner: str, prior: Any) -> str | None:
    """None, "oracle" or the name of an estimator."""
    if prior is not None:
        check_known(owner, "prior", [prior], (ORACLE, "auto", *entries("priors")))
    return None if prior is None else str(prior)


def _labeller_options(name: Any, given: Any) -> dict[str, Any]:
    owner = f"labeller {name!r}"
    if name in (None, TRUTH, TEACHER):
        return resolved(owner, {}, given)
    entry = labellers()[name]
    function = entry.function
    kinds = {**get_type_hints(function), OTHERS: str | None}  # by name
    if isinstance(given, Mapping):
        given = renamed_options(owner, entry, given)
    options = resolved(owner, keywords(function), given, kinds=kinds, without=NOT_FOR_GRIDS)
    if options.get(OTHERS, RAW) != RAW:
        raise bad_argument(owner, OTHERS, f"{RAW!r}, the rows themselves", options[OTHERS])
    return stored_options(options)


def _labeller_name(given: Any) -> Any:
    """The name of a labeller as it is now; None, the truth and a teacher stay."""
    if given in (None, TRUTH, TEACHER):
        return given
    if given == "auto":
        return FIRST_LABELLER
    try:
        return find_labeller(given, owner="grid").name
    except (InputError, TypeError):
        raise unknown_name("labeller", given, ("auto", TRUTH, TEACHER, *labellers())) from None


def _head_options(head: str, given: Any) -> dict[str, Any]:
    owner = f"head {head!r}"
    if head == KNN:
        return {**KNN_OPTIONS, **resolved(owner, {}, given)}
    if head != FINE_TUNE:
        if head not in entries("heads"):
            raise unknown_name("head", head, (*entries("heads"), FINE_TUNE, KNN))
        entry = get("heads", head)
        if isinstance(given, Mapping):
            given = renamed_options(owner, entry, given)
        kinds = get_type_hints(entry.function)
        return stored_options(resolved(owner, keywords(entry.function), given, kinds=kinds, without=NOT_FOR_GRIDS))
    defaults = {**tuning_defaults(), VIEW_OPTIONS: None, MATCH: False}
    kinds = {**tuning_kinds(), MATCH: bool}
    options = resolved(owner, defaults, given, kinds=kinds, without=NOT_FOR_GRIDS)
    if VIEW in options:
        options[VIEW_OPTIONS] = resolve_view(options[VIEW], options.get(VIEW_OPTIONS, {}))
    elif VIEW_OPTIONS in options:
        raise bad_argument(owner, VIEW, f"given with {VIEW_OPTIONS}", None)
    return options
