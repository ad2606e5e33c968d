"""Random numbers that belong to a device and a round, whatever else happens.

Each device has a 64-bit key from ``numpy.random.SeedSequence(seed, spawn_key=identity)``; the numbers of a round are a
hash of key, round and a counter.  So they can be had in any order and without loops over devices, and neither further
devices nor another order changes them.  The hash is the finaliser of G. L. Steele, D. Lea, C. H. Flood, "Fast
splittable pseudorandom number generators" (2014), DOI 10.1145/2660193.2660195, applied in turn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, StandardForm
from .form import device_ids

__all__ = ["BATCHES", "COINS", "PARTICIPATION", "device_keys", "random_bits", "server_key", "uniforms"]

Keys = NDArray[np.uint64]

PARTICIPATION, BATCHES, COINS = 0, 1, 2
"""What numbers are for: different purposes use different streams."""

_WORD = 0xFFFFFFFF
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def device_keys(form: StandardForm, seed: int) -> Keys:
    """Key of every device, (n_nodes,)."""
    ids = device_ids(form)
    keys = [
        np.random.SeedSequence(seed, spawn_key=(identity >> 32, identity & _WORD)).generate_state(1, np.uint64)[0]
        for identity in ids.tolist()
    ]
    return np.array(keys, dtype=np.uint64)


def server_key(seed: int) -> Keys:
    """Key of what is drawn once for all devices, (1,)."""
    return np.array(np.random.SeedSequence(seed).generate_state(1, np.uint64), dtype=np.uint64)


def _mix(z: Keys) -> Keys:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def random_bits(keys: Keys, round: int, purpose: int, counter: ArrayLike = 0) -> Keys:
    """64 bits for every key and counter, of the shape that ``keys`` and ``counter`` broadcast to."""
    counters = np.atleast_1d(np.asarray(counter, dtype=np.uint64))
    moment = np.array([round], dtype=np.uint64)
    stream = _mix(keys ^ _mix(moment * np.uint64(8) + np.uint64(purpose) + _GOLDEN))
    return _mix(stream + (counters + np.uint64(1)) * _GOLDEN)


def uniforms(keys: Keys, round: int, purpose: int, counter: ArrayLike = 0) -> Array:
    """Numbers in (0, 1), as :func:`random_bits`."""
    bits = random_bits(keys, round, purpose, counter) >> np.uint64(11)
    return np.asarray((bits.astype(float) + 0.5) * 2.0**-53)
