"""Choose the strength of the coupling by how well models predict data points that they were not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.losses.base import Loss, Sum
from gtvmin.losses.stacking import split_losses
from gtvmin.paths import check_alphas, solve_path
from gtvmin.solvers.driver import Status
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import frozen, positive_integer

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["CrossValidation", "cross_validate"]


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation:
    """Validation errors for several strengths of the coupling.

    Attributes
    ----------
    alphas : array (k,)
        The strengths.
    errors : array (folds, k)
        Mean error of a held-out data point.
    relative_gaps : array (folds, k)
        Certified relative gaps of the trained models.
    """

    alphas: Array
    errors: Array
    relative_gaps: Array

    @property
    def mean(self) -> Array:
        """Mean over the folds (k,)."""
        return np.asarray(self.errors.mean(axis=0))

    @property
    def std(self) -> Array:
        """Standard deviation over the folds (k,), with folds - 1 degrees of freedom."""
        return np.asarray(self.errors.std(axis=0, ddof=1))

    @property
    def standard_error(self) -> Array:
        """Standard error of the mean (k,)."""
        return np.asarray(self.std / np.sqrt(len(self.errors)))

    @property
    def best_alpha(self) -> float:
        """The alpha of least mean error, the largest if there are several."""
        best = np.flatnonzero(self.mean == self.mean.min())
        return float(self.alphas[best].max())

    @property
    def one_standard_error_alpha(self) -> float:
        """The largest alpha whose mean error is within one standard error of the least: the simplest model as good."""
        best = int(np.flatnonzero(self.alphas == self.best_alpha)[0])
        close = self.mean <= self.mean[best] + self.standard_error[best]
        return float(self.alphas[close].max())

    def to_frame(self) -> Any:
        """One row an alpha: mean, standard deviation, standard error and the folds, as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        columns = {"mean": self.mean, "std": self.std, "standard_error": self.standard_error}
        columns |= {f"fold{k}": row for k, row in enumerate(self.errors)}
        return pd.DataFrame(columns, index=pd.Index(self.alphas, name="alpha"))

    def __repr__(self) -> str:
        return (
            f"<CrossValidation: {len(self.errors)} folds, {len(self.alphas)} values of alpha, best "
            f"{self.best_alpha:g} (error {self.mean.min():.6g}), one standard error {self.one_standard_error_alpha:g}>"
        )


def cross_validate(
    problem: GTVMin, alphas: ArrayLike, folds: int = 5, *, seed: int = 0, method: str | Any = "auto", **options: Any
) -> CrossValidation:
    """K-fold cross-validation of the strength of the coupling, over the data points of all devices.

    Parameters
    ----------
    problem : GTVMin
        The problem; its own alpha does not matter.
    alphas : array_like (k,)
        The strengths to compare.
    folds : int
        Number of folds, at least 2.
    seed : int
        Of the random division into folds; the same seed gives the same folds.
    method, **options
        As for :func:`gtvmin.paths.solve_path`.

    Returns
    -------
    CrossValidation
        The errors of all folds, and the alphas that they speak for.

    Raises
    ------
    ValueError
        If folds is less than 2 or more than the number of data points, or alphas is no list of strengths.
    CapabilityError
        If a loss does not say how to take some of its data points.

    Notes
    -----
    Each device's data points are shuffled and dealt to the folds in turn, where the next device goes on: every fold
    has as many points of a device as any other, up to one, and as many points of all devices, up to one.  A device with
    fewer points than folds is held out in some folds only, and one with a single point has, in the fold that holds it
    out, no data but what comes from its neighbours (and its regularisers).

    The error is the mean over held-out points, of all devices alike, of the part of the loss that measures errors
    (:meth:`~gtvmin.losses.Loss.data_terms`): ``(y - x^T w)^2`` for a squared error, without regularisers, times the
    coefficient it was declared with; points with a ``sample_weight`` count by it.  Losses with ``scale="sum"`` have
    fewer terms when trained on fewer points, against the same alpha; with ``scale="mean"`` they do not shrink.

    T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning" (2009), DOI
    10.1007/978-0-387-84858-7, Section 7.10, which has the rule of one standard error.

    Examples
    --------
    Four devices in two pairs, with three noisy measurements each:

    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> data = [[0.9, 1.2, 0.8], [1.1, 0.7, 1.3], [3.2, 2.9, 3.1], [2.8, 3.3, 2.7]]
    >>> losses = [gtv.SquaredError([[1.0]] * 3, y) for y in data]
    >>> problem = gtv.GTVMin(nx.path_graph(4), losses, penalty=gtv.Norm(2), alpha=1.0)
    >>> problem.cross_validate([0.0, 0.2, 20.0], folds=3).best_alpha
    0.2
    """
    strengths = check_alphas(alphas)
    fold_of = assign_folds([loss.n_samples for loss in problem.losses], folds, seed)
    errors, gaps = np.empty((folds, len(strengths))), np.empty((folds, len(strengths)))
    for fold in range(folds):
        pairs = list(zip(problem.losses, fold_of, strict=True))
        training = problem.with_losses([loss.take(np.flatnonzero(own != fold)) for loss, own in pairs])
        held_out = [_summed_errors(loss.take(np.flatnonzero(own == fold))) for loss, own in pairs]
        path = solve_path(training, strengths, method, **options)
        if path[-1].status is Status.INTERRUPTED:
            raise KeyboardInterrupt("a strength cannot be chosen by fits that were interrupted")
        judge = split_losses([loss for loss, _ in held_out], problem.dim, problem.dims)[2]
        points = sum(weight for _, weight in held_out)
        errors[fold] = [judge.value(solution.weights).sum() / points for solution in path]
        gaps[fold] = [solution.relative_gap for solution in path]
    return CrossValidation(strengths, frozen(errors), frozen(gaps))


def assign_folds(counts: list[int], folds: int, seed: int) -> list[NDArray[np.int64]]:
    """Fold of every data point of every device: shuffled, then dealt in turn through all devices."""
    if positive_integer(folds, "folds") < 2:
        raise ValueError("folds must be at least 2: with one fold nothing is left to train on")
    total = sum(counts)
    if total < folds:
        raise ValueError(
            f"folds is {folds}, but the losses have {total} data points: take fewer folds, or other losses"
        )
    rng = np.random.default_rng(seed)
    turn = rng.permutation(folds)
    dealt = np.split(turn[np.arange(total) % folds], np.cumsum(counts)[:-1])
    return [rng.permutation(own) for own in dealt]


def _summed_errors(loss: Loss) -> tuple[Loss, float]:
    """The errors on data points, summed instead of averaged, and the sum of the points' weights."""
    terms, weight = [], 0.0
    for coefficient, atom in loss.data_terms():
        declared = atom.arguments()
        sample_weight = declared.get("sample_weight")
        points = float(atom.n_samples if sample_weight is None else np.sum(sample_weight))
        terms.append((coefficient * (points if declared.get("scale") == "mean" else 1.0), atom))
        weight += points
    return Sum(terms), weight
