"""Figures: what is drawn where, in which colour, read back from the artists."""

from __future__ import annotations

import io
import pickle
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.figure import Figure

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning
from gtvmin.network_drawing import LARGEST_LAYOUT, node_positions
from gtvmin.plotting import plot_convergence, plot_network
from gtvmin.points import latitude_longitude

# Helsinki, Espoo and Oulu: the first two share a level, the third has its own
PLACES = {"Helsinki": (60.17, 24.94), "Espoo": (60.21, 24.66), "Oulu": (65.01, 25.47)}
EDGES = [("Helsinki", "Espoo", 5.0), ("Espoo", "Oulu", 0.2)]


def solve(levels=(1.0, 1.2, 9.0), *, coordinates=PLACES, **losses):
    network = gtv.FLNetwork.from_edges(EDGES, coordinates=coordinates)
    given = {node: gtv.SquaredError([[1.0, 0.0], [0.0, 1.0]], [y, 0.0]) for node, y in zip(PLACES, levels, strict=True)}
    return gtv.NetworkLasso(network, {**given, **losses}, lam=1.0).solve()


@pytest.fixture(scope="module")
def solution():
    return solve()


@pytest.fixture
def ax():
    return Figure(layout="constrained").add_subplot()


def markers(axes):
    """The coloured markers: the first collection of points."""
    return next(artist for artist in axes.collections if isinstance(artist, PathCollection))


def edge_lines(axes):
    """The faint and the strong edges."""
    return [artist for artist in axes.collections if isinstance(artist, LineCollection)]


def segments(lines):
    return [tuple(map(tuple, segment)) for segment in lines.get_segments()]


def draw(axes):
    """Render, so that what only fails or warns when drawn does so."""
    axes.figure.savefig(io.BytesIO(), format="png")


def test_devices_stand_at_their_coordinates_in_the_colour_of_the_widest_parameter(solution, ax):
    assert plot_network(solution, ax=ax) is ax
    assert markers(ax).get_offsets().tolist() == [list(place) for place in PLACES.values()]
    # the second parameter is 0 at all devices
    assert markers(ax).get_array().tolist() == solution.weights[:, 0].tolist()
    draw(ax)


def test_latitude_and_longitude_are_a_map(solution, ax):
    plot_network(solution, coordinate_names=("lat", "lon"), ax=ax)
    assert markers(ax).get_offsets().tolist() == [[longitude, latitude] for latitude, longitude in PLACES.values()]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("longitude (degrees)", "latitude (degrees)")
    # at 61.8 degrees north a degree of longitude has 0.4726 of the length of one of latitude
    assert ax.get_aspect() == pytest.approx(1 / np.cos(np.radians((60.17 + 60.21 + 65.01) / 3)))
    draw(ax)


def test_a_network_that_knows_its_coordinates_is_a_map(ax):
    """By the names that were given, a DataFrame's columns, or because distances were measured on the globe."""
    places, east = np.array(list(PLACES.values())), [[longitude, latitude] for latitude, longitude in PLACES.values()]
    table = pd.DataFrame(places, index=list(PLACES), columns=["lat", "lng"])
    networks = [
        gtv.FLNetwork.from_edges(EDGES, coordinates=PLACES, coordinate_names=("latitude", "longitude")),
        gtv.FLNetwork.from_edges(EDGES, coordinates=table),
        gtv.FLNetwork.from_edges(EDGES, coordinates=table[["lng", "lat"]]),
        gtv.FLNetwork.knn(places, 1, metric="haversine", nodes=PLACES),
        gtv.FLNetwork.knn(table, 1),
    ]
    for network in networks:
        for kept in (network, network.subgraph(PLACES), pickle.loads(pickle.dumps(network))):
            assert node_positions(kept).tolist() == east
            assert list(map(list, nx.get_node_attributes(kept.to_networkx(), "pos").values())) == east
    problem = gtv.NetworkLasso(networks[1], {node: gtv.SquaredDistance([1.0]) for node in PLACES}, lam=1.0)
    plot_network(problem.solve(), ax=ax)
    assert markers(ax).get_offsets().tolist() == east
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("longitude (degrees)", "latitude (degrees)")


