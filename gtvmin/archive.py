"""Reading ``.npz`` files that somebody else wrote: no code, no surprise in memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

__all__ = ["LIMIT", "read_arrays"]

LIMIT = 2 * 1024**3
"""Most bytes that a file may unpack to, unless a caller says otherwise: 2 GiB."""


def read_arrays(path: str | Path, names: Sequence[str], limit: int = LIMIT) -> tuple[NDArray[Any], ...]:
    """Named arrays of an ``.npz`` file, each checked against its archive's own sizes before memory is taken.

    Parameters
    ----------
    path : str or Path
        The file.
    names : sequence of str
        Arrays that it must hold; others are an error.
    limit : int
        Most bytes that they may unpack to together.

    Raises
    ------
    ValueError
        If the file is no such archive, names other arrays, unpacks to more than the limit, holds objects, or an array's
        header claims another size than the archive.
    FileNotFoundError
        If there is no such file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            expected = {f"{name}.npy" for name in names}
            if set(members) != expected or len(archive.infolist()) != len(names):
                raise ValueError(f"holds {sorted(members)}, expected {sorted(expected)}")
            total = sum(info.file_size for info in members.values())
            if total > limit:
                raise ValueError(f"unpacks to {total:,} bytes, more than the limit of {limit:,}")
            return tuple(_read_array(archive, members[f"{name}.npy"]) for name in names)
    except FileNotFoundError:
        raise
    except Exception as error:  # damage shows in many ways: BadZipFile, zlib.error, EOFError, NotImplementedError, ...
        raise ValueError(f"{path} is not an archive of arrays: {error}") from error


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """One array; its header must claim exactly the bytes that follow it."""
    with archive.open(member) as stream:
        content = stream.read(member.file_size + 1)  # an archive that lies about the size is cut here
    if len(content) != member.file_size:
        raise ValueError(f"{member.filename} has another size than the archive says")
    buffer = io.BytesIO(content)
    version = npy.read_magic(buffer)
    if version != (1, 0):
        raise ValueError(f"{member.filename} has the array format {version}")
    shape, fortran, dtype = npy.read_array_header_1_0(buffer)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} holds objects")
    size = dtype.itemsize
    for length in shape:
        size *= int(length)
    if size != len(content) - buffer.tell():
        raise ValueError(f"{member.filename} claims the shape {shape}, which does not fit its {len(content)} bytes")
    array = np.frombuffer(content, dtype=dtype, offset=buffer.tell())
    return array.reshape(shape, order="F" if fortran else "C")
