"""What the devices' linear models predict for new data points."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, softmax

from gtvmin.errors import CapabilityError
from gtvmin.frames import INTERCEPT, numbers_of
from gtvmin.losses import Huber, LeastAbsolute, Logistic, Loss, Poisson, Quantile, Softmax, SquaredError
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["predict"]

Link = Callable[[Array], Array]
LINKS: dict[type[Loss], Link] = {
    SquaredError: np.asarray,
    Huber: np.asarray,
    LeastAbsolute: np.asarray,
    Quantile: np.asarray,
    Poisson: np.exp,
    Logistic: expit,
    Softmax: lambda scores: softmax(scores, axis=1),
}
"""From scores ``x^T w`` to what is predicted, by the loss on data points."""


def predict(problem: GTVMin, W: Array, X: Any, node: Hashable) -> Array:
    """What the model of one device predicts.

    Parameters
    ----------
    problem : GTVMin
        Whose losses say what is predicted.
    W : array (n_nodes, dim)
        Parameters.
    X : array_like (rows, features) or DataFrame
        Features as the losses had them.  If the losses are those of :func:`gtvmin.losses_from_frame`, columns of a
        DataFrame are found by their names, and the column of ones may be left out.
    node : hashable
        Label of the device.

    Returns
    -------
    array (rows,) or (rows, classes)
        ``X @ w`` for losses of regression, the mean ``exp(X @ w)`` for Poisson, the probability of the class +1 for
        Logistic, those of all classes for Softmax.  A device without data predicts as the others do.

    Raises
    ------
    ValueError
        If there is no such device, or X has other features than its model.
    CapabilityError
        If its loss is none of a linear model's predictions, or gives scores without a probability, as hinge losses do.
    """
    i = problem.network.index(node)
    w = W[i, : problem.dims[i]]
    kind, classes = _kind(problem, i, node)
    features = _features(X, problem.parameter_names, len(w) // classes, node)
    return np.asarray(LINKS[kind](features @ (w if classes == 1 else w.reshape(-1, classes))))


def _kind(problem: GTVMin, i: int, node: Hashable) -> tuple[type[Loss], int]:
    """The loss on the device's data points, or on those of all others if it has none, and its number of classes."""
    own = [atom for _, atom in problem.losses[i].data_terms()]
    atoms = own or [atom for loss in problem.losses for _, atom in loss.data_terms()]
    kinds = {(type(atom), atom.classes if isinstance(atom, Softmax) else 1) for atom in atoms}
    if len(kinds) != 1:
        found = ", ".join(sorted(kind.__name__ for kind, _ in kinds)) or "none"
        raise CapabilityError(f"node {node!r} has no loss of one kind on data points to predict by, but {found}")
    ((kind, classes),) = kinds
    if kind not in LINKS:
        known = ", ".join(loss.__name__ for loss in LINKS)
        raise CapabilityError(
            f"{kind.__name__} does not say what is predicted, as {known} do: scores are X @ solution[{node!r}]"
        )
    return kind, classes


def _features(X: Any, names: tuple[str, ...] | None, count: int, node: Hashable) -> Array:
    """Features (rows, count), with a column of ones where the model has one and X has not."""
    intercept = names is not None and names[-1] == INTERCEPT
    if names is not None and hasattr(X, "columns"):
        wanted = names[:-1] if intercept else names
        X = np.column_stack([numbers_of(X, name) for name in wanted] or [np.empty((len(X), 0))])
    rows = finite_array(X, "X")
    if intercept and rows.ndim == 2 and rows.shape[1] == count - 1:
        rows = np.column_stack([rows, np.ones(len(rows))])
    if rows.ndim != 2 or rows.shape[1] != count:
        ones = f", or (rows, {count - 1}) without the column of ones" if intercept else ""
        raise ValueError(f"X must have shape (rows, {count}) for the model of node {node!r}{ones}, got {rows.shape}")
    return rows