def test_names_that_do_not_fit_are_refused():
    for wrong in (("lat",), "la", ("lat", 1)):
        with pytest.raises(ValueError, match="coordinate_names must be 2 texts"):
            gtv.FLNetwork.from_edges(EDGES, coordinates=PLACES, coordinate_names=wrong)
    assert gtv.FLNetwork.from_edges(EDGES, coordinates=PLACES).coordinate_names is None


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (("lat", "lon"), (0, 1)),
        (("Longitude", "Latitude"), (1, 0)),
        (("lng", "LAT"), (1, 0)),
        (("x", "y"), None),
        (("lat", "lat"), None),
        (("lat",), None),
        (("lat", "lon", "height"), None),
    ],
)
def test_names_of_latitude_and_longitude(names, order):
    assert latitude_longitude(names) == order


def test_edges_with_a_jump_are_strong_and_the_others_faint(solution, ax):
    helsinki, espoo, oulu = PLACES.values()
    plot_network(solution, ax=ax)
    faint, strong = edge_lines(ax)
    assert segments(faint) == [(helsinki, espoo)]
    assert segments(strong) == [(espoo, oulu)]
    assert strong.get_linewidths()[0] > faint.get_linewidths()[0]
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["neighbours agree", "parameters jump (the darker, the more)"]


def test_a_device_without_data_has_a_hole(ax):
    plot_network(solve(Espoo=gtv.Zero()), ax=ax)
    holes = [artist for artist in ax.collections if isinstance(artist, PathCollection)][1]
    assert holes.get_offsets().tolist() == [list(PLACES["Espoo"])]
    assert "device without data" in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("values", [[3.0, 1.0, 2.0], {"Oulu": 2.0, "Helsinki": 3.0, "Espoo": 1.0}, np.array([3, 1, 2])])
def test_values_colour_the_devices(solution, ax, values):
    plot_network(solution, values=values, label="temperature (degC)", title="A title", ax=ax)
    assert markers(ax).get_array().tolist() == [3.0, 1.0, 2.0]
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "temperature (degC)"
    assert ax.get_title(loc="left") == "A title"
    draw(ax)


def test_a_parameter_colours_the_devices(solution, ax):
    plot_network(solution, values=1, ax=ax)
    assert markers(ax).get_array().tolist() == solution.weights[:, 1].tolist()
    assert ax.figure.axes[1].get_ylabel() == "parameter 1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": 2}, "there is no parameter 2, a device has 2"),
        ({"values": -1}, "there is no parameter -1"),
        ({"values": [1.0, 2.0]}, "values must be 3 finite numbers"),
        ({"values": [1.0, 2.0, np.nan]}, "values must be 3 finite numbers"),
        ({"values": {"Oulu": 1.0}}, "values has no number for node 'Helsinki'"),
        ({"positions": [[0.0, 1.0]]}, r"positions must be finite, of shape \(3, 2\)"),
    ],
)
def test_what_does_not_fit_is_an_error(solution, ax, arguments, message):
    with pytest.raises(ValueError, match=message):
        plot_network(solution, ax=ax, **arguments)


def test_without_coordinates_the_layout_is_computed_and_always_the_same(ax):
    solution = solve(coordinates=None)
    first, second = (node_positions(solution.problem.network) for _ in range(2))
    assert np.array_equal(first, second)
    plot_network(solution, ax=ax)
    assert np.array_equal(markers(ax).get_offsets(), first)
    assert not ax.axison
    names = [text.get_text() for text in ax.texts]
    assert names == ["Helsinki", "Espoo", "Oulu"]
    draw(ax)


def test_positions_may_be_given(ax):
    plot_network(solve(coordinates=None), positions=[[0, 0], [1, 0], [2, 5]], ax=ax)
    assert markers(ax).get_offsets().tolist() == [[0, 0], [1, 0], [2, 5]]
    assert ax.axison


def test_too_many_devices_for_a_layout_are_an_error():
    network = gtv.FLNetwork.from_edges([(i, i + 1) for i in range(LARGEST_LAYOUT)])
    with pytest.raises(ValueError, match="give positions="):
        node_positions(network)


