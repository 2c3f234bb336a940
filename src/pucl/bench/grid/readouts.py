"""Readouts: what reads an encoder's embeddings, by name. A labeller with a head, a PU head, fine-tuning, a reference.

| readout | labeller | head | is given |
|---|---|---|---|
| pupl | puPL | linear, on probabilities | nothing |
| pupl_hard | puPL, as the paper's algorithm | linear, on hard labels, nothing moved afterwards | nothing |
| pupl_released | puPL from the means of P and U, as the released code | as pupl_hard | nothing |
| kernel_cvir | kernel_cvir | linear | nothing |
| stacked | stacked | linear | nothing |
| nnpu | none | nnPU risk | the true π |
| nnpu_auto | none | nnPU risk | an estimate of π from the embeddings |
| naive_head | none | logistic regression of P against U, CE | nothing |
| naive_mixup_head | none | the baseline `naive_mixup` as a linear classifier | nothing |
| nnpu_mixup_head | none | the baseline `nnpu_mixup` as a linear classifier | the true π |
| vpu_head | none | the baseline `vpu` as a linear classifier | nothing |
| p3mix_c_head | none | the baseline `p3mix_c` as a linear classifier | nothing |
| kernel_cvir_finetune | kernel_cvir | encoder and linear layer together | nothing |
| stacked_finetune | stacked | encoder and linear layer together | nothing |
| knn | – | k nearest training rows, k = 200, τ = 0.1 | every training label |
| ceiling | the truth | linear | every training label |
| finetune_ceiling | the truth | encoder and linear layer together | every training label |
| moving_labels | stacked | both, on labels that move to the nearest prototype | nothing |
| moving_stacked | stacked | both, on labels that move to those of `stacked` on the network itself | nothing |
| moving_ceiling | the truth | both as in moving_labels; its labels stay | every training label |

``auto`` and ``finetune`` stand for ``stacked`` and ``stacked_finetune``, those with the default labeller. Cells hold
the name of what was run, so that results keep their meaning when the default changes.

A head "baseline" fits a baseline, its `method`, to the embeddings in place of raw rows; its other options are the
settings of that method.

A grid adds its own under ``[readout.NAME]``, with the keys `labeller`, `head`, `prior`, `labeller_options`,
`head_options`. With ``labeller_options = { other_embeddings = "raw" }`` a labeller that can weigh several embeddings
sees the raw rows too. With ``labeller = "teacher"`` the labels are the probabilities of another pipeline on the same
rows, which `teacher` describes: a table with `encoder`, `recipe`, `readout` and, where it is not the cell's own,
`objective`. With ``head_options = { match = true }`` the teacher labels every view of a row anew, not the row once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, get_type_hints

from pucl.bench.grid import renames
from pucl.bench.grid.cells import (
    BY_BASELINE,
    FINE_TUNE,
    KNN,
    KNN_OPTIONS,
    MOMENTUM,
    ORACLE,
    PU_HEADS,
    TEACHER,
    TRUTH,
    TUNING,
    Readout,
)
from pucl.bench.grid.decode import Option, Options, as_table, decode, from_json, keywords, resolved, values_of
from pucl.bench.grid.recipes import VIEWS, options_of, resolve_view
from pucl.bench.grid.tune_options import config_of, tuning_defaults, tuning_kinds
from pucl.deprecation import with_new_names
from pucl.errors import Described, InputError, bad_argument, blamed_on, check_known, unknown_name
from pucl.pseudo_labels.labellers import find_labeller, labellers, renamed_options
from pucl.ranking import DEFAULT_RANKER
from pucl.registry import Entry, entries, get

METHOD = "method"  # an option of the head "baseline": which one
OF_LINEAR: Options = MappingProxyType(
    {"epochs": 50, "batch_size": 512, "learning_rate": 0.01}
)  # of a linear classifier
IN_STREAMS: Options = MappingProxyType({**OF_LINEAR, "steps": 20, "labelled_batch": 512})
KEYS = ("labeller", "head", "prior", "labeller_options", "head_options", TEACHER)
MATCH = "match"  # an option of fine-tuning in grids: the teacher labels every view
OTHERS, RAW = "other_embeddings", "raw"  # an option of labellers in grids: what else they see, and its only value
KNN_READOUT = "knn"
STILL: Options = MappingProxyType({"label_momentum": 1.0, "confident_negative": 0.0})  # labels that never move
BUILT_IN: Mapping[str, Options] = MappingProxyType(
    {
        "pupl": {"labeller": "pupl", "head": "linear"},
        "pupl_hard": {"labeller": "pupl", "head": "linear", "head_options": {"soft": False}},
        "pupl_released": {
            "labeller": "pupl",
            "labeller_options": {"start": "means"},
            "head": "linear",
            "head_options": {"soft": False},
        },
        "kernel_cvir": {"labeller": "kernel_cvir", "head": "linear"},
        "stacked": {"labeller": "stacked", "head": "linear"},
        "nnpu": {"head": "nnpu", "prior": ORACLE},
        "nnpu_auto": {"head": "nnpu", "prior": "auto"},
        "naive_head": {"head": BY_BASELINE, "head_options": {METHOD: "naive"}},
        "naive_mixup_head": {"head": BY_BASELINE, "head_options": {METHOD: "naive_mixup", **OF_LINEAR}},
        "nnpu_mixup_head": {"head": BY_BASELINE, "head_options": {METHOD: "nnpu_mixup", **OF_LINEAR}, "prior": ORACLE},
        "vpu_head": {"head": BY_BASELINE, "head_options": {METHOD: "vpu", **IN_STREAMS, "weight": 0.03}},
        "p3mix_c_head": {"head": BY_BASELINE, "head_options": {METHOD: "p3mix_c", **IN_STREAMS}},
        "kernel_cvir_finetune": {"labeller": "kernel_cvir", "head": FINE_TUNE},
        "stacked_finetune": {"labeller": "stacked", "head": FINE_TUNE},
        KNN_READOUT: {"labeller": TRUTH, "head": KNN},
        "ceiling": {"labeller": TRUTH, "head": "linear"},
        "finetune_ceiling": {"labeller": TRUTH, "head": FINE_TUNE, "head_options": {"renew": False}},
        "moving_labels": {"labeller": "stacked", "head": MOMENTUM},
        "moving_stacked": {"labeller": "stacked", "head": MOMENTUM, "head_options": {"labels": "stacked"}},
        "moving_ceiling": {"labeller": TRUTH, "head": MOMENTUM, "head_options": STILL},
    }
)
STANDS_FOR: Mapping[str, str] = MappingProxyType({"auto": DEFAULT_RANKER, "finetune": f"{DEFAULT_RANKER}_finetune"})
NOT_FOR_GRIDS = ("prior", "seed", "device", "teacher")  # they come from the cell


@dataclass(frozen=True)
class TeacherTable:
    """The teacher of a readout as a grid describes it; the encoder is a name, or a table of names by task."""

    encoder: Option
    recipe: str
    readout: str
    objective: str | None = None


def resolve_readout(name: str, defined: Options) -> Readout:
    """A readout without its teacher; `defined` are the grid's own, which come before the built-in ones."""
    known, name = {**BUILT_IN, **defined}, STANDS_FOR.get(name, name)
    if name not in known:
        raise unknown_name("readout", name, (*known, *STANDS_FOR))
    owner = f"readout {name!r}"
    given = as_table(owner, "its description", known[name])
    check_known(owner, "key", given, KEYS)
    head, labeller = given.get("head"), _labeller(owner, given.get("labeller"))
    if not isinstance(head, str):
        raise bad_argument(owner, "head", f"the name of a head, {', '.join(map(repr, TUNING))} or '{KNN}'", head)
    if labeller is None and head not in (*PU_HEADS, BY_BASELINE):
        raise bad_argument(owner, "labeller", f"given with the head {head!r}", None)
    if labeller is not None and head == BY_BASELINE:
        raise bad_argument(owner, "labeller", f"left out with the head {head!r}, which sees P and U only", labeller)
    if (labeller == TEACHER) != (TEACHER in given):
        raise bad_argument(owner, TEACHER, "a table, with the labeller 'teacher' only", given.get(TEACHER))
    with blamed_on(owner):
        labeller_options = _labeller_options(labeller, given.get("labeller_options", {}))
        head_options = _head_options(head, given.get("head_options", {}))
    if MATCH in head_options and labeller != TEACHER:
        raise bad_argument(owner, MATCH, "given with the labeller 'teacher' only", head_options[MATCH])
    prior = check_prior(owner, given.get("prior"))
    return Readout(name, labeller, labeller_options, head, head_options, prior)


