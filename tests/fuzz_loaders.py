"""Coverage-guided attack on the loaders: whatever a file holds, it is read or refused with a ValueError.

    nox -s fuzz_loaders -- 1000000          # needs atheris (Linux and macOS)

Inputs are whole files, or the JSON header and the values of an archive that is otherwise in order: mutations reach the
constructors behind it.  More than 2 GB of memory, more than 25 s, code that runs, or another exception is a finding.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

try:
    import atheris
except ImportError:  # the seeds and the target are used without it, too
    import gtvmin as gtv
else:
    with atheris.instrument_imports(include=["gtvmin", "zipfile", "json"]):
        import gtvmin as gtv
        import gtvmin.certificates
        import gtvmin.losses
        import gtvmin.network
        import gtvmin.penalties
        import gtvmin.problem
        import gtvmin.storage

RAW, HEADER, CERTIFICATE = range(3)


def archive_of(header: bytes, values: bytes) -> bytes:
    """A file in order around any header and values."""
    buffer = io.BytesIO()
    vectors = {
        "header": np.frombuffer(header, np.uint8),
        "values": np.frombuffer(values[: len(values) // 8 * 8], "<f8"),
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in vectors.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())
    return buffer.getvalue()


def target(data: bytes, folder: Path, problem: gtv.GTVMin) -> bool:
    """Read one hostile file; whether it was accepted."""
    kind, path = data[:1] or b"\0", folder / "hostile.npz"
    mode = kind[0] % 3
    if mode == HEADER:
        header, _, values = data[1:].partition(b"\0\0")
        path.write_bytes(archive_of(header, values))
    else:
        path.write_bytes(data[1:])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _ = gtv.load_certificate(path, problem) if mode == CERTIFICATE else gtv.load_problem(path)
    except ValueError:
        return False
    return True


def seeds(folder: Path) -> list[bytes]:
    """Files in order, of every loss and of several penalties, to start from."""
    rng, out = np.random.default_rng(0), []
    X, y = rng.normal(size=(3, 2)), np.array([1.0, -1.0, 1.0])
    losses: list[gtv.Loss] = [gtv.SquaredError(X, y), gtv.Ridge(X, y, lam=0.1), gtv.Logistic(X, y), gtv.Hinge(X, y)]
    losses += [gtv.L1() + gtv.Box([0, 0], [1, np.inf]), 2.0 * gtv.Huber(X, y, delta=0.5), gtv.Zero(2), gtv.Ball(1.0)]
    losses += [
        gtv.Quadratic(np.eye(2), [0, 1]),
        gtv.Simplex(),
        gtv.Affine([[1, 1]], [1]),
        gtv.Softmax(X[:, :1], [0, 1, 0]),
    ]
    penalties = [
        gtv.Norm(1),
        gtv.SquaredNorm(),
        gtv.HuberPenalty(0.1),
        gtv.Partial(gtv.Norm(2), [0]),
        gtv.FlowCost(1, 2),
    ]
    for k, penalty in enumerate(penalties):
        chosen = [losses[(3 * k + j) % len(losses)] for j in range(4)]
        net = gtv.FLNetwork.from_edges([("a", 1), (1, (2, "b")), ((2, "b"), 0.5)])
        path = gtv.GTVMin(net, chosen, penalty=penalty, alpha=0.5, dim=2).save(folder / "seed.npz")
        raw = path.read_bytes()
        with np.load(path) as stored:
            header, values = stored["header"].tobytes(), stored["values"].tobytes()
        out += [bytes([RAW]) + raw, bytes([HEADER]) + header + b"\0\0" + values]
    problem = small_problem()
    path = gtv.certify(problem, np.zeros((2, 1))).save(folder / "certificate.npz")
    return [*out, bytes([CERTIFICATE]) + path.read_bytes()]


def small_problem() -> gtv.GTVMin:
    """What certificates are read for."""
    losses = [gtv.SquaredError([[1.0]], [value]) for value in (0.0, 3.0)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1)]), losses, lam=1.0)


def mutate_json(text: bytes, draw: Callable[[int], int]) -> bytes:
    """Replace one entry of a header by something hostile; ``draw(n)`` gives a number below n."""
    hostile = (
        -1,
        0,
        2**31,
        10**12,
        10**400,
        -0.5,
        1e308,
        "x",
        "",
        None,
        True,
        [],
        {},
        {"float": "nan"},
        {"array": [0]},
    )
    try:
        tree = json.loads(text)
    except ValueError:
        return text
    if not isinstance(tree, dict | list):
        return text
    places: list[tuple[dict | list, object]] = []
    stack: list[dict | list] = [tree]
    while stack:
        node = stack.pop()
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            places.append((node, key))
            if isinstance(value, dict | list):
                stack.append(value)
    if places:
        node, key = places[draw(len(places))]
        node[key] = hostile[draw(len(hostile))]  # type: ignore[call-overload, index]
    return json.dumps(tree).encode()


def main() -> None:
    """Run atheris with the seeds as its corpus; the first argument is the number of runs."""
    folder = Path(tempfile.mkdtemp())
    corpus, problem = folder / "corpus", small_problem()
    corpus.mkdir()
    for k, seed in enumerate(seeds(folder)):
        (corpus / f"{k}").write_bytes(seed)
    accepted = [0, 0]

    def one(data: bytes) -> None:
        accepted[0] += 1
        accepted[1] += target(data, folder, problem)
        if accepted[0] % 10_000 == 0:
            print(f"{accepted[0]:,} files, {accepted[1]:,} of them accepted", flush=True)

    def mutator(data: bytes, limit: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if data[:1] and data[0] % 3 == HEADER and rng.random() < 0.7:
            header, separator, values = data[1:].partition(b"\0\0")
            changed: bytes = data[:1] + mutate_json(header, lambda n: int(rng.integers(n))) + separator + values
            return changed[:limit]
        return bytes(atheris.Mutate(data, limit))

    runs = sys.argv[1] if len(sys.argv) > 1 else "100000"
    options = ["-rss_limit_mb=2048", "-timeout=25", f"-runs={runs}", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], str(corpus), *options], one, custom_mutator=mutator)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
