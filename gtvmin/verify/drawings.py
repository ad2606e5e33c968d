"""Drawings of reports as inline SVG: how gaps fell, and which devices of a network are wrong.

No plotting library: a report must not need one, and its drawings must hold no address and no script.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.network_drawing import node_positions

if TYPE_CHECKING:
    from gtvmin.network import FLNetwork
    from gtvmin.solvers.standard_form import Array

__all__ = ["convergence", "network", "shown_label"]

# Blue and vermilion can be told apart with every common kind of colour vision (M. Okabe, K. Ito, 2008).
BLUE, VERMILION, INK = "#0072b2", "#c94a00", "#20262e"
LEAST_GAP = 1e-16
"""Smaller gaps are drawn here: a logarithm has no zero."""
LARGEST_NETWORK = 150
"""Devices up to which a network without coordinates is drawn."""
MOST_EDGES = 3_000
NAMED = 3
"""Devices whose names are written into the drawing."""
LONGEST_LABEL = 40


def shown_label(label: Any) -> str:
    """A node label as it is written in Python, cut where it is long."""
    text = repr(label)
    return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1]}…"


def convergence(histories: Mapping[str, Sequence[Any]], tolerance: float, marked: frozenset[str]) -> str:
    """Relative gaps that a solver recorded, a line an instance; empty if it recorded none.

    Parameters
    ----------
    histories : mapping from instance to records
        With attributes ``iteration`` and ``relative_gap``; others are left out.
    tolerance : float
        What was asked for: a dashed line.
    marked : frozenset of str
        Instances on which a check failed.
    """
    curves = {name: curve for name, records in histories.items() if (curve := _curve(records))}
    if not curves:
        return ""
    width, height, left, right, bottom, top = 760, 300, 64, 26, 46, 12
    most = max(max(x for x, _ in curve) for curve in curves.values())
    right_power = max(math.ceil(math.log10(most + 1)), 1)
    gaps = [y for curve in curves.values() for _, y in curve] + [tolerance]
    low, high = math.floor(math.log10(min(gaps))), max(math.ceil(math.log10(max(gaps))), 0)

    def place(iteration: float, gap: float) -> tuple[float, float]:
        x = left + (width - left - right) * math.log10(iteration + 1) / right_power
        return x, top + (height - top - bottom) * (high - math.log10(gap)) / (high - low)

    parts = []
    for power in range(right_power + 1):
        x, y = place(10.0**power - (power == 0), 10.0**low)
        number = "0" if power == 0 else str(10**power) if power < 4 else _power(power)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{number}</text>')
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        x, y = place(0.0, 10.0**power)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>')
    x, y = place(0.0, tolerance)
    parts.append(f'<line class="asked" x1="{x:.1f}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}"/>')
    asked = f'<text x="{width - right - 2}" y="{y - 5:.1f}" text-anchor="end">asked for: {tolerance:g}</text>'
    for name in sorted(curves, key=lambda name: name in marked):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in curves[name]))
        colour, thick = (VERMILION, 2.4) if name in marked else (BLUE, 1.3)
        (x, y), text = place(*curves[name][-1]), escape(name)
        parts.append(
            f'<g stroke="{colour}" fill="{colour}"><title>{text}</title>'
            f'<polyline points="{points}" fill="none" stroke-width="{thick}" stroke-linejoin="round"/>'
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{1.3 * thick:.1f}"/></g>'
        )
    parts.append(asked)  # above the lines
    middle = (left + width - right) / 2
    parts.append(f'<text x="{middle}" y="{height - 8}" text-anchor="middle">iterations</text>')
    parts.append(
        f'<text transform="translate(14 {(height - bottom) / 2 + top}) rotate(-90)" text-anchor="middle">'
        "relative gap, as the solver recorded it</text>"
    )
    return _svg(width, height, "Relative gap against iterations", parts)


def _curve(records: Sequence[Any]) -> list[tuple[float, float]]:
    points = ((getattr(record, "iteration", None), getattr(record, "relative_gap", None)) for record in records)
    return [
        (float(iteration), max(float(gap), LEAST_GAP))
        for iteration, gap in points
        if iteration is not None and gap is not None and math.isfinite(gap) and iteration >= 0
    ]


def _power(power: int) -> str:
    raised = str(power).replace("-", "−")
    return f'10<tspan dy="-5" font-size="9">{raised}</tspan>'


def network(net: FLNetwork, per_node: Array, per_edge: Array | None = None) -> str:
    """The network, with devices and edges the larger and redder, the larger their share of the gap.

    Empty if it is too large and has no two coordinates.
    """
    placed = net.coordinates is not None and net.coordinates.shape[1] == 2
    if net.n_edges > MOST_EDGES or not (placed or net.n_nodes <= LARGEST_NETWORK):
        return ""
    width, height, margin = 760, 380, 34
    where = node_positions(net)
    span = np.ptp(where, axis=0)
    extents = np.where(span > 0, span, span.max() or 1.0)
    scale = float(((np.array([width, height]) - 2 * margin) / extents).min())
    offset = np.array([width, height]) / 2
    at = (where - where.min(axis=0) - span / 2) * scale * [1, -1] + offset
    share = _share(per_node)
    edge_share = np.zeros(net.n_edges) if per_edge is None or not len(per_edge) else _share(per_edge[: net.n_edges])
    parts = []
    for e in np.argsort(edge_share, kind="stable"):
        (x1, y1), (x2, y2), wrong = at[net.tail[e]], at[net.head[e]], edge_share[e]
        parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{_mixed(wrong, (195, 201, 209))}" stroke-width="{1 + 2.5 * wrong:.1f}"/>'
        )
    size = float(np.clip(60 / math.sqrt(net.n_nodes), 2.5, 9))
    for i in np.argsort(share, kind="stable"):
        (x, y), title = at[i], escape(f"{shown_label(net.nodes[i])}: {per_node[i]:.3g}")
        parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size * (0.7 + 0.6 * share[i]):.1f}" fill="{_mixed(share[i])}" '
            f'stroke="{INK}" stroke-width="0.7"><title>{title}</title></circle>'
        )
    for i in np.argsort(-share, kind="stable")[:NAMED]:
        if share[i] > 0:
            text, (x, y) = escape(shown_label(net.nodes[i])), at[i]
            room = 8 * len(shown_label(net.nodes[i])) + margin  # outwards, if the text fits there
            anchor = "end" if room < x < width / 2 or x > width - room else "start"
            x += (size * 1.3 + 4) * (1 if anchor == "start" else -1)
            parts.append(f'<text class="name" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="{anchor}">{text}</text>')
    return _svg(width, height, "The network: devices are the redder, the larger their share of the gap", parts)


def _share(terms: Array) -> Array:
    """Of the largest term, by square roots, so that the smaller ones are seen; infinite ones count as the largest."""
    finite = np.where(np.isfinite(terms), np.maximum(terms, 0.0), 0.0)
    largest = float(finite.max(initial=0.0))
    share = np.sqrt(finite / largest) if largest > 0 else np.zeros(len(terms))
    return np.asarray(np.where(np.isinf(terms), 1.0, share))


def _mixed(share: float, base: tuple[int, int, int] = (255, 255, 255)) -> str:
    """From the base colour to vermilion."""
    red = tuple(int(VERMILION[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(b + share * (r - b)):02x}" for b, r in zip(base, red, strict=True))


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}"><title>{escape(title)}</title>'
        + "".join(parts)
        + "</svg>"
    )