def check_own_names(owner: str, defined: Options) -> None:
    """Refuse readouts of a grid under names that stand for others."""
    for name in defined:
        if name in STANDS_FOR:
            allowed = f"called something else: the name stands for {STANDS_FOR[name]!r}"
            raise bad_argument(owner, f"readout.{name}", allowed, Described("a readout of its own"))


def read_teacher(owner: str, given: object) -> TeacherTable:
    """The description of a teacher: encoder, recipe and readout have to be given."""
    needed = ("encoder", "recipe", "readout")
    table = with_new_names(f"{owner}: {TEACHER}", given, renames.TEACHER) if isinstance(given, Mapping) else {}
    if not {*needed} <= table.keys():
        raise bad_argument(owner, TEACHER, f"a table with {', '.join(needed)}", given)
    check_known(f"{owner}: {TEACHER}", "key", table, (*needed, "objective"))
    for key in ("recipe", "readout", "objective"):
        if key in table:
            decode(str, table[key], owner=owner, key=f"{key} of the teacher")
    teacher = decode(TeacherTable, table, owner=owner)
    if teacher.objective is not None:
        check_known(f"{owner}: {TEACHER}", "losses", [teacher.objective], entries("losses"))
    return teacher


def check_prior(owner: str, prior: object) -> str | None:
    """None, "oracle" or the name of an estimator."""
    if prior is not None:
        check_known(owner, "prior", [prior], (ORACLE, "auto", *entries("priors")))
    return None if prior is None else str(prior)


