"""Adam with decoupled weight decay, by torch's own fused update, without what importing torch's class costs.

`torch.optim.AdamW` imports torch's compiler when it is made: most of a second, a third of a small fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.adagrad import adagrad
from torch.optim.adamw import adamw

__all__ = ["Adagrad", "Adam", "Group"]

_BETAS, _EPSILON = (0.9, 0.999), 1e-8
_TINY = 1e-10
_BLOCK_ROWS = 8192  # updated at a time: some megabytes


@dataclass(frozen=True)
class Group:
    """Weights that share their decay and their pace, by which the learning rate is multiplied."""

    params: list[nn.Parameter]
    weight_decay: float
    pace: float = 1.0
    by_rows: bool = False  # one second moment per row, and first moments in bfloat16: a quarter of the memory


class Adam:
    """AdamW (Loshchilov and Hutter, ICLR 2019); a weight without a gradient stays as it is."""

    names: tuple[str, ...] = ("step", "exp_avg", "exp_avg_sq")  # of what is kept of a weight

    def __init__(self, groups: Sequence[Group], still: Sequence[nn.Parameter] = ()) -> None:
        """`still` are weights that stay as they are; their gradients are forgotten with the others."""
        self.groups, self._still = [group for group in groups if group.params], list(still)
        self._state: dict[nn.Parameter, tuple[Tensor, ...]] = {}  # by `names`

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for param in (*self._params(), *self._still):
            param.grad = None

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update all weights that have a gradient."""
        for group in self.groups:
            chosen = [param for param in group.params if param.grad is not None]
            if not chosen:
                continue
            if group.by_rows:
                for param in chosen:
                    self._step_by_rows(param, rate * group.pace, group.weight_decay)
                continue
            steps, first, second = (list(part) for part in zip(*map(self._of, chosen), strict=True))
            adamw(
                chosen, [param.grad for param in chosen], first, second, [], steps,  # type: ignore[arg-type, misc]
                fused=all(param.device.type in ("cpu", "cuda", "mps") for param in chosen),
                amsgrad=False, beta1=_BETAS[0], beta2=_BETAS[1], lr=rate * group.pace,
                weight_decay=group.weight_decay, eps=_EPSILON, maximize=False,
            )  # fmt: skip

    def _step_by_rows(self, param: nn.Parameter, rate: float, decay: float) -> None:
        """The same update with the mean of a row's squared gradients in the place of each one's own."""
        if param not in self._state:
            means = param.new_zeros(param.shape[0], 1)
            first = torch.zeros_like(param, dtype=torch.bfloat16)
            self._state[param] = (torch.zeros((), device=param.device), first, means)
        steps, first, second = self._state[param]
        steps += 1
        corrections = [1 - beta ** float(steps) for beta in _BETAS]
        grad = param.grad
        if grad is None:
            return
        parts = (whole.split(_BLOCK_ROWS) for whole in (param.data, grad, first, second))
        for values, slope, moment, square in zip(*parts, strict=True):
            square.lerp_(slope.square().mean(1, keepdim=True), 1 - _BETAS[1])
            mean = moment.to(slope.dtype).lerp_(slope, 1 - _BETAS[0])
            moment.copy_(mean)
            scale = (square / corrections[1]).sqrt_().add_(_EPSILON)
            values.mul_(1 - rate * decay).addcdiv_(mean, scale, value=-rate / corrections[0])

    def state(self) -> dict[str, Tensor]:
        """All moments, by the number of the weight and a name."""
        found: dict[str, Tensor] = {}
        for number, param in enumerate(self._params()):
            if param in self._state:
                names = zip(self.names, self._state[param], strict=True)
                found |= {f"{number}/{name}": value for name, value in names}
        return found

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from where `state` was taken."""
        self._state = {}
        for number, param in enumerate(self._params()):
            if f"{number}/{self.names[0]}" in state:
                self._state[param] = tuple(state[f"{number}/{name}"].to(param.device) for name in self.names)

    def _params(self) -> list[nn.Parameter]:
        return [param for group in self.groups for param in group.params]

    def _of(self, param: nn.Parameter) -> tuple[Tensor, ...]:
        if param not in self._state:
            zeros = (torch.zeros_like(param, memory_format=torch.preserve_format) for _ in range(2))
            self._state[param] = (torch.zeros((), device=param.device), *zeros)
        return self._state[param]


class Adagrad(Adam):
    """Adagrad (Duchi et al., JMLR 2011): each number's rate falls with the root of the sum of its squared gradients.

    Weights do not decay. What the loop asks of an optimiser is that of Adam.
    """

    names = ("squares", "step")

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update all weights that have a gradient."""
        for group in self.groups:
            for param in group.params:
                if param.grad is not None and param.grad.is_sparse:
                    self._step_some(param, param.grad, rate)
            chosen = [param for param in group.params if param.grad is not None and not param.grad.is_sparse]
            if not chosen:
                continue
            squares, steps = (list(part) for part in zip(*map(self._of, chosen), strict=True))
            adagrad(
                chosen, [param.grad for param in chosen], squares, steps,  # type: ignore[arg-type, misc]
                fused=all(param.device.type == "cpu" for param in chosen),
                lr=rate, weight_decay=0.0, lr_decay=0.0, eps=_TINY, maximize=False,
            )  # fmt: skip

    def _step_some(self, param: nn.Parameter, grad: Tensor, rate: float) -> None:
        """The same update of the rows of a sparse gradient: the others would not move."""
        squares = self._of(param)[0]
        rows, values = grad.indices()[0], grad.values()
        own = squares.index_select(0, rows).addcmul_(values, values)
        squares.index_copy_(0, rows, own)
        param.data.index_add_(0, rows, values / own.sqrt_().add_(_TINY), alpha=-rate)

    def _of(self, param: nn.Parameter) -> tuple[Tensor, ...]:
        if param not in self._state:
            self._state[param] = torch.zeros_like(param), torch.zeros((), device=param.device)
        return self._state[param]
