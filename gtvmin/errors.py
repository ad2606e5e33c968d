"""Warning and error categories of the package."""

from __future__ import annotations

__all__ = [
    "CapabilityError",
    "CertificateError",
    "ConvergenceWarning",
    "DisconnectedWarning",
    "GtvminWarning",
    "HierarchyError",
    "MissingLossWarning",
    "NotUniqueWarning",
]


class GtvminWarning(UserWarning):
    """Base of every warning that gtvmin issues."""


class ConvergenceWarning(GtvminWarning):
    """A solver stopped before the certified gap reached the asked tolerance."""


class DisconnectedWarning(GtvminWarning):
    """The weights of a clustering leave several components, which no strength of the coupling merges."""


class MissingLossWarning(GtvminWarning):
    """Nodes without a declared loss were given the loss Zero."""


class NotUniqueWarning(GtvminWarning):
    """The problem has more than one minimiser; the returned one is not special."""


class CapabilityError(TypeError):
    """A solver, loss and penalty do not fit together; the message names what is missing."""


class CertificateError(ValueError):
    """A stored certificate does not belong to this problem or does not re-check."""


class HierarchyError(ValueError):
    """The clusters of a path split as well as merge: there is no tree of them."""
