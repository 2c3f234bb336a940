"""A run that has so many seconds: what is begun next, and what has to wait for another run."""

import time
from collections import deque
from collections.abc import Callable

from pucl.bench.grid.cells import Baseline, Cell, EncoderCell
from pucl.bench.results.cost import Times, job_of, training_of
from pucl.bench.results.line import ResultLine


class TimeBox:
    """The seconds a run has from now on, and what cells are expected to take of them.

        expected seconds of a cell = its seconds by stored times · Σ what finished ones took / Σ their stored times

    so that a busier card than when the times were stored counts. A cell without a stored time is expected to take none.

    Args:
        seconds: that the run has.
        times: what stored times tell.
        is_trained: whether an encoder is there already.
        clock: in seconds.
    """

    def __init__(
        self,
        seconds: float,
        times: Times,
        is_trained: Callable[[EncoderCell], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.times, self.is_trained, self.clock = times, is_trained, clock
        self.end = clock() + seconds
        self.took, self.stored = 0.0, 0.0
        self.given: dict[str, float] = {}  # stored seconds of cells and encoders at work, by key

    @property
    def left(self) -> float:
        """The seconds that are left; 0 when the time is over."""
        return max(0.0, self.end - self.clock())

    def take(self, waiting: deque[list[Cell]]) -> list[Cell] | None:
        """Take out the first unit that should be done in time, or so many of its first cells as should be; or none."""
        slower = self.took / self.stored if self.stored else 1.0
        for at, unit in enumerate(waiting):
            sum_of, fit = self._training(unit[0]), 0
            for cell in unit:
                sum_of += self._seconds(cell)
                if self.left == 0 or sum_of * slower > self.left:
                    break
                fit += 1
            if fit:
                del waiting[at]
                if fit < len(unit):
                    waiting.insert(at, unit[fit:])
                self._note(unit[:fit])
                return unit[:fit]
        return None

    def saw(self, line: ResultLine) -> None:
        """Learn from a finished cell what such cells take now."""
        self._learn(line.key, line.seconds)
        if not isinstance(line.cell, Baseline) and line.encoder_seconds is not None:
            self._learn(line.cell.encoder_cell.key, line.encoder_seconds)

    def _learn(self, key: str, seconds: float) -> None:
        stored = self.given.pop(key, 0.0)
        if stored:
            self.took, self.stored = self.took + seconds, self.stored + stored

    def _note(self, unit: list[Cell]) -> None:
        self.given |= {cell.key: self._seconds(cell) for cell in unit}
        if not isinstance(unit[0], Baseline):
            self.given[unit[0].encoder_cell.key] = self._training(unit[0])

    def _seconds(self, cell: Cell) -> float:
        found = self.times.of(job_of(cell))
        return 0.0 if found is None else found[1]

    def _training(self, cell: Cell) -> float:
        """The stored seconds of training the encoder of a cell; none where it is there or needs no training."""
        if isinstance(cell, Baseline) or self.is_trained(cell.encoder_cell):
            return 0.0
        found = [self.times.of(job) for job in training_of(cell)]
        return sum(own[1] for own in found if own is not None)
