"""Instances from data that were measured, not drawn."""

from __future__ import annotations

import numpy as np

from gtvmin.datasets import load_sacramento
from gtvmin.losses import Ridge
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm, Penalty, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.instance import instance


def house_prices(penalty: Penalty, alpha: float, n_houses: int) -> GTVMin:
    """One house a device: price from living area (z-scores), five neighbours weighted by inverse distance.

    D. Hallac, J. Leskovec, S. Boyd, "Network Lasso" (2015), section 5.2, DOI 10.1145/2783258.2783313.
    """
    houses = load_sacramento()
    position = np.column_stack([houses.latitude, houses.longitude])[:n_houses]
    net = FLNetwork.knn(position, 5, metric="haversine", weights=lambda km: 1.0 / (km + 0.1))
    area, price = (
        (column[:n_houses] - column[:n_houses].mean()) / column[:n_houses].std()
        for column in (houses.sqft, houses.price)
    )
    losses = [Ridge([[x, 1.0]], [y], lam=0.1, penalise=[1, 0]) for x, y in zip(area, price, strict=True)]
    return GTVMin(net, losses, penalty=penalty, alpha=alpha)


@instance("network_lasso")
def lasso_sacramento(rng: np.random.Generator) -> GTVMin:
    """House prices around Sacramento, the first 200 sales: one data point for two parameters a house."""
    return house_prices(Norm(2), 1.5, 200)


@instance("quadratic")
def quadratic_sacramento(rng: np.random.Generator) -> GTVMin:
    """House prices around Sacramento, all 932 sales, coupled by the squared norm."""
    return house_prices(SquaredNorm(), 1.5, 932)


@instance("hard")
def hard_sacramento(rng: np.random.Generator) -> GTVMin:
    """House prices around Sacramento, all 932 sales, as a network Lasso."""
    return house_prices(Norm(2), 1.5, 932)