def test_equal_parameters_and_a_single_device_can_be_drawn(ax):
    plot_network(solve(levels=(2.0, 2.0, 2.0)), ax=ax)
    draw(ax)
    alone = gtv.FLNetwork.from_edges([], nodes=["alone"])
    solution = gtv.NetworkLasso(alone, [gtv.SquaredError([[1.0]], [1.0])], lam=1.0).solve()
    draw(plot_network(solution, ax=Figure().add_subplot()))


def test_extreme_values_do_not_flatten_the_colours():
    network = gtv.FLNetwork.from_edges(
        [(i, i + 1) for i in range(199)], coordinates=np.random.default_rng(0).random((200, 2))
    )
    solution = gtv.NetworkLasso(network, [gtv.SquaredError([[1.0]], [0.0])] * 200, lam=0.0).solve()
    values = np.arange(200.0)
    values[7] = 1e9
    ax = plot_network(solution, values=values, ax=Figure().add_subplot())
    assert markers(ax).get_clim()[1] < 200
    draw(ax)


def test_convergence_shows_the_history_and_the_certificate(solution, ax):
    assert plot_convergence(solution, tolerance=1e-6, ax=ax) is ax
    curves = {line.get_label(): line for line in ax.get_lines()}
    x, y = curves["certified relative gap"].get_data()
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert list(zip(x, y, strict=True)) == [(r.iteration, r.relative_gap) for r in solution.history]
    last = curves["certificate"].get_data()
    assert (last[0][0], last[1][0]) == (solution.iterations, solution.relative_gap)
    assert curves["asked for: 1e-06"].get_ydata()[0] == 1e-6
    # relative to the objective: final bound and objective are apart by the gap
    bound = curves["bound below the final objective"].get_ydata()
    assert bound[-1] == pytest.approx((solution.objective - solution.history[-1].dual) / solution.objective, rel=1e-6)
    draw(ax)


def test_convergence_against_time(solution, ax):
    plot_convergence(solution, x="seconds", ax=ax)
    x = next(line for line in ax.get_lines() if line.get_label() == "certified relative gap").get_xdata()
    assert list(x) == [record.seconds for record in solution.history]
    assert ax.get_xlabel() == "seconds"
    with pytest.raises(ValueError, match="x must be 'iteration' or 'seconds', got 'hours'"):
        plot_convergence(solution, x="hours", ax=ax)


@pytest.mark.parametrize("options", [{"method": "cvxpy"}, {"penalty": gtv.SquaredNorm()}])
def test_convergence_of_a_direct_solver_is_one_point(ax, options):
    network = gtv.FLNetwork.from_edges([(0, 1)])
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    problem = gtv.GTVMin(network, losses, penalty=options.get("penalty", gtv.Norm(2)), alpha=0.5)
    plot_convergence(problem.solve(options.get("method", "auto")), tolerance=1e-6, ax=ax)
    draw(ax)


def test_convergence_without_a_finite_bound_can_be_drawn(ax):
    network = gtv.FLNetwork.from_edges([(0, 1)])
    problem = gtv.NetworkLasso(network, [0.5 * gtv.SquaredError([[1.0]], [5.0]), gtv.Linear([2.0])], lam=1.0)
    with pytest.warns(ConvergenceWarning):  # the edge carries 1: unbounded below
        solution = problem.solve(max_iter=10)
    assert not any(np.isfinite(record.relative_gap) for record in solution.history)
    draw(plot_convergence(solution, ax=ax))


def test_given_axes_leave_pyplot_alone(solution, ax):
    settings, figures, backend = dict(mpl.rcParams), plt.get_fignums(), mpl.get_backend()
    plot_network(solution, ax=ax)
    plot_convergence(solution, ax=ax)
    assert (dict(mpl.rcParams), plt.get_fignums(), mpl.get_backend()) == (settings, figures, backend)


@pytest.mark.parametrize("plot", [plot_network, plot_convergence])
def test_without_axes_there_is_a_new_pyplot_figure(solution, plot):
    settings = dict(mpl.rcParams)
    axes = plot(solution)
    assert plt.fignum_exists(axes.figure.number)
    assert dict(mpl.rcParams) == settings
    plt.close(axes.figure)


@pytest.mark.parametrize("plot", [plot_network, plot_convergence])
def test_without_matplotlib_the_error_says_what_to_install(solution, plot, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "gtvmin\[plot\]"'):
        plot(solution)
