"""Classification data of devices that differ, after the synthetic(alpha, beta) data of FedProx."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gtvmin.validation import frozen, nonnegative_number, positive_integer

if TYPE_CHECKING:
    from gtvmin.losses import Loss

__all__ = ["Synthetic", "make_synthetic"]

LEAST_ROWS = 50
LOG_MEAN, LOG_DEVIATION = 4.0, 2.0


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Synthetic:
    """Data of all devices, with the models that labelled them; made by `make_synthetic`. All arrays are read-only.

    Attributes
    ----------
    features : tuple of ndarray, each of shape (rows_i, features)
        Feature vectors of every device.
    labels : tuple of ndarray of int, each of shape (rows_i,)
        Classes ``0..classes-1``.
    true_weights : ndarray, shape (devices, features, classes)
        The matrices ``W_i``.
    true_intercepts : ndarray, shape (devices, classes)
        The vectors ``b_i``.
    """

    features: tuple[NDArray[np.float64], ...]
    labels: tuple[NDArray[np.intp], ...]
    true_weights: NDArray[np.float64]
    true_intercepts: NDArray[np.float64]

    @property
    def rows(self) -> NDArray[np.intp]:
        """Number of data points of every device."""
        return np.array([len(labels) for labels in self.labels])

    def losses(self, ridge: float = 0.0) -> dict[int, Loss]:
        """Multinomial logistic losses by device, of the features and a constant 1 for the intercepts.

        With ``ridge`` above zero ``(ridge/2) ||w||^2`` is added to each of them, which makes their minimisers unique.
        """
        from gtvmin.losses import Quadratic, Softmax

        _, d, classes = self.true_weights.shape
        strength = nonnegative_number(ridge, "ridge")
        found: dict[int, Loss] = {}
        for i, (X, y) in enumerate(zip(self.features, self.labels, strict=True)):
            loss: Loss = Softmax(np.column_stack([X, np.ones(len(X))]), y, classes=classes)
            if strength:
                loss = loss + Quadratic(strength * np.eye((d + 1) * classes))
            found[i] = loss
        return found

    def __repr__(self) -> str:
        n, d, classes = self.true_weights.shape
        return f"Synthetic({n} devices, {self.rows.sum()} rows in R^{d}, {classes} classes)"


def make_synthetic(
    alpha: float,
    beta: float,
    *,
    iid: bool = False,
    devices: int = 30,
    features: int = 60,
    classes: int = 10,
    seed: int = 0,
) -> Synthetic:
    """Draw the synthetic(alpha, beta) data of [1]_, Section 5.1; the sizes by default are theirs.

    Device k labels ``x`` by ``argmax(W_k^T x + b_k)``, where all entries of ``W_k`` and ``b_k`` are drawn from
    N(u_k, 1) with ``u_k`` from N(0, alpha^2): alpha says how much the models differ. Its features are drawn from
    N(v_k, Sigma) with the diagonal ``Sigma_jj = j^-1.2``, where all entries of ``v_k`` are drawn from N(B_k, 1) with
    ``B_k`` from N(0, beta^2): beta says how much the features differ.

    Parameters
    ----------
    alpha, beta : float
        Standard deviations, at least 0, of the devices' model means and feature means.
    iid : bool
        All devices have one model, with entries from N(0, 1), and features of mean zero; alpha and beta must be 0.
    devices, features, classes : int
        Sizes, at least 1; there are at least two classes.
    seed : int
        Seed of the random numbers, not negative. Numbers of rows, models and features have a stream of their own
        each. NumPy's global random state is neither read nor changed.

    Returns
    -------
    Synthetic
        Features and labels by device, and the models behind them; `Synthetic.losses` declares the devices' losses.

    Raises
    ------
    ValueError
        If an argument is out of range, or alpha or beta is not 0 with ``iid``.

    Notes
    -----
    The numbers of rows are ``50 + floor(z)`` with z from the log-normal law of parameters 4 and 2, as in the authors'
    code; the paper calls that a power law. The median is 104 and the mean 452: a few devices hold most data. In the
    paper alpha and beta are the second parameters of normal laws; the authors' code takes them for standard deviations,
    which is what this function does, and with the values 0 and 1 there is no difference.

    References
    ----------
    .. [1] T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith, "Federated Optimization in Heterogeneous
       Networks", MLSys 2020, arXiv:1812.06127.

    Examples
    --------
    >>> from gtvmin.datasets import make_synthetic
    >>> data = make_synthetic(1.0, 1.0, seed=0)
    >>> len(data.features), data.features[0].shape[1], int(data.rows.min()) >= 50
    (30, 60, True)
    >>> data.losses()[0].dim
    610
    """
    spread, shift = nonnegative_number(alpha, "alpha"), nonnegative_number(beta, "beta")
    if iid and (spread or shift):
        raise ValueError("alpha and beta must be 0 with iid=True: the devices do not differ")
    n, d = positive_integer(devices, "devices"), positive_integer(features, "features")
    count = positive_integer(classes, "classes")
    if count < 2:
        raise ValueError(f"classes must be at least 2, got {count}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, got {seed!r}")
    row_rng, model_rng, feature_rng = np.random.default_rng(int(seed)).spawn(3)
    rows = LEAST_ROWS + row_rng.lognormal(LOG_MEAN, LOG_DEVIATION, n).astype(np.intp)
    if iid:
        W = np.broadcast_to(model_rng.standard_normal((d, count)), (n, d, count))
        b = np.broadcast_to(model_rng.standard_normal(count), (n, count))
        centres = np.zeros((n, d))
    else:
        u = spread * model_rng.standard_normal(n)
        W = u[:, None, None] + model_rng.standard_normal((n, d, count))
        b = u[:, None] + model_rng.standard_normal((n, count))
        centres = shift * feature_rng.standard_normal((n, 1)) + feature_rng.standard_normal((n, d))
    deviations = np.arange(1.0, d + 1.0) ** -0.6
    X = [centre + deviations * feature_rng.standard_normal((m, d)) for centre, m in zip(centres, rows, strict=True)]
    labels = [np.argmax(x @ w + c, axis=1) for x, w, c in zip(X, W, b, strict=True)]
    return Synthetic(
        features=tuple(frozen(x) for x in X),
        labels=tuple(frozen(y) for y in labels),
        true_weights=frozen(np.array(W)),
        true_intercepts=frozen(np.array(b)),
    )
