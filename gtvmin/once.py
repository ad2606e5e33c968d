"""What is worth computing once for a problem's arrays, and is asked for again and again."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar
from weakref import WeakKeyDictionary

from gtvmin.solvers.standard_form import StandardForm

__all__ = ["once_a_form"]

Found = TypeVar("Found")


def once_a_form(function: Callable[[StandardForm], Found]) -> Callable[[StandardForm], Found]:
    """Remember what a function found for a form, for as long as the form lives; nobody may change it."""
    known: WeakKeyDictionary[StandardForm, Found] = WeakKeyDictionary()

    @wraps(function)
    def remembered(form: StandardForm) -> Found:
        if form not in known:
            known[form] = function(form)
        return known[form]

    return remembered
