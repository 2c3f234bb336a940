"""The head of the page: what was trained on what, the estimates and what they rest on."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pucl.report.markup import Markup, element, join
from pucl.report.reading import Measured, measured, number, prior_of, section, text
from pucl.report.wording import count, duration, estimate, moment, name, percent

KINDS = MappingProxyType({"image": "pictures", "table": "table rows", "vector": "vectors"})
MOST_METRICS = 24
METRICS = MappingProxyType(
    {
        "proxy_accuracy": ("Accuracy", "Share of the unlabelled rows put in the right class."),
        "proxy_accuracy_one_sample": ("Accuracy on all rows", "The same over labelled and unlabelled rows together."),
        "auc": ("AUC", "Chance that a positive scores above a negative: 0.5 is guessing, 1 is perfect."),
        "pu_auc": (
            "AUC, labelled against unlabelled",
            "Chance that a labelled positive scores above an unlabelled row; below 1, as U holds positives too.",
        ),
        "precision": ("Precision", "Share of true positives among the unlabelled rows that are found."),
        "recall": ("Recall", "Share of all positives that is found, read off the held-out labelled ones."),
        "f1": ("F1", "One figure for precision and recall, their harmonic mean."),
        "found": ("Found", "Share of the unlabelled rows that is called positive; this one is counted, not estimated."),
        "zero_one_risk": ("Error", "Share of the unlabelled rows put in the wrong class; noise can push it below 0."),
        "upu_risk": ("uPU risk", "Smooth version of the error, free of bias; noise can push it below 0."),
        "nnpu_risk": ("nnPU risk", "Smooth version of the error, kept from falling below what is possible."),
    }
)
RESTS_ON = (
    "Nobody has labelled negatives here, so nothing on this page could be checked against the truth. “Estimated” "
    "means: computed from rows held out of training, taking the labelled positives for a random sample of all "
    "positives and the class prior π for right. If the labelled ones are special, for example easier than the others, "
    "the true figures are different, mostly worse."
)


def title(about: Mapping[str, Any]) -> str:
    """What the page is called: the source, or the kind of rows."""
    return text(about, "source", 200) or f"A model of {_rows_called(about)}"


def summary(about: Mapping[str, Any]) -> Markup:
    """One paragraph, the tiles with the estimates, and the assumption below them."""
    tiles = _tiles(about)
    return join(
        element("p", *_lead(about), class_="lead"),
        element("dl", *tiles, class_="tiles") if tiles else None,
        element("p", element("strong", "What “estimated” rests on. "), RESTS_ON, class_="note"),
    )


def facts(about: Mapping[str, Any]) -> Markup:
    """When, with what and how long, in one line."""
    parts = [
        moment(created) if (created := text(about, "created", 60)) else None,
        f"pucl {version}" if (version := text(about, "version", 40)) else None,
        f"seed {seed}" if (seed := text(about, "seed", 40)) else None,
        f"trained in {duration(seconds)}" if (seconds := number(about.get("seconds"))) is not None else None,
    ]
    return element("p", " · ".join(part for part in parts if part), class_="facts")


def _lead(about: Mapping[str, Any]) -> list[object]:
    rows, prior = section(about, "rows"), prior_of(about)
    labelled, unlabelled = number(rows.get("labelled")), number(rows.get("unlabelled"))
    words: list[object] = [f"A classifier of {_rows_called(about)}, learned from "]
    words += [element("strong", count(labelled), " labelled positives")] if labelled is not None else ["positives"]
    words += [" and "]
    words += (
        [element("strong", count(unlabelled), " unlabelled rows")] if unlabelled is not None else ["unlabelled rows"]
    )
    words += [f". It expects {percent(prior.value)} of the unlabelled rows to be positive"]
    words += [f", about {count(prior.value * unlabelled)} of them."] if unlabelled is not None else ["."]
    return words


def _rows_called(about: Mapping[str, Any]) -> str:
    return KINDS.get(str(about.get("kind")), "rows")


def _tiles(about: Mapping[str, Any]) -> list[Markup]:
    known = {key: found for key, value in section(about, "metrics").items() if (found := measured(value)) is not None}
    order = [key for key in METRICS if key in known] + [key for key in known if key not in METRICS]
    return [_tile(key, known[key]) for key in order[:MOST_METRICS]]


def _tile(key: str, found: Measured) -> Markup:
    label, meaning = METRICS.get(key, (name(key)[:80], "Estimated from held-out rows."))
    error = None if found.error is None else element("span", f"± {found.error:.3f}", class_="error")
    value = element("dd", f"{found.value:.3f}", " ", error, class_="value", aria_label=estimate(found))
    return element("div", element("dt", label), value, element("dd", meaning, class_="meaning"), class_="tile")
