"""Thresholds on scores: where a share of the rows lies above, and shares moved to a gap or inside (0, 1)."""

import torch
from torch import Tensor

WINDOW, CLEAR = 0.005, 3.0  # of a gap: share of U on either side, how much wider than the spacing at π̂
REACH, STRAY = 3.0, 0.05  # of a gap: standard errors from π̂, share of P that may lie below


def threshold_for_share(scores: Tensor, share: float) -> Tensor:
    """The score above which a share of the rows lies, half-way between two, with at least one row on either side."""
    descending = scores.sort(descending=True).values
    n_positive = min(max(round(share * len(scores)), 1), len(scores) - 1)
    return (descending[n_positive - 1] + descending[n_positive]) / 2


def drop_highest(score: Tensor, rows: Tensor, share: float) -> Tensor:
    """The rows (…, n) bool but the share with the highest scores; all of them where equal scores leave none.

    Scores may be several vectors (m, n), each with its own rows. The cut is that of `threshold_for_share`.
    """
    count = rows.sum(dim=-1, keepdim=True)
    n_positive = (share * count.to(torch.float64)).round().long().clamp(min=1).minimum(count - 1)
    descending = score.masked_fill(~rows, -torch.inf).sort(dim=-1, descending=True).values
    above, below = (descending.gather(-1, place.clamp(min=0)) for place in (n_positive - 1, n_positive))
    kept = rows & (score < (above + below) / 2)
    return torch.where(kept.any(dim=-1, keepdim=True) & (count > 1), kept, rows)


def move_to_gap(unlabelled: Tensor, positive: Tensor, share: float) -> float:
    """The share moved to a clear gap in the scores of U (n_U,), if there is one near; else as it is.

    Where the classes are well apart, the scores leave a gap, and the share above it estimates π better than any ratio
    of tails. It is taken when it lies within three standard errors of P's sample, 3 π̂ / √n_P, is `CLEAR` times wider
    than the spacing of the scores at π̂ itself, and P lies above it, but for `STRAY` of its held-out scores (n_P,): a
    gap inside the positives, between two of their modes, does not separate the classes.
    """
    descending, n, n_p = unlabelled.sort(descending=True).values, len(unlabelled), len(positive)
    window, reach, start = max(1, round(WINDOW * n)), REACH * share / n_p**0.5, round(share * n)
    first, last = max(window, round((share - reach) * n)), min(n - window, round((share + reach) * n))
    if not first <= start <= last:
        return share
    places = torch.arange(first, last + 1, device=unlabelled.device)
    spacing = descending[places - window] - descending[places + window - 1]
    middle = (descending[places - 1] + descending[places]) / 2
    below = torch.searchsorted(positive.sort().values, middle)
    border = torch.where(below <= max(1, round(STRAY * n_p)), spacing, torch.zeros_like(spacing))
    best = int(border.argmax())
    return (first + best) / n if border[best] > CLEAR * spacing[start - first] else share


def inside_unit_interval(share: float, n: int) -> float:
    """A share of n rows kept inside (0, 1), half a row from either end."""
    return min(max(share, 0.5 / n), 1 - 0.5 / n)
