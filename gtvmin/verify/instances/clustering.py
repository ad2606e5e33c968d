"""Convex clustering: one point a device, centroids that fuse."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.clustering.problem import ConvexClustering
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import Array, network_of
from gtvmin.verify.instances.instance import instance


def blobs(rng: np.random.Generator, per_blob: int = 10) -> Array:
    """Points (3 per_blob, 2) around three centres."""
    centres = np.repeat([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]], per_blob, axis=0)
    return np.asarray(centres + 0.5 * rng.normal(size=centres.shape))


@instance("smoke", "convex_clustering")
def clustering_two_points(rng: np.random.Generator) -> GTVMin:
    """(0, 0) and (3, 4), two units drawn together: the centroids are (1.2, 1.6) and (1.8, 2.4)."""
    return ConvexClustering([[0.0, 0.0], [3.0, 4.0]], weights=[(0, 1, 1.0)], lam=2.0)


@instance("smoke", "convex_clustering")
def clustering_near_merge(rng: np.random.Generator) -> GTVMin:
    """Two points at 1 - 1e-4 of the strength at which they merge."""
    return ConvexClustering([[0.0, 0.0], [3.0, 4.0]], weights=[(0, 1, 1.0)], lam=2.5 * (1 - 1e-4))


@instance("smoke", "convex_clustering")
def clustering_blobs(rng: np.random.Generator) -> GTVMin:
    """Three blobs of ten points with the default weights."""
    return ConvexClustering(blobs(rng), lam=0.3)


@instance("convex_clustering")
def clustering_line(rng: np.random.Generator) -> GTVMin:
    """Equally spaced points on a line: many ties, and few of them merge."""
    return ConvexClustering(np.arange(20.0)[:, None], weights=nx.path_graph(20), lam=1.0)


@instance("convex_clustering")
def clustering_half_moons(rng: np.random.Generator) -> GTVMin:
    """Two interleaved half circles of 30 points."""
    angle = np.linspace(0.0, np.pi, 30)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    points = np.concatenate([upper, [1.0, 0.5] - upper]) + 0.05 * rng.normal(size=(60, 2))
    return ConvexClustering(points, lam=0.1, k=6, phi=2.0)


@instance("convex_clustering")
def clustering_duplicate_points(rng: np.random.Generator) -> GTVMin:
    """Points that occur twice: neighbours at distance zero."""
    return ConvexClustering(np.repeat(blobs(rng, 5), 2, axis=0), lam=0.3)


@instance("convex_clustering")
def clustering_complete(rng: np.random.Generator) -> GTVMin:
    """Equal weights between all pairs of twelve points in five dimensions."""
    return ConvexClustering(rng.normal(size=(12, 5)), weights=network_of(nx.complete_graph(12)), lam=0.1)


@instance("convex_clustering")
def clustering_l1(rng: np.random.Generator) -> GTVMin:
    """The 1-norm: coordinates merge one by one."""
    return ConvexClustering(blobs(rng), lam=0.2, p=1)


@instance("convex_clustering")
def clustering_linf(rng: np.random.Generator) -> GTVMin:
    """The maximum norm."""
    return ConvexClustering(blobs(rng), lam=0.4, p=np.inf)


@instance("smoke", "convex_clustering")
def clustering_large_units(rng: np.random.Generator) -> GTVMin:
    """The three blobs in units in which they are 1e8 times as large."""
    return ConvexClustering(1e8 * blobs(rng), lam=0.3e8)


@instance("convex_clustering")
def clustering_small_units(rng: np.random.Generator) -> GTVMin:
    """The three blobs in units in which they are 1e-8 times as large."""
    return ConvexClustering(1e-8 * blobs(rng), lam=0.3e-8)


@instance("convex_clustering")
def clustering_far_from_the_origin(rng: np.random.Generator) -> GTVMin:
    """The three blobs, moved by 10,000: their spread is small against their size."""
    return ConvexClustering(1e4 + blobs(rng), lam=0.3)


@instance("convex_clustering")
def clustering_merged(rng: np.random.Generator) -> GTVMin:
    """A strength above that at which all points are one cluster."""
    return ConvexClustering(blobs(rng), weights=network_of(nx.cycle_graph(30)), lam=1e3)
