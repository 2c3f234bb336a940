"""Learning rate over a run: linear warm-up, then half a cosine."""

import math


def learning_rate(step: int, *, total: int, warmup: int, peak: float, final: float) -> float:
    """The learning rate of `step` (counted from 0) in a run of `total` steps.

    It rises linearly to `peak` over `warmup` steps, then falls to `final` along half a cosine.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, total - 1 - warmup)
    return final + (peak - final) * (1 + math.cos(math.pi * min(done, 1.0))) / 2
