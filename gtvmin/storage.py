"""Declared problems as plain arrays: fingerprints and files that hold no code.

A declared object is a tree of constructor arguments.  Its arrays are laid one after another into one float64 vector,
and the rest is JSON that says where each array lies.  Reading it back calls the constructors, with all their checks.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.archive import read_arrays
from gtvmin.losses.base import Loss, Sum
from gtvmin.penalties.base import Penalty

if TYPE_CHECKING:
    from gtvmin.couplings import Coupling
    from gtvmin.network import FLNetwork
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array

__all__ = [
    "decode_label",
    "encode_label",
    "fingerprint",
    "load_problem",
    "losses_fingerprint",
    "save_problem",
    "write_atomically",
]

FORMAT = "gtvmin problem 1"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, with the permissions of any new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # not tempfile: its files can be read by their owner alone
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def encode_label(label: Hashable) -> Any:
    """A node label as JSON: numbers, text, booleans, None, and tuples of these."""
    if label is None or isinstance(label, (bool, int, float, str)):
        return label
    if isinstance(label, tuple):
        return {"tuple": [encode_label(part) for part in label]}
    raise TypeError(f"node label {label!r} cannot be stored: use numbers, text or tuples of them")


def decode_label(value: Any) -> Hashable:
    """The label that :func:`encode_label` wrote."""
    if isinstance(value, dict):
        return tuple(decode_label(part) for part in value["tuple"])
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"{value!r} is not a node label")


class _Packer:
    """Lays arrays into one vector and gives each its place."""

    def __init__(self) -> None:
        self.parts: list[Array] = []
        self.size = 0

    def array(self, values: Array) -> dict[str, Any]:
        place = {"array": [self.size, *values.shape]}
        self.parts.append(np.asarray(values, dtype="<f8").ravel())
        self.size += values.size
        return place

    def value(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, float) and not np.isfinite(value):
            return {"float": repr(value)}
        if isinstance(value, Penalty):
            return {"penalty": self.declared(value)}
        if isinstance(value, tuple):
            return {"tuple": [self.value(part) for part in value]}
        return value

    def loss(self, loss: Loss) -> Any:
        if isinstance(loss, Sum):
            return {"sum": [[c, self.loss(atom)] for c, atom in loss.declared_terms()]}
        return self.declared(loss)

    def declared(self, thing: Loss | Penalty) -> dict[str, Any]:
        arguments = {name: self.value(value) for name, value in thing.arguments().items()}
        return {"type": type(thing).__name__, **arguments}

    def coupling(self, coupling: Coupling) -> dict[str, Any]:
        net = coupling.network
        return {
            "tail": net.tail.tolist(),
            "head": net.head.tolist(),
            "weights": self.array(net.weights),
            "penalty": self.declared(coupling.penalty),
            "alpha": self.value(coupling.alpha),
        }


def _pack(problem: GTVMin, losses: str | None = None) -> tuple[bytes, Array]:
    """Structure and arrays; a fingerprint stands for the losses if it is given."""
    packer, net = _Packer(), problem.network
    first, *further = problem.couplings
    tree = {
        "format": FORMAT,
        "nodes": [encode_label(node) for node in net.nodes],
        **packer.coupling(first),
        "coordinates": None if net.coordinates is None else packer.array(net.coordinates),
        "losses": [packer.loss(loss) for loss in problem.losses] if losses is None else losses,
        "dim": problem.dim,
    }
    if further:
        tree["further"] = [packer.coupling(coupling) for coupling in further]
    if (problem.dims != problem.dim).any():
        tree["dims"] = problem.dims.tolist()
    return _joined(tree, packer)


def _joined(tree: Any, packer: _Packer) -> tuple[bytes, Array]:
    return json.dumps(tree, sort_keys=True, ensure_ascii=False).encode(), np.concatenate([np.empty(0), *packer.parts])


def fingerprint(problem: GTVMin) -> str:
    """SHA-256 over the problem's structure and arrays, in hexadecimal; the losses enter by their own."""
    return _digest(*_pack(problem, problem.loss_stack.fingerprint))


def losses_fingerprint(losses: Sequence[Loss]) -> str:
    """SHA-256 over the structure and arrays of losses, in hexadecimal."""
    packer = _Packer()
    return _digest(*_joined([packer.loss(loss) for loss in losses], packer))


def _digest(header: bytes, values: Array) -> str:
    return hashlib.sha256(header + b"\0" + values.astype("<f8").tobytes()).hexdigest()


