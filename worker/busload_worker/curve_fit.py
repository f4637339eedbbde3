"""Fits the service curve to the batches that ran, online. Pure: no clock, no I/O."""

from __future__ import annotations

from busload_shared.curve import ServiceCurve

MEMORY = 0.98
"""Weight of a batch against the one after it: some fifty batches are remembered, so that a change is followed."""

ENOUGH_BATCHES = 8
_RIDGE = 1e-6
"""Share of each feature's mean square added on the diagonal: batches all alike must not make it singular."""

Row = tuple[float, float, float, float]


class CurveFit:
    """Least squares with exponential forgetting on the features (1, prompt tokens, longest row, new tokens), each
    batch weighted by 1/time² so that long ones do not decide alone: relative errors are what is made small."""

    def __init__(self) -> None:
        self.batches = 0
        self._xx = [[0.0] * 4 for _ in range(4)]
        self._xy = [0.0] * 4

    def add(self, *, prompt_tokens: int, longest: int, new_tokens: int, ran_ms: float) -> None:
        """Learn from one batch that ran to its end."""
        if ran_ms <= 0 or longest <= 0:
            return
        self.batches += 1
        features: Row = (1.0, float(prompt_tokens), float(longest), float(new_tokens))
        weight = 1.0 / ran_ms**2
        for i, x in enumerate(features):
            self._xy[i] = MEMORY * self._xy[i] + weight * x * ran_ms
            row = self._xx[i]
            for j, other in enumerate(features):
                row[j] = MEMORY * row[j] + weight * x * other

    def curve(self) -> ServiceCurve | None:
        """The curve that fits best with no negative coefficient; None until enough batches ran."""
        if self.batches < ENOUGH_BATCHES:
            return None
        kept = [i for i in range(4) if self._xx[i][i] > 0]
        while kept:
            found = self._solve(kept)
            worst = min(range(len(kept)), key=lambda k: found[k])
            if found[worst] >= 0:
                values = dict(zip(kept, found, strict=True))
                overhead, prompt, step, token = (values.get(i, 0.0) for i in range(4))
                return ServiceCurve(overhead_ms=overhead, prompt_ms=prompt, step_ms=step, token_ms=token)
            del kept[worst]
        return None

    def r_squared(self) -> float:
        """The share of the spread of batch times that the curve explains, 0 to 1, weighted as the fit is; 0 while there
        is no curve, or no spread."""
        curve = self.curve()
        if curve is None:
            return 0.0
        found = (curve.overhead_ms, curve.prompt_ms, curve.step_ms, curve.token_ms)
        squares = (1 - MEMORY**self.batches) / (1 - MEMORY)  # each batch adds 1: its time squared, over itself
        spread = squares - self._xy[0] ** 2 / self._xx[0][0]
        left = squares + sum(
            b * (sum(row[j] * found[j] for j in range(4)) - 2 * xy)
            for b, row, xy in zip(found, self._xx, self._xy, strict=True)
        )
        return min(1.0, max(0.0, 1 - left / spread)) if spread > _RIDGE * squares else 0.0

    def _solve(self, kept: list[int]) -> list[float]:
        """The normal equations of the kept features, by Gauss-Jordan with the largest pivot."""
        rows = [[self._xx[i][j] * (1 + _RIDGE * (i == j)) for j in kept] + [self._xy[i]] for i in kept]
        size = len(rows)
        for at in range(size):
            pivot = max(range(at, size), key=lambda r: abs(rows[r][at]))
            rows[at], rows[pivot] = rows[pivot], rows[at]
            lead = rows[at][at] or 1e-300
            rows[at] = [value / lead for value in rows[at]]
            for other in range(size):
                if other != at:
                    share = rows[other][at]
                    rows[other] = [a - share * b for a, b in zip(rows[other], rows[at], strict=True)]
        return [row[-1] for row in rows]
