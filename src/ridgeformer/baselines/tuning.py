"""The parameters of ConstRR and TunedRR with the least mean adjusted loss on a task, found once and then stored.

In the eigenbasis of Σ the error of penalty v against the oracle's σ² is, with b the fit of least squares,

    w_v − w*_{σ²} = b s (1/(s + v) − 1/(s + σ²)) = b / (s + σ²) · (σ² − v) · s / (s + v)

in each coordinate, so one draw of contexts is enough for every v that the search tries. In every context its square
falls with v up to σ² and then grows, so good penalties lie between the smallest and the largest σ².
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from ridgeformer.core.storage import cache_root, write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError

VERSION = 2
"""Part of the key of kept parameters: raise it with any change that moves them."""
SEED = 0
_CONTEXTS = 200_000
_ENTRIES = 20_000_000
"""d² times the contexts of a tuning: 200 000 of them at d = 10, fewer where each costs more and varies less."""
_LONGEST = 10_000  # bytes; a file holds about 150
_COARSE = 10  # the coarse grid looks at every tenth context
_SLOPES = np.logspace(-4, 8, 37)
_DECADES = 6
"""c is between 1e-4 and 1e8, and the largest penalty within six decades of the largest σ². Further out there is nothing
but v = 0 on one side and ConstRR on the other, which is the best choice when n = d + 1 leaves a single residual."""
_TOLERANCE = 1e-4  # of the logarithms of parameters; losses, being quadratic around the optimum, are good to its square


@dataclass(frozen=True)
class Tuned:
    """Parameters of ConstRR (v) and TunedRR (c, cap)."""

    v: float
    c: float
    cap: float


_known: dict[Task, Tuned] = {}


def tuned_parameters(task: Task) -> Tuned:
    """The parameters for a task: from this process, from the cache folder, or tuned now, which takes a few seconds.

    They depend only on the task: tuning has a random stream of its own. Parameters for a task with parts that a spec
    cannot restore are not written to disk.
    """
    try:
        known = _known.get(task)
    except TypeError:  # a user's prior that cannot be hashed
        return tune(_draw_sample(task))
    if known is None:
        key = _key(task)
        known = _read(key) if key else None
        if known is None:
            known = tune(_draw_sample(task))
            if key:
                _write(key, known)
        _known[task] = known
    return known


@dataclass(frozen=True)
class _Sample:
    """What the mean adjusted loss of any penalty depends on. Directions first: each is then one long vector."""

    scale: Array  # b / (s + σ²), (m, contexts)
    values: Array  # s, (m, contexts)
    variance: Array  # σ², (contexts,)
    estimate: Array  # σ̂², (contexts,)

    @classmethod
    def draw(cls, task: Task) -> _Sample:
        """Contexts of ``task`` from the stream for tuning."""
        count = min(_CONTEXTS, max(256, _ENTRIES // task.dim**2))
        parts: list[tuple[Array, ...]] = []
        for drawn in task.chunks(count, SEED, Purpose.TUNE):
            fit, variance = LeastSquares.of(drawn.context), drawn.sigma**2
            scale = fit.coordinates / (fit.divisors + variance[:, None])
            parts.append((scale.T, fit.divisors.T, variance, fit.noise_variance))
        return cls(*(np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True)))

    def every(self, stride: int) -> _Sample:
        """A part of the contexts."""
        arrays = (self.scale, self.values, self.variance, self.estimate)
        return _Sample(*(np.ascontiguousarray(array[..., ::stride]) for array in arrays))

    def loss(self, penalty: Array | float) -> float:
        """Mean of ½‖w_v − w*_{σ²}‖²."""
        square = np.zeros_like(self.variance)
        for scale, s in zip(self.scale, self.values, strict=True):
            square += (scale * s / (s + penalty)) ** 2
        return float(0.5 * np.mean(square * (self.variance - penalty) ** 2))

    def capped_loss(self, slope: float, ceiling: float) -> float:
        """The loss of v = min(slope · σ̂², ceiling)."""
        return self.loss(np.minimum(slope * self.estimate, ceiling))


@dataclass(frozen=True)
class _GeneralSample(_Sample):
    """The same for any task: w_v − w* is a/(s + v) − Vᵀw* in the eigenbasis, measured by VᵀMV. Contexts first."""

    aim: Array  # Vᵀ w*, (contexts, d)
    moment: Array  # Vᵀ M V, (contexts, d, d)

    @classmethod
    def draw(cls, task: Task) -> _GeneralSample:
        """As for the paper's task, from fewer contexts."""
        count = min(_CONTEXTS, max(256, _ENTRIES // task.dim**2)) // 10
        parts: list[tuple[Array, ...]] = []
        for drawn in task.chunks(count, SEED, Purpose.TUNE):
            values, vectors, cross = drawn.context.spectrum
            turned = np.swapaxes(vectors, 1, 2)
            aim = (turned @ drawn.oracle[..., None])[..., 0]
            moment = turned @ (np.eye(task.dim) if drawn.moment is None else drawn.moment) @ vectors
            variance = drawn.sigma**2
            parts.append((cross, values, variance, LeastSquares.of(drawn.context).noise_variance, aim, moment))
        return cls(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))

    def every(self, stride: int) -> _GeneralSample:
        """A part of the contexts."""
        arrays = (self.scale, self.values, self.variance, self.estimate, self.aim, self.moment)
        return _GeneralSample(*(array[::stride] for array in arrays))

    def loss(self, penalty: Array | float) -> float:
        """Mean of ½(w_v − w*)ᵀ M (w_v − w*)."""
        total = self.values + np.reshape(np.asarray(penalty, np.float64), (-1, 1))
        error = np.where(total > 0, self.scale / np.where(total > 0, total, 1.0), 0.0) - self.aim
        return float(0.5 * np.mean(((self.moment @ error[..., None])[..., 0] * error).sum(axis=1)))


def _draw_sample(task: Task) -> _Sample:
    return _Sample.draw(task) if task.isotropic and isinstance(task.examples, int) else _GeneralSample.draw(task)


def tune(sample: _Sample) -> Tuned:
    """Search both families on one draw of contexts."""
    largest = float(sample.variance.max())
    if largest * 10.0**-_DECADES < np.finfo(np.float64).tiny:  # no noise: no penalty is right, whatever σ̂² says
        return Tuned(0.0, 1.0, 0.0)
    v = _best_constant(sample, largest)
    slope, ceiling = _best_capped(sample, largest)
    return Tuned(v, slope, ceiling / slope)


def _best_constant(sample: _Sample, largest: float) -> float:
    """A grid first: for a categorical prior the loss can have a minimum near each level."""
    from scipy import optimize  # late: it takes longer to import than all of ridgeformer

    least = float(sample.variance.min())
    grid = np.geomspace(max(least, largest * 10.0**-_DECADES), largest, 31)
    coarse = sample.every(_COARSE)
    place = int(np.argmin([coarse.loss(v) for v in grid]))
    bounds = (np.log(grid[max(place - 1, 0)]), np.log(grid[min(place + 1, len(grid) - 1)]))
    best = optimize.minimize_scalar(
        lambda log_v: sample.loss(float(np.exp(log_v))), bounds=bounds, method="bounded", options={"xatol": _TOLERANCE}
    )
    return min((float(np.exp(best.x)), least, largest), key=sample.loss)


def _best_capped(sample: _Sample, largest: float) -> tuple[float, float]:
    """(c, c · cap): in these, ConstRR is the edge c → ∞ of the plane, where in (c, cap) it would be a corner."""
    from scipy import optimize  # late: it takes longer to import than all of ridgeformer

    ceilings = np.geomspace(largest * 10.0**-_DECADES, largest, 31)
    coarse = sample.every(_COARSE)
    losses = np.array([[coarse.capped_loss(slope, ceiling) for ceiling in ceilings] for slope in _SLOPES])
    row, column = np.unravel_index(losses.argmin(), losses.shape)

    def loss(logs: Array) -> float:
        return sample.capped_loss(float(np.exp(logs[0])), float(np.exp(logs[1])))

    start = [float(np.log(_SLOPES[row])), float(np.log(ceilings[column]))]
    best = optimize.minimize(
        loss,
        start,
        method="Nelder-Mead",
        bounds=[(float(np.log(axis[0])), float(np.log(axis[-1]))) for axis in (_SLOPES, ceilings)],
        options={"xatol": _TOLERANCE, "fatol": _TOLERANCE**2 * loss(np.array(start))},
    )
    slope, ceiling = np.exp(best.x)
    return float(slope), float(ceiling)


def _key(task: Task) -> str | None:
    """All that decides the tuned parameters, as text; None if the noise prior is the user's own."""
    if not task.builtin:
        return None
    specs = dict(task.specs)
    plain = f"tuning {VERSION}: dim {specs.pop('dim')}, context {specs.pop('examples')}, noise {specs.pop('noise')}"
    return plain + "".join(f", {name} {spec}" for name, spec in specs.items())


# One small JSON file per task, in the user's cache folder, which may be missing, read-only, shared by several processes
# or damaged. None of that is ever an error: what cannot be read is tuned again, what cannot be written is not kept.


def _read(key: str) -> Tuned | None:
    try:
        with _path(key).open("rb") as file:
            content = json.loads(file.read(_LONGEST))
        v, c, cap = (float("inf") if value is None else float(value) for value in content["values"])
        sound = content["key"] == key and 0 <= v < float("inf") and 0 <= c < float("inf") and cap >= 0
        return Tuned(v, c, cap) if sound else None
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):  # RuntimeError: no home, or nested too deeply
        return None


def _write(key: str, tuned: Tuned) -> None:
    values = [None if value == float("inf") else value for value in (tuned.v, tuned.c, tuned.cap)]
    try:
        path = _path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"key": key, "values": values}).encode())
    except (OSError, RuntimeError, ValueError, InputError):
        return


def _path(key: str) -> Path:
    """Named after a digest, since specs can be of any length; the key inside the file says whose it is."""
    return cache_root() / "tuned" / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
