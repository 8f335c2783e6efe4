"""Files are written whole or not at all, and commands end in one line."""

import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from small_disk import largest_file

from tfpn import files, models
from tfpn.endings import Ending
from tfpn.files import WriteError, partial_files, same_file, write


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "table.csv"
    write(path, "old")
    with largest_file(1000), pytest.raises(WriteError) as caught:
        write(path, "x" * 2000)
    assert caught.value.errno == errno.EFBIG
    assert str(caught.value) == f"cannot write {path}: File too large"
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["table.csv"]
    write(path, b"new")
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["table.csv"]


def test_an_interrupt_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(source, target):
        assert Path(source).read_text() == "new" and not Path(target).exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "file", "new")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("place", ["missing/file", "folder", "file/below"])
def test_what_cannot_be_written_is_named(place, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("old")
    with pytest.raises(WriteError, match="cannot write .*(No such|Is a|Not a) "):
        write(tmp_path / place, "new")
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_links_and_permissions_stay(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to("file")
    write(link, "new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_name_as_long_as_a_folder_takes(tmp_path):
    write(tmp_path / ("x" * 255), "new")


def test_devices_are_written_directly():
    write(os.devnull, "gone")
    with pytest.raises(WriteError, match="/dev/full: No space left"):
        write("/dev/full", "x")
    assert Path("/dev/full").is_char_device()


def test_unfinished_files_are_found_by_name(tmp_path):
    for name in ("a.csv.17.partial", "a.csv.partial", "thesis.partial", "a.csv.x.partial", "a.csv"):
        (tmp_path / name).touch()
    found = {path.name for path in partial_files(tmp_path, ["a.csv", "b"])}
    assert found == {"a.csv.17.partial", "a.csv.partial"}


def test_same_file_by_any_way(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.touch()
    (tmp_path / "symbolic").symlink_to(path)
    os.link(path, tmp_path / "hard")
    monkeypatch.chdir(tmp_path)
    for other in ("file", "./file", tmp_path / "symbolic", "hard"):
        assert same_file(path, other)
    (tmp_path / "other").touch()
    assert not same_file(path, "other") and not same_file(path, "missing")
    assert same_file("missing", "./missing")


@pytest.mark.parametrize("save", ["save", "save_weights"])
def test_a_model_is_saved_whole_or_not_at_all(save, tmp_path):
    """HDF5 itself ended the process with a segmentation fault."""
    model = models.PNCNN(2, channels=30, num_blocks=1, num_basis=2)
    path = tmp_path / {"save": "model.keras", "save_weights": "model.weights.h5"}[save]
    getattr(model, save)(path)
    before = path.read_bytes()
    for size in (0, len(before) // 2, len(before) - 1):
        with largest_file(size), pytest.raises(WriteError, match="File too large"):
            getattr(model, save)(path)
        assert path.read_bytes() == before and os.listdir(tmp_path) == [path.name]
    other = models.PNCNN(2, channels=30, num_blocks=1, num_basis=2)
    loaded = keras.models.load_model(path) if save == "save" else other
    if save == "save_weights":
        other.load_weights(path)
    for mine, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_keras_other_ways_of_saving_stay(tmp_path):
    model = models.PNCNN(2, channels=2, num_blocks=1, num_basis=2)
    model.save(tmp_path / "folder", zipped=False)
    assert (tmp_path / "folder" / "config.json").is_file()
    with pytest.raises(ValueError, match=".keras"):
        model.save(tmp_path / "model.txt")
    with pytest.raises(ValueError, match=".weights.h5"):
        model.save_weights(tmp_path / "model.keras")


def test_a_reader_of_the_output_that_has_gone(monkeypatch, capfd):
    for advice, said in (("", ""), ("; --resume", "x: the reader of standard output has closed")):
        read, out = os.pipe()
        os.close(read)
        monkeypatch.setattr(sys, "stdout", os.fdopen(out, "w"))
        with Ending("x") as ending:
            ending.advice = advice
            print("line")
        sys.stdout.close()  # as at exit, when it must not fail again
        assert ending.status == 141
        assert capfd.readouterr().err.startswith(said)


def test_a_full_disk_behind_the_output(monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdout", open("/dev/full", "w"))
    with Ending("x") as ending:
        print("line")
        ending.status = 0
    sys.stdout.close()
    assert ending.status == 2
    assert capfd.readouterr().err == (
        "x: error: cannot write standard output: No space left on device\n"
    )


@pytest.mark.parametrize(
    ("number", "status", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_that_comes_out_as_another_exception(number, status, word, capsys):
    before = signal.getsignal(number)
    with Ending("x") as ending:
        ending.imported()
        try:
            os.kill(os.getpid(), number)
        except KeyboardInterrupt:
            raise TypeError("expected a sequence") from None  # as NumPy makes of it
    assert ending.status == status and capsys.readouterr().err == f"x: {word}\n"
    assert signal.getsignal(number) is before


def test_other_exceptions_pass():
    with pytest.raises(ZeroDivisionError), Ending("x"):
        raise ZeroDivisionError
    with pytest.raises(SystemExit), Ending("x"):
        raise SystemExit(5)


INTERRUPTED = """
import os, signal, sys

class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
from tfpn.cli import main
sys.exit(main(["train", "digits"]))
"""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("numpy", "tfpn: interrupted\n"),
        ("tensorflow", "tfpn train: interrupted; --resume continues it\n"),
    ],
    ids=["numpy", "tensorflow"],
)
def test_an_interrupt_during_start_up(module, said):
    program = [sys.executable, "-c", INTERRUPTED, module]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)


def test_memory_has_the_ending_of_its_path():
    seen = []
    with pytest.raises(WriteError):
        files.write_by(seen.append, "/x/y.z")
    assert str(seen[0]) == "/x/y.z" and isinstance(seen[0], io.BytesIO)
