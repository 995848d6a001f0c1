"""What a run remarks on in words, with a cure: a loss that rises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

__all__ = ["LossWatch"]

_EPOCHS = 5  # in a row
_RISE = 0.1  # above the lowest loss before them, as a share of it: less is the noise of other negatives


class LossWatch:
    """Remarks once on a training loss that has risen for several epochs."""

    def __init__(self, learning_rate: float, tell: Callable[[str], None], losses: Sequence[float] = ()) -> None:
        """`losses` are those of the epochs before, of a run that is resumed."""
        self._rate, self._tell, self._losses, self._said = learning_rate, tell, list(losses), False

    def __call__(self, loss: float) -> None:
        """The loss of one more epoch."""
        self._losses.append(loss)
        before, latest = self._losses[:-_EPOCHS], self._losses[-_EPOCHS:]
        if self._said or not before or min(latest) - min(before) <= _RISE * abs(min(before)):
            return
        self._said = True
        self._tell(
            f"training: the loss has risen for {_EPOCHS} epochs, from {min(before):.3f} to {loss:.3f}: the learning "
            f"rate {self._rate:g} may be too large (lower training.learning_rate, for example to {self._rate / 3:.1g})"
        )
