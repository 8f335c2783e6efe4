"""Functions that write a file whole or not at all. Nothing here imports TensorFlow."""

import io
import os
import re
import shutil
from pathlib import Path


class WriteError(OSError):
    """The error of a file that cannot be written, with ``filename`` and ``strerror``."""

    def __str__(self):
        return f"cannot write {self.filename}: {self.strerror}"


def write(path, content):
    """Writes a file whole or not at all: under another name first, which then replaces the file.

    The old file stays as it was if the disk is full or the process is killed. A symbolic link stays
    a link, and a replaced file keeps its permissions. Devices and pipes are written directly.

    Args:
        path: the file, in a folder that exists.
        content: bytes, or text, which is encoded as UTF-8.

    Raises:
        WriteError: an OSError with the path and the system's reason.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> write(path, "new")
    >>> path.read_text(), [entry.name for entry in path.parent.iterdir()]
    ('new', ['note.txt'])
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not (place.is_file() or place.is_dir()):
            with open(place, "wb") as file:
                file.write(data)
            return
        _write_beside(place, data)
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error


def _write_beside(place, data):
    if place.is_dir():  # raise the error before writing
        open(place, "wb")
    # The name is shortened: the longest name that a folder takes leaves no room for a suffix.
    partial = place.with_name(f"{place.name[:50]}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(data)
        if place.exists():
            shutil.copymode(place, partial)
        os.replace(partial, place)
    finally:
        partial.unlink(missing_ok=True)


def write_by(function, path):
    """Writes what Keras saves: ``function(file)`` gets a file in memory instead of a path.

    HDF5 crashes the process if it cannot write a whole file itself.

    Args:
        function: a function that saves, such as a model's ``save``. It chooses the format by the
            path's suffix.
        path: as in `write`.
    """
    memory = _NamedMemory(path)
    function(memory)
    write(path, memory.getbuffer())


class _NamedMemory(io.BytesIO):
    """A file in memory whose ``str`` is a path. Keras looks only at the path's suffix."""

    def __init__(self, path):
        super().__init__()
        self._path = str(path)

    def __str__(self):
        return self._path


def partial_files(folder, names):
    """Partial files in a folder that killed processes left when they wrote files of these names."""
    pattern = re.compile(rf"({'|'.join(map(re.escape, names))})\.(\d+\.)?partial")
    return [path for path in Path(folder).glob("*.partial") if pattern.fullmatch(path.name)]


def same_file(first, second):
    """Whether two paths lead to one existing file, through any kind of link.

    >>> same_file(__file__, Path(__file__).parent / "." / Path(__file__).name)
    True
    """
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
