"""Convex clustering for growing strengths: ADMM on the clusters found so far, and flows that hold them together.

At each strength the clusters of the last one are nodes of a small network, on which ADMM (:mod:`gtvmin.solvers.admm`)
finds what merges; copies of differences that are exactly zero say so.  Inside a cluster, flows stay as they were or go
on changing as they did, whichever is better, and are corrected by Laplacian systems
(:mod:`gtvmin.solvers.clustering_flows`).  Flows that do not fit are met by a few steps of ADMM on the whole network,
after which clusters are read anew: so they may split as well.

Importing this module imports numba.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from .clustering_flows import continued_flows, fit_flows
from .clustering_network import ClusteringNetwork, Contracted, Groups
from .linear_maps import Array

__all__ = ["ContractedADMM"]

# First penalties of ADMM: bounds of the flows over this share of the spread of the centres.
START_SHARE = 0.1
# Contraction pays if at most this share of the nodes is left.
WORTHWHILE = 0.5
# Clusters are solved for to this share of the tolerance.
REDUCED_SHARE, REDUCED_LIMIT = 0.05, 400
# A gap this many times the tolerance is closed by further steps.
CLOSE = 10.0
FIRST_STEPS, STEPS_GROWTH, MOST_STEPS = 10, 1.5, 3000
CHECK_EVERY, CHECK_GROWTH = 5, 0.2
FIRST_LOOK = 10
LOOK_GROWTH, FACTOR_RANGE, LOCAL_RANGE = 1.5, (0.1, 10.0), (0.1, 10.0)
TINY = float(np.finfo(float).tiny)


class ContractedADMM:
    """Solves a clustering problem for one strength after the other; each solution is the start of the next.

    Parameters
    ----------
    network : ClusteringNetwork
        The problem but for its strength.
    """

    def __init__(self, network: ClusteringNetwork) -> None:
        self.network = network
        self.W, self.U = network.centres.copy(), np.zeros((len(network.tail), network.dim))
        self.groups = Groups(np.arange(network.n_nodes), network.n_nodes)
        spread = float(np.sqrt(np.square(network.centres - network.centres.mean(axis=0)).sum(axis=1).mean()))
        self._first_rho = self.rho = 1.0 / (START_SHARE * spread) if spread > 0 else 1.0
        self.strength, self.iterations = 0.0, 0
        self._contracted: Contracted | None = None
        # strength, flows and edges between clusters of the solution before; flows that continue the change from it
        self._before: tuple[float, Array, NDArray[np.bool_]] | None = None
        self._ahead: Array | None = None

    def solve(self, strength: float, tolerance: float, seconds: float = np.inf) -> float:
        """Move W and U to a solution for the strength; return the relative gap that was reached.

        The gap is computed in floating point from W and U as they are; it is no certificate.  ``iterations`` counts
        the steps of ADMM, on the contracted network and on the whole one, of all strengths.
        """
        end = time.perf_counter() + seconds
        self._scale_flows(strength)
        gap = np.inf
        steps, total = FIRST_STEPS, 0
        while True:
            if self.groups.size <= WORTHWHILE * self.network.n_nodes and gap > CLOSE * tolerance:
                gap = self._try_clusters(tolerance, gap)
                if gap <= tolerance:
                    return gap
            if total >= MOST_STEPS or time.perf_counter() >= end:
                return gap
            gap, merged, self.rho, done = admm(
                self.network, self.strength, self.rho, self.W, self.U, tolerance=tolerance, limit=steps
            )
            total += done
            self.iterations += done
            self.groups = self.network.components(merged)
            if gap <= tolerance:
                return gap
            steps = int(STEPS_GROWTH * steps)

    def restart(self, W: Array, U: Array) -> None:
        """Go on from a solution for the present strength that was found elsewhere."""
        self.W, self.U, self._before = W.copy(), U.copy(), None
        self.rho = self.rho if np.isfinite(self.rho) else self._first_rho
        self.groups = self.network.components(np.asarray(~self.network.differences(W).any(axis=1)))

    def _scale_flows(self, strength: float) -> None:
        """Flows between clusters stay at their bounds; those inside need not change, or go on changing as they did."""
        network, labels, self._ahead = self.network, self.groups.labels, None
        if self.strength > 0:
            across = labels[network.tail] != labels[network.head]
            if self._before is not None and strength > self.strength > self._before[0]:
                before, U, apart = self._before
                share = (strength - self.strength) / (self.strength - before)
                self._ahead = continued_flows(self.U, U, share, ~(across | apart), strength * network.weights)
            self._before = self.strength, self.U.copy(), across
            factor = strength / self.strength
            self.U[across | (factor < 1)] *= factor
        self.strength = strength

    def _try_clusters(self, tolerance: float, known: float) -> float:
        """Take the solution of the contracted problem and flows for it, unless their gap is above the known one."""
        network, strength = self.network, self.strength
        if self._contracted is None or self._contracted.groups is not self.groups:
            self._contracted = Contracted(network, self.groups)
        small = self._contracted
        W, flows = small.shrink(self.W, self.U)
        _, merged, self.rho, done = admm(
            small.network,
            strength,
            self.rho,
            W,
            flows,
            tolerance=REDUCED_SHARE * tolerance,
            limit=REDUCED_LIMIT,
            offset=small.offset,
        )
        self.iterations += done
        further = small.network.components(merged)
        # means alone: parameters that balance the flows exactly can be far off where clusters are about to meet
        W = small.network.means(further, small.network.mass[:, None] * W)[further.labels][self.groups.labels]
        U = small.expand(flows, self.U)
        if self._ahead is not None:
            ahead = small.expand(flows, self._ahead)
            U, self._ahead = min(U, ahead, key=lambda flow: network.gap(strength, W, flow)[0]), None
        groups = (
            self.groups
            if further.size == self.groups.size
            else Groups(further.labels[self.groups.labels], further.size)
        )
        U, gap = fit_flows(network, groups, strength, W, U, tolerance)
        if gap >= known:
            return known
        self.W, self.U, self.groups = W, U, groups
        return gap


def admm(
    network: ClusteringNetwork,
    strength: float,
    rho: float,
    W: Array,
    U: Array,
    *,
    tolerance: float,
    limit: int,
    offset: float = 0.0,
) -> tuple[float, NDArray[np.bool_], float, int]:
    """Change W and U by ADMM until the gap, relative to the objective plus the offset, is within the tolerance.

    Returns
    -------
    gap : float
        Relative gap.
    merged : bool array (n_edges,)
        Edges whose copy of the difference is zero.
    rho : float
        Penalty per strength and weight, adapted.
    steps : int
        How many were taken.
    """
    Z = network.differences(W)
    weights, last = strength * network.weights, (Z.copy(), U.copy())
    factor, penalties = None, weights
    done, look, check = 0, FIRST_LOOK, CHECK_EVERY
    while True:
        if factor is None:
            penalties = _penalties(rho * weights, U, Z)
            factor = network.pattern.factor(network.mass, penalties)
        count = min(check, look, limit) - done
        network.admm_steps(factor, penalties, strength, (W, U, Z), count)
        done += count
        if done >= look:
            look = int(LOOK_GROWTH * done) + 1
            primal = float((weights[:, None] * (Z - last[0]) ** 2).sum())
            dual = float(((U - last[1]) ** 2 / weights[:, None]).sum())
            last = Z.copy(), U.copy()
            if primal > 0 and dual > 0:
                rho *= float(np.clip(np.sqrt(np.sqrt(dual / primal) / rho), *FACTOR_RANGE))
            factor = None
        if done >= min(check, limit):
            gap, objective = network.gap(strength, W, U)
            relative = gap / max(objective + offset, TINY)
            if relative <= tolerance or done >= limit:
                return relative, np.asarray(~Z.any(axis=1)), rho, done
            check = done + max(CHECK_EVERY, int(CHECK_GROWTH * done))


def _penalties(central: Array, U: Array, Z: Array) -> Array:
    """Ratio of every flow to its copy, not too far from the central penalty."""
    low, high = (share * central for share in LOCAL_RANGE)
    flow, copy = (np.sqrt(np.einsum("ij,ij->i", part, part)) for part in (U, Z))
    return np.asarray(np.maximum(flow / np.maximum(np.maximum(copy, flow / high), TINY), low))