def _labeller(owner: str, given: Option) -> str | None:
    """The name of a labeller as it is now: "auto" and old names as what they mean."""
    if given is None or given in (TRUTH, TEACHER):
        return None if given is None else str(given)
    try:
        return find_labeller(str(given), owner=owner).name
    except InputError:
        with blamed_on(owner):
            raise unknown_name("labeller", given, ("auto", TRUTH, TEACHER, *labellers())) from None


def _labeller_options(labeller: str | None, given: object) -> dict[str, Option]:
    owner = f"labeller {labeller!r}"
    if labeller in (None, TRUTH, TEACHER):
        return resolved(owner, {}, given)
    options = _entry_options(owner, labellers()[str(labeller)], given, {OTHERS: str | None})  # by name
    if options.get(OTHERS, RAW) != RAW:
        raise bad_argument(owner, OTHERS, f"{RAW!r}, the rows themselves", options[OTHERS])
    return options


def _head_options(head: str, given: object) -> dict[str, Option]:
    owner = f"head {head!r}"
    if head == KNN:
        return {**KNN_OPTIONS, **resolved(owner, {}, given)}
    if head == BY_BASELINE:
        return _baseline_options(owner, given)
    if head not in TUNING:
        if head not in entries("heads"):
            raise unknown_name("head", head, (*entries("heads"), *TUNING, KNN, BY_BASELINE))
        return _entry_options(owner, get("heads", head), given)
    matching = {MATCH: False} if head == FINE_TUNE else {}
    defaults = {**tuning_defaults(head), **matching}
    defaults |= {options_of(view): None for view in VIEWS if view in defaults}
    options = resolved(owner, defaults, given, kinds={**tuning_kinds(head), MATCH: bool}, without=NOT_FOR_GRIDS)
    config_of(head, options)  # its values are checked where it is made
    for name in VIEWS:
        view, of_view = options.get(name), options_of(name)
        if isinstance(view, str):
            options[of_view] = resolve_view(view, options.get(of_view, {}))
        elif of_view in options:
            raise bad_argument(owner, name, f"given with {of_view}", None)
    return options


def _baseline_options(owner: str, given: object) -> dict[str, Option]:
    """The method of a baseline on embeddings, and all its settings."""
    from pucl.baselines import settings_of

    options = dict(as_table(owner, "its options", given))
    method = options.pop(METHOD, None)
    if not isinstance(method, str):
        raise bad_argument(owner, METHOD, "the name of a baseline", method)
    check_known(owner, "baselines", [method], entries("baselines"))
    settings = settings_of(method)
    values = resolved(owner, values_of(settings), options, kinds=get_type_hints(type(settings)), without=("encoder",))
    replace(settings, **from_json(options))  # its values are checked where it is made
    return {METHOD: method, **values}


def _entry_options(
    owner: str, entry: Entry, given: object, more_kinds: Mapping[str, Any] | None = None
) -> dict[str, Option]:
    """The options of a registered labeller or head, old names under their new ones."""
    if isinstance(given, Mapping):
        given = renamed_options(owner, entry, given)
    kinds = {**get_type_hints(entry.function), **(more_kinds or {})}
    return resolved(owner, keywords(entry.function), given, kinds=kinds, without=NOT_FOR_GRIDS)
