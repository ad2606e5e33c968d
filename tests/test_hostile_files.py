"""Files that others wrote: an error, no code run, no memory taken, whatever they hold."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from fuzz_loaders import HEADER as WITH_HEADER
from fuzz_loaders import mutate_json, seeds, small_problem, target
from gtvmin.archive import read_arrays


def good(path: Path) -> Path:
    losses = {
        ("a", 1): gtv.SquaredError(np.eye(2), [1.0, 2.0]),
        "b": gtv.Zero(2),
        3: gtv.Ridge(np.eye(2), [0, 1], lam=1),
    }
    net = gtv.FLNetwork.from_edges([(("a", 1), "b"), ("b", 3)])
    return gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.5).save(path / "problem.npz")


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(array: np.ndarray, **options: bool) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def header_claiming(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


class Explosive:
    """Runs when it is unpickled."""

    def __reduce__(self) -> tuple:
        return (pytest.fail, ("a file ran code",))


EMPTY = npy(np.zeros(0))
HEADER = npy(np.frombuffer(b"{}", dtype=np.uint8))


@pytest.mark.parametrize(
    ("members", "match"),
    [
        ({"header": HEADER}, "expected"),
        ({"header": HEADER, "values": EMPTY, "more": EMPTY}, "expected"),
        ({"header": HEADER, "values": npy(np.array([Explosive()], dtype=object), allow_pickle=True)}, "objects"),
        ({"header": HEADER, "values": pickle.dumps(Explosive())}, "magic"),
        ({"header": HEADER, "values": header_claiming("(1000000000000000,)")}, "claims the shape"),
        ({"header": HEADER, "values": header_claiming("(-1,)")}, "claims the shape|shape"),
        ({"header": HEADER, "values": header_claiming("__import__('os').getcwd()")}, "malformed"),
        ({"header": HEADER, "values": EMPTY[:20]}, "."),
        ({"header": HEADER, "values": npy(np.zeros(3, dtype=np.float32))}, "vectors of bytes"),
        ({"header": npy(np.frombuffer(b"[" * 100_000, dtype=np.uint8)), "values": EMPTY}, "."),
        ({"header": npy(np.frombuffer(b"\xff\xfe{", dtype=np.uint8)), "values": EMPTY}, "."),
        ({"header": HEADER, "values": EMPTY}, "format"),
    ],
)
def test_a_hostile_archive_is_an_error(members: dict[str, bytes], match: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=match):
        gtv.load_problem(archive(tmp_path / "hostile.npz", **members))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    """100 kB that claim to be 3 GiB: zeros compress well."""
    path = tmp_path / "bomb.npz"
    block = b"\0" * (1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        file.writestr("header.npy", HEADER)
        with file.open("values.npy", "w", force_zip64=True) as stream:
            for _ in range(32):
                stream.write(block)
    tracemalloc.start()
    with pytest.raises(ValueError, match="more than the limit of 1,000,000"):
        read_arrays(path, ("header", "values"), limit=1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


def test_an_archive_that_lies_about_its_size_is_an_error(tmp_path: Path) -> None:
    path = archive(tmp_path / "lie.npz", header=HEADER, values=npy(np.zeros(4000)))
    raw = bytearray(path.read_bytes())
    size = struct.pack("<I", len(npy(np.zeros(4000))))
    for position in [i for i in range(len(raw)) if raw[i : i + 4] == size]:
        raw[position : position + 4] = struct.pack("<I", 200)
    path.write_bytes(bytes(raw))
    with pytest.raises(ValueError, match="not a saved problem"):
        gtv.load_problem(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_damage_never_passes_unseen(data: st.DataObject, tmp_path: Path) -> None:
    """Flipped, cut and inserted bytes: an error, or the same problem (a byte that nothing depends on)."""
    path = good(tmp_path)
    original = gtv.load_problem(path).hash
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(raw) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if kind == "flip":
            raw[position] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del raw[position : position + data.draw(st.integers(1, 50))]
        else:
            raw[position:position] = data.draw(st.binary(max_size=20))
        if not raw:
            break
    path.write_bytes(bytes(raw))
    with contextlib.suppress(ValueError):
        assert gtv.load_problem(path).hash == original


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_hostile_headers_are_read_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    """One entry after another of a good header becomes something else: a problem, or a ValueError."""
    chosen = data.draw(st.sampled_from([seed for seed in seeds(tmp_path) if seed[0] == WITH_HEADER]))
    header, _, values = chosen[1:].partition(b"\0\0")
    for _ in range(data.draw(st.integers(1, 3))):
        header = mutate_json(header, lambda n: data.draw(st.integers(0, n - 1)))
    target(bytes([WITH_HEADER]) + header + b"\0\0" + values, tmp_path, small_problem())


def test_good_files_are_accepted(tmp_path: Path) -> None:
    """What the attack starts from is in order."""
    assert all(target(seed, tmp_path, small_problem()) for seed in seeds(tmp_path))


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda tree: tree.update(alpha=-1.0), "alpha"),
        (lambda tree: tree.update(nodes=["a", "a", "b"]), "."),
        (lambda tree: tree["losses"][0].update(type="Popen"), "not a class that a problem file may name"),
        (lambda tree: tree["losses"][0].update(type="Loss"), "not a class that a problem file may name"),
        (lambda tree: tree["losses"][0].update(X={"array": [0, 2, 10**12]}), "outside"),
        (lambda tree: tree["losses"][0].update(X={"array": [-2, 2, 2]}), "outside"),
        (lambda tree: tree["losses"][0].update(surprise=1), "."),
    ],
)
def test_a_declaration_that_is_wrong_is_refused(edit, match: str, tmp_path: Path) -> None:
    path = good(tmp_path)
    header, values = read_arrays(path, ("header", "values"))
    tree = json.loads(header.tobytes())
    edit(tree)
    with open(path, "wb") as stream:
        np.savez(stream, header=np.frombuffer(json.dumps(tree).encode(), dtype=np.uint8), values=values)
    with pytest.raises(ValueError, match=match):
        gtv.load_problem(path)


def test_labels_survive(tmp_path: Path) -> None:
    problem = gtv.load_problem(good(tmp_path))
    assert problem.network.nodes == (("a", 1), "b", 3)
    assert [type(node) for node in problem.network.nodes] == [tuple, str, int]
