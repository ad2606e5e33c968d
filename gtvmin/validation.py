"""Conversion of user input to float64 arrays, with errors that name the argument and the fix."""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from gtvmin.solvers.standard_form import Array

__all__ = [
    "finite_array",
    "frozen",
    "nonnegative_number",
    "numeric_array",
    "positive_integer",
    "positive_number",
    "restore_frozen",
]


Scalar = TypeVar("Scalar", bound=np.generic)


def numeric_array(value: ArrayLike, name: str) -> Array:
    """Copy ``value`` into a float64 array; text, objects and complex numbers are a TypeError."""
    if hasattr(value, "toarray"):  # a sparse matrix
        value = value.toarray()
    array = np.asarray(value)
    if array.dtype == object and array.size and all(isinstance(v, (Real, np.bool_)) for v in array.flat):
        array = array.astype(np.float64)  # a DataFrame of mixed number types arrives as objects
    if array.dtype.kind not in "fiub" and array.size:
        raise TypeError(
            f"{name} must hold real numbers, got an array of dtype {array.dtype}{_numbers_hint(array, name)}"
        )
    return np.array(array, dtype=np.float64, order="C")


def _numbers_hint(array: NDArray[Any], name: str) -> str:
    """What turns text or objects into numbers, if anything does."""
    if array.dtype.kind not in "OUS":
        return ""
    first = next((v for v in array.flat if not isinstance(v, (Real, np.bool_))), None)
    if not isinstance(first, (str, bytes)):
        return f": it holds {first!r}"
    try:
        array.astype(np.float64)
    except (TypeError, ValueError):
        return (
            f" with the text {str(first)!r}: numpy.unique({name}, return_inverse=True)[1] numbers labels 0, 1, ..., "
            "over all devices at once"
        )
    return f": numpy.asarray({name}, dtype=float) reads its texts as numbers"


def finite_array(value: ArrayLike, name: str) -> Array:
    """As :func:`numeric_array`, and NaN or infinity is a ValueError that gives the first position."""
    array = numeric_array(value, name)
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        position = f" at position {where[0] if len(where) == 1 else where}" if where else ""
        raise ValueError(f"{name} has a {array[bad][0]} value{position}: remove or impute it")
    return array


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Mark an array that a declared object owns as read-only."""
    array.flags.writeable = False
    return array


def restore_frozen(declared: object, state: dict[str, Any]) -> None:
    """Set the attributes of a copied or unpickled object: its arrays arrive writable and become read-only again."""
    for name, value in state.items():
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, np.ndarray):
                frozen(part)
        object.__setattr__(declared, name, value)


def nonnegative_number(value: float, name: str) -> float:
    """``value`` as a float >= 0."""
    array = np.asarray(value)
    if isinstance(value, bool) or array.ndim or array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be a real number, got {value!r}")
    number = float(value)
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"{name} must be a finite number >= 0, got {number}")
    return number


def positive_number(value: float, name: str) -> float:
    """``value`` as a float > 0."""
    number = nonnegative_number(value, name)
    if number == 0:
        raise ValueError(f"{name} must be > 0, got 0")
    return number


def positive_integer(value: int, name: str) -> int:
    """``value`` as an int >= 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be >= 1, got {value}")
    return int(value)
