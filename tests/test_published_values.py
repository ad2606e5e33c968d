"""Numbers that the course CS-E4740 (Aalto University) published for its weather data.

Source: alexjungaalto/FederatedLearning, FLDesignPrinciple_RefSol.ipynb and FLAlgorithms_RefSol.ipynb in
material/Assignments; Finnish Meteorological Institute, CC BY 4.0.  What the course says of the graphs alone is in
test_neighbours.py.

The two notebooks ran on different editions of one table.  GradientMethods_RefSol.ipynb, in the first one's commit
462a0b3, reports 16,469 measurements; they are the first 16,469 of the 19,768 rows of Edition2024's file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import train_test_split
from sklearn.neighbors import kneighbors_graph

import gtvmin as gtv
from gtvmin.errors import NotUniqueWarning

EARLIER_ROWS = 16_469
# neighbours, alpha, average training error, sum over edges of the squared difference
PUBLISHED = [
    (3, 1, 32.77241810495208, 203.28666126559543),
    (5, 1, 33.54684568071317, 291.85650430820164),
    (5, 10, 36.74944232826125, 66.97955846449986),
    (5, 100, 45.38185127582437, 5.553538235518733),
    (5, 1000, 50.6961893635968, 0.08962935002391109),
]


@pytest.fixture(scope="module")
def hourly(shared_data: Path) -> pd.DataFrame:
    """19,768 hourly temperatures of 207 stations."""
    return pd.read_csv(shared_data / "fmi_hourly_2023.csv")


def stations(hourly: pd.DataFrame) -> pd.DataFrame:
    """Positions by name, in order of first appearance."""
    return hourly.drop_duplicates("name").set_index("name")[["Latitude", "Longitude"]]


def closed_form(hourly: pd.DataFrame, k: int, alpha: float) -> np.ndarray:
    """``(I + alpha L)^-1`` times the stations' mean temperatures."""
    places = stations(hourly)
    relation = kneighbors_graph(places.to_numpy(), k).toarray()
    adjacency = np.maximum(relation, relation.T)
    laplacian = np.diag(adjacency.sum(axis=0)) - adjacency
    means = hourly.groupby("name").temp.mean()[places.index].to_numpy()
    return np.linalg.solve(np.eye(len(means)) + alpha * laplacian, means)


@pytest.mark.parametrize(("k", "alpha", "error", "variation"), PUBLISHED)
def test_one_temperature_a_station(hourly: pd.DataFrame, k: int, alpha: float, error: float, variation: float) -> None:
    """GTVMin with the squared norm on the earlier rows: the published numbers, and the closed form at every station.

    One feature 1, mean squared error, unit weights on the union k-NN graph in degrees.
    """
    hourly = hourly.head(EARLIER_ROWS)
    network = gtv.FLNetwork.knn(stations(hourly), k)
    losses = {name: gtv.SquaredError(np.ones((len(hours), 1)), hours.temp) for name, hours in hourly.groupby("name")}
    solution = gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=alpha).solve()
    assert solution.method == "linear_system"
    assert solution.is_certified
    assert solution.weights.ravel() == pytest.approx(closed_form(hourly, k, alpha), rel=1e-9)
    trained = np.mean([losses[name].value(solution[name]) for name in network.nodes])
    varied = sum(float(((solution[u] - solution[v]) ** 2).sum()) for u, v in network.edges)
    assert (trained, varied) == pytest.approx((error, variation), rel=1e-9)
    assert solution.objective == pytest.approx(207 * error + alpha * variation, rel=1e-12)


def weather_problem(
    hourly: pd.DataFrame,
) -> tuple[dict[str, gtv.SquaredError], dict[str, gtv.SquaredError], gtv.GTVMin]:
    """Losses of the training and the validation data on seven features, and the problem of the training data."""
    time = pd.to_datetime(hourly.Timestamp)
    columns = [hourly.Latitude / 100, hourly.Longitude / 100, time.dt.year / 2025, time.dt.month / 13, time.dt.day / 32]
    features = np.column_stack([*columns, time.dt.hour / 25, time.dt.minute / 61])
    training, validation = {}, {}
    for name in stations(hourly).index:
        mine = (hourly.name == name).to_numpy()
        split = train_test_split(features[mine], hourly.temp.to_numpy()[mine], test_size=0.2, random_state=1)
        training[name] = gtv.SquaredError(split[0], split[2])
        validation[name] = gtv.SquaredError(split[1], split[3])
    network = gtv.FLNetwork.knn(stations(hourly), 3)
    return training, validation, gtv.GTVMin(network, training, penalty=gtv.SquaredNorm(), alpha=0.5)


def test_federated_gradient_descent(hourly: pd.DataFrame) -> None:
    """FedGD on seven features: 1,000 rounds of 0.1 from zero parameters.

    Published: average training error 21.065277715408104, average validation error 21.336245897848386.
    """
    training, validation, problem = weather_problem(hourly)
    run = gtv.federate(problem, "fedgd", rounds=1000, eta=0.1, check_every=1000)
    errors = [
        np.mean([losses[name].value(run[name]) for name in problem.network.nodes]) for losses in (training, validation)
    ]
    assert errors == pytest.approx([21.065277715408104, 21.336245897848386], rel=1e-9)
    with pytest.warns(NotUniqueWarning):  # the minutes are all zero
        solution = problem.solve(gap=1e-9)
    assert solution.is_certified
    assert problem.objective(run.weights) > solution.objective
