"""Convex programs of federated algorithms: consensus of weighted losses, stars around a server, personal models."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.federated.program import Program, complete_graph, consensus, star
from gtvmin.losses import Loss, SquaredError, Zero
from gtvmin.penalties import SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.classification import logistic, two_classes
from gtvmin.verify.instances.graphs import network_of
from gtvmin.verify.instances.instance import instance

SIZES = np.array([5, 24, 8, 12, 20, 16, 6, 10])
UNIFORM = np.full(8, 1.0 / 8.0)


def declared(program: Program) -> GTVMin:
    """The problem of a program that has one."""
    if program.problem is None:
        raise ValueError(f"there is no problem: {program.note}")
    return program.problem


def devices(losses: list[Loss]) -> GTVMin:
    """The devices on a ring, which algorithms on a network use and programs of a server replace."""
    return GTVMin(network_of(nx.cycle_graph(len(losses))), losses, penalty=SquaredNorm(), alpha=0.5)


def heterogeneous(rng: np.random.Generator) -> list[Loss]:
    """Squared errors of eight devices with minimisers and numbers of data points of their own."""
    common = rng.normal(size=2)
    losses: list[Loss] = []
    for rows in SIZES:
        X, w = rng.normal(size=(rows, 2)), common + rng.normal(size=2)
        losses.append(SquaredError(X, X @ w + rng.normal(size=rows)))
    return losses


@instance("federated_programs")
def consensus_uniform(rng: np.random.Generator) -> GTVMin:
    """The same weight for each device: the limit of one local step, SCAFFOLD, FedDyn, FedSplit, EXTRA, tracking."""
    return declared(consensus(devices(heterogeneous(rng)), UNIFORM))


@instance("federated_programs")
def consensus_by_samples(rng: np.random.Generator) -> GTVMin:
    """Weights by the numbers of data points, which move the minimiser."""
    return declared(consensus(devices(heterogeneous(rng)), SIZES / SIZES.sum()))


@instance("federated_programs")
def consensus_logistic(rng: np.random.Generator) -> GTVMin:
    """Logistic regression in consensus: several local steps minimise no function at all."""
    return declared(consensus(devices(logistic(*two_classes(rng, 8, 6))), UNIFORM))


@instance("federated_programs")
def consensus_with_empty_devices(rng: np.random.Generator) -> GTVMin:
    """Two devices without data: their models must not count in an average."""
    losses = heterogeneous(rng)
    losses[2] = losses[5] = Zero()
    p = np.where(np.isin(np.arange(8), (2, 5)), 0.0, 1.0 / 6.0)
    return declared(consensus(devices(losses), p))


@instance("federated_programs")
def prox_star(rng: np.random.Generator) -> GTVMin:
    """A server without a loss, held together by squares: exact FedProx, pFedMe with one round."""
    return declared(star(devices(heterogeneous(rng)), UNIFORM, 1.0))


@instance("federated_programs")
def prox_complete_graph(rng: np.random.Generator) -> GTVMin:
    """The same without the server: every pair of devices is coupled, as in the mean of L2GD."""
    return declared(complete_graph(devices(heterogeneous(rng)), UNIFORM, 1.0))


@instance("federated_programs")
def personal_models(rng: np.random.Generator) -> GTVMin:
    """Each device on its own: the limit of APFL's mixtures."""
    return GTVMin(network_of(nx.empty_graph(8)), heterogeneous(rng), penalty=SquaredNorm(), alpha=1.0)


@instance("federated_programs")
def network_ring(rng: np.random.Generator) -> GTVMin:
    """GTV minimisation on a weighted ring: the limit of FedGD, FedRelax and decentralised gradient descent."""
    return GTVMin(network_of(nx.cycle_graph(8), rng, spread=0.3), heterogeneous(rng), penalty=SquaredNorm(), alpha=0.5)