def save_problem(problem: GTVMin, path: str | Path) -> Path:
    """Write a declared problem to an ``.npz`` file of two plain arrays (no pickle).

    Raises
    ------
    TypeError
        If the loss of a device is code, as a :class:`~gtvmin.losses.CvxpyLoss` is, or a label is no number or text.

    Examples
    --------
    >>> import gtvmin as gtv, tempfile, pathlib
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=1.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = gtv.save_problem(problem, pathlib.Path(folder) / "problem.npz")
    ...     gtv.load_problem(path).hash == problem.hash
    True
    """
    for node, loss in zip(problem.network.nodes, problem.losses, strict=True):
        for _, term in loss.declared_terms():
            if not term.storable:
                raise TypeError(f"the loss of node {node!r} cannot be stored: {term!r} is code, not data")
    header, values = _pack(problem)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(header, dtype=np.uint8), values=values)
    target = Path(path)
    write_atomically(target, buffer.getvalue())
    return target


def load_problem(path: str | Path) -> GTVMin:
    """Read a problem that :func:`save_problem` wrote; its constructors check it again.

    Raises
    ------
    ValueError
        If the file is not such a file, or what it declares is not a valid problem.
    """
    from gtvmin.problem import GTVMin

    try:
        header, values = read_arrays(path, ("header", "values"))
        if (header.dtype.str, values.dtype.str, header.ndim, values.ndim) != ("|u1", "<f8", 1, 1):
            raise ValueError("header and values must be vectors of bytes and of floating-point numbers")
        tree = json.loads(header.tobytes())
        if tree["format"] != FORMAT:
            raise ValueError(f"format {tree['format']!r}, expected {FORMAT!r}")
        nodes = [decode_label(value) for value in tree["nodes"]]
        coordinates = None if tree["coordinates"] is None else _value(tree["coordinates"], values)
        losses = [_loss(entry, values) for entry in tree["losses"]]
        dim = dict(zip(nodes, tree["dims"], strict=True)) if "dims" in tree else tree["dim"]
        network, penalty, alpha = _coupling(tree, values, nodes, coordinates)
        problem = GTVMin(network, losses, penalty=penalty, alpha=alpha, dim=dim)
        for entry in tree.get("further", ()):
            problem = problem.couple(*_coupling(entry, values, nodes, None))
        return problem
    except FileNotFoundError:
        raise
    except Exception as error:  # what a hostile file declares can be wrong in as many ways as there are constructors
        raise ValueError(f"{path} is not a saved problem: {error!r}") from error


def _known(base: type[Any]) -> dict[str, type[Any]]:
    """Concrete declared classes of the package by name: nothing else can be named in a file."""
    import gtvmin.losses
    import gtvmin.penalties

    members = [*vars(gtvmin.losses).values(), *vars(gtvmin.penalties).values()]
    return {c.__name__: c for c in members if isinstance(c, type) and issubclass(c, base) and c is not base}


def _value(value: Any, values: Array) -> Any:
    if isinstance(value, dict) and "array" in value:
        start, *shape = (int(part) for part in value["array"])
        size = int(np.prod(shape, dtype=object))
        if start < 0 or min(shape, default=0) < 0 or start + size > len(values):
            raise ValueError("an array lies outside the file's values")
        return values[start : start + size].reshape(shape)
    if isinstance(value, dict) and "penalty" in value:
        return _declared(value["penalty"], values, _known(Penalty))
    if isinstance(value, dict) and "tuple" in value:
        return tuple(_value(part, values) for part in value["tuple"])
    if isinstance(value, dict):
        return float(value["float"])
    return value


def _coupling(
    entry: dict[str, Any], values: Array, nodes: list[Hashable], coordinates: Any
) -> tuple[FLNetwork, Penalty, float]:
    from gtvmin.network import FLNetwork

    edges = [(nodes[i], nodes[j]) for i, j in zip(entry["tail"], entry["head"], strict=True)]
    weights = _value(entry["weights"], values)
    network = FLNetwork.from_edges(edges, weights=weights, nodes=nodes, coordinates=coordinates)
    return network, _declared(entry["penalty"], values, _known(Penalty)), _value(entry["alpha"], values)


def _declared(entry: dict[str, Any], values: Array, known: dict[str, type[Any]]) -> Any:
    arguments = {name: _value(value, values) for name, value in entry.items() if name != "type"}
    if entry["type"] not in known:
        raise ValueError(f"{entry['type']!r} is not a class that a problem file may name")
    return known[entry["type"]](**arguments)


def _loss(entry: dict[str, Any], values: Array) -> Loss:
    if "sum" in entry:
        return Sum(tuple((float(c), _loss(atom, values)) for c, atom in entry["sum"]))
    loss: Loss = _declared(entry, values, _known(Loss))
    return loss
