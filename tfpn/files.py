"""Writing files whole or not at all. Nothing here imports TensorFlow."""

import io
import os
import re
import shutil
from pathlib import Path


class WriteError(OSError):
    """A file that cannot be written, with ``filename`` and ``strerror``."""

    def __str__(self):
        return f"cannot write {self.filename}: {self.strerror}"


def write(path, content):
    """Writes a file beside its place and moves it there, so that what is there stays until then.

    A disk that is full or a process that is killed leaves the old file as it was. A symbolic link
    stays one, and a file that is replaced keeps its permissions. Devices and pipes are written
    directly.

    Args:
        path: the file, in a folder that exists.
        content: text, which is encoded as UTF-8, or bytes.

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
    if place.is_dir():  # which would be found out only after writing
        open(place, "wb")
    # Shortened, as the longest name that a folder takes has no room for more.
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
    """Writes what Keras saves: ``function(file)`` gets a file in memory in place of a path.

    HDF5 itself crashes the process when it cannot write a file to the end.

    Args:
        function: such as a model's ``save``; it finds the format by the path's ending.
        path: as in `write`.
    """
    memory = _NamedMemory(path)
    function(memory)
    write(path, memory.getbuffer())


class _NamedMemory(io.BytesIO):
    """A file in memory, whose text is a path: Keras looks at its ending alone."""

    def __init__(self, path):
        super().__init__()
        self._path = str(path)

    def __str__(self):
        return self._path


def partial_files(folder, names):
    """What killed processes have left of files of these names in a folder."""
    pattern = re.compile(rf"({'|'.join(map(re.escape, names))})\.(\d+\.)?partial")
    return [path for path in Path(folder).glob("*.partial") if pattern.fullmatch(path.name)]


def same_file(first, second):
    """Whether two paths lead to one existing file, through links of any kind too.

    >>> same_file(__file__, Path(__file__).parent / "." / Path(__file__).name)
    True
    """
    try:
        return os.path.samefile(first, second)
    except OSError:
        return os.path.realpath(first) == os.path.realpath(second)
