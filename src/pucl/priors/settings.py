"""The share of positives in U and in P ∪ U: two numbers for the two ways PU data comes about."""

from pucl.errors import Described, bad_argument, check_count, check_share

CASE_CONTROL, SINGLE_SET = "case-control", "single-set"
SETTINGS = (CASE_CONTROL, SINGLE_SET)


def to_single_set(prior: float, n_labelled: int, n_unlabelled: int) -> float:
    """The share of positives among all rows, from π, the share among the unlabelled ones.

        share = (n_P + π n_U) / (n_P + n_U)

    where n_P rows are labelled positives and n_U unlabelled. Of use when P was labelled out of one set (single-set):
    the labels take positives away from U, so π is lower than the share in the set as it was drawn.
    """
    check_share("to_single_set", "prior", prior, closed=True)
    check_count("to_single_set", "n_labelled", n_labelled, low=0)
    check_count("to_single_set", "n_unlabelled", n_unlabelled)
    return float((n_labelled + prior * n_unlabelled) / (n_labelled + n_unlabelled))


def from_single_set(share: float, n_labelled: int, n_unlabelled: int) -> float:
    """π, the share of positives among the unlabelled rows, from the share among all rows.

        π = (share · (n_P + n_U) − n_P) / n_U

    where n_P rows are labelled positives and n_U unlabelled; the inverse of `to_single_set`.
    """
    check_share("from_single_set", "share", share, closed=True)
    check_count("from_single_set", "n_labelled", n_labelled, low=0)
    check_count("from_single_set", "n_unlabelled", n_unlabelled)
    total = n_labelled + n_unlabelled
    if share * total < n_labelled * (1 - 1e-12):
        allowed = f"at least {n_labelled / total:.6g}, the share of labelled rows"
        raise bad_argument("from_single_set", "share", allowed, Described(f"{share:g}"))
    return float(min(max((share * total - n_labelled) / n_unlabelled, 0.0), 1.0))
