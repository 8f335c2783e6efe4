import gzip
import hashlib
import io
import os
import tarfile
import urllib.error
import urllib.request

import numpy as np
import pytest
from physionet_records import DEATHS, HEADER, RECORDS, text, write, write_outcomes
from test_physionet import load

from tfpn import progress
from tfpn.datasets import _physionet_download, physionet2012
from tfpn.datasets._physionet_files import digest_of_records


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path)


def pack(path, entries):
    """An archive of (name or TarInfo, content)."""
    with tarfile.open(path, "w:gz") as archive:
        for member, content in entries:
            if isinstance(member, str):
                member = tarfile.TarInfo(member)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def pack_set(folder, letter, extra=(), prefix=""):
    """Replaces the folder of a set by its archive."""
    source = folder / f"set-{letter}"
    entries = [
        (f"{prefix}set-{letter}/{path.name}", path.read_bytes()) for path in source.iterdir()
    ]
    pack(folder / f"set-{letter}.tar.gz", [*entries, *extra])
    for path in source.iterdir():
        path.unlink()
    source.rmdir()


def test_archives_and_folders_are_the_same(folder):
    expected = load(folder)
    directory = tarfile.TarInfo("set-a")
    directory.type = tarfile.DIRTYPE
    digest = digest_of_records(folder / "set-b")
    pack_set(folder, "a", extra=[(directory, b"")])
    pack_set(folder, "b", prefix="./")
    assert digest_of_records(folder / "set-b.tar.gz") == digest
    found = load(folder)
    assert found.report == expected.report
    for part in ("train", "validation", "test"):
        for key, array in getattr(expected, part).x.items():
            np.testing.assert_array_equal(getattr(found, part).x[key], array)


@pytest.mark.parametrize("packed", [False, True])
def test_a_change_that_keeps_the_size_is_noticed(folder, packed):
    if packed:
        pack_set(folder, "c")
    path = folder / ("set-c.tar.gz" if packed else "set-c/3001.txt")
    load(folder)
    before = path.stat()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 255]))
    if packed:  # the archive's time may stay, its digest counts
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(ValueError, match="set-c"):
        load(folder)


def member(name, kind):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


@pytest.mark.parametrize(
    "entry",
    [
        "../9.txt",
        "set-a/../../9.txt",
        "set-a/../9.txt",
        "/set-a/9.txt",
        "/tmp/9.txt",
        "set-a/deeper/9.txt",
        "9.txt",
        "set-a/9.txt.exe",
        "set-a/notes.txt",
        member("set-a/9.txt", tarfile.SYMTYPE),
        member("set-a/9.txt", tarfile.LNKTYPE),
        member("set-a/9.txt", tarfile.FIFOTYPE),
        member("../set-a", tarfile.DIRTYPE),
    ],
)
def test_archive_holds_records_only(folder, entry):
    pack_set(folder, "a", extra=[(entry, b"")])
    before = sorted(folder.parent.rglob("*"))
    with pytest.raises(ValueError, match=r"set-a.tar.gz: it holds '.*expected records such as"):
        load(folder)
    assert sorted(folder.parent.rglob("*")) == before


def test_archive_with_a_huge_member(folder):
    pack_set(folder, "a", extra=[("set-a/9.txt", bytes(10_000_001))])
    with pytest.raises(ValueError, match="'set-a/9.txt' has 10000001 bytes"):
        load(folder)


def test_damaged_archives(folder):
    pack_set(folder, "a")
    path = folder / "set-a.tar.gz"
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[-6] ^= 1  # in the checksum
    raw = gzip.decompress(content)
    cases = [
        b"",
        b"no archive",
        content[: len(content) // 2],
        content[:-4],
        bytes(flipped),
        gzip.compress(b"no archive" * 1000),
        gzip.compress(raw[:700]),
    ]
    for damaged in cases:
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"set-a.tar.gz: cannot be read .*original archive"):
            load(folder)


@pytest.mark.parametrize(
    "row, expected",
    [
        ("00:10,HR", "three fields"),
        ("00:10,HR,70,1", "three fields"),
        ("", "three fields"),
        ("0:10,HR,70", "a time from 00:00 to 48:00"),
        ("00:60,HR,70", "a time from 00:00 to 48:00"),
        ("48:01,HR,70", "a time from 00:00 to 48:00"),
        ("-1:00,HR,70", "a time from 00:00 to 48:00"),
        ("00:10,HR,", "a finite number"),
        ("00:10,HR,seventy", "a finite number"),
        ("00:10,HR,nan", "a finite number"),
        ("00:10,HR,-inf", "a finite number"),
        ("00:10,HR,1e39", "a finite number"),
        ("00:10,HR,7_0", "a finite number"),
        ("00:10,,x", "a finite number"),
        ("00:10,Heartrate,70", "a parameter of the challenge"),
        ("00:10,hr,70", "a parameter of the challenge"),
        ("00:00,RecordID,1002", "the RecordID 1001, as in the file's name"),
        ("00:00,Age,54", "Age once, at 00:00"),
        ("00:10,Height,170", "Height once, at 00:00"),
        ("00:00,HR,70\N{MICRO SIGN}", "plain ASCII"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_malformed_lines(folder, row, expected, packed):
    path = folder / "set-a" / "1001.txt"
    lines = path.read_text().split("\n")
    lines.insert(6, row)
    path.write_text("\n".join(lines), encoding="latin-1")
    if packed:
        pack_set(folder, "a")
    with pytest.raises(ValueError, match=rf"set-a.*/1001.txt, line 7: found .*expected {expected}"):
        load(folder)
    assert not list(folder.glob("cache/*"))


@pytest.mark.parametrize(
    "row", ["00:00,Gender,2", "00:00,ICUType,0", "00:00,ICUType,2.5", "00:00,ICUType,5"]
)
def test_unknown_categories(folder, row):
    (folder / "set-a" / "1001.txt").write_text(text(row, 1001))
    with pytest.raises(ValueError, match=rf"1001.txt, line 3: found '{row}'; expected one of -1, "):
        load(folder)


@pytest.mark.parametrize(
    "content, match",
    [
        ("", "line 1: found ''; expected the header"),
        ("Time;Parameter;Value\n", "line 1: found 'Time;Parameter;Value'; expected the header"),
        (f"{HEADER}\n00:10,HR,70\n", "1001.txt: has no row for RecordID"),
    ],
)
def test_malformed_records(folder, content, match):
    (folder / "set-a" / "1001.txt").write_text(content)
    with pytest.raises(ValueError, match=match):
        load(folder)


def test_windows_line_ends_and_no_last_one(folder):
    expected = load(folder)
    for path in (folder / "set-a").iterdir():
        path.write_bytes(path.read_bytes().removesuffix(b"\n").replace(b"\n", b"\r\n"))
    assert load(folder).report == expected.report


def test_unexpected_files_of_a_folder(folder):
    (folder / "set-a" / ".hidden").write_text("left alone")
    load(folder)
    (folder / "set-a" / "notes.txt").write_text("not a record")
    with pytest.raises(ValueError, match="notes.txt: expected records such as 132539.txt only"):
        load(folder)


def test_missing_files(folder):
    path = folder / "Outcomes-b.txt"
    path.rename(folder / "away")
    with pytest.raises(FileNotFoundError, match="There is no file .*Outcomes-b.txt"):
        load(folder)
    (folder / "set-c").rename(folder / "other")
    with pytest.raises(FileNotFoundError, match="holds neither the folder set-c nor the file"):
        load(folder)
    with pytest.raises(FileNotFoundError, match="split_dir: .*does not hold train_listfile.csv"):
        load(folder / "nowhere")


@pytest.mark.parametrize(
    "line, match",
    [
        ("1x,1,1,1,1,0", "line 4: found '1x,1,1,1,1,0'; expected a RecordID, and a death"),
        ("9,1,1,1,1,2", "line 4: .*a death of 0 or 1"),
        ("9,1", "line 4: "),
        ("1001,1,1,1,1,0", "line 4: .*each RecordID once"),
        ("9,1,1,1,1,0", "1 outcomes without a record in the set, the first 9"),
    ],
)
def test_outcomes(folder, line, match):
    path = folder / "Outcomes-a.txt"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=f"Outcomes-a.txt.*{match}"):
        load(folder)


def test_outcomes_without_their_columns_or_some_records(folder):
    write_outcomes(folder / "Outcomes-a.txt", [1001], DEATHS)
    with pytest.raises(ValueError, match="1 records of the set without an outcome, the first 1002"):
        load(folder)
    (folder / "Outcomes-a.txt").write_text("id,death\n1001,0\n")
    with pytest.raises(ValueError, match="line 1: found 'id,death'; expected the columns RecordID"):
        load(folder)


def test_record_in_two_sets(folder):
    (folder / "set-b" / "1001.txt").write_text(text(RECORDS["a", 1001], 1001))
    with pytest.raises(ValueError, match="set-b/1001.txt: the record 1001 is also .*set-a/1001"):
        load(folder)


@pytest.mark.parametrize(
    "name, numbers, deaths, match",
    [
        (
            "val",
            [3001, 9],
            {**DEATHS, 9: 0},
            "validation list names the record 9, which is in none",
        ),
        ("val", [3001, 1001], DEATHS, "record 1001 is in the train and the validation list"),
        ("val", [3001], {3001: 0}, "validation list has the death 0 for the record 3001"),
        ("test", [1002], DEATHS, "1 of 6 records are in no split list, the first 3002"),
    ],
)
def test_split_lists(folder, name, numbers, deaths, match):
    write_outcomes(folder / "splits" / f"{name}_listfile.csv", numbers, deaths)
    with pytest.raises(ValueError, match=match):
        load(folder)


def test_part_without_series(folder):
    write_outcomes(folder / "splits" / "train_listfile.csv", [2001, 1001, 3001], DEATHS)
    write_outcomes(folder / "splits" / "val_listfile.csv", [2002], DEATHS)
    with pytest.raises(ValueError, match="The validation list has no record with a series"):
        load(folder)


def serve(monkeypatch, contents):
    """Stands in for the server: gives (content, announced length) by the file's name."""
    asked = []

    def urlopen(url, timeout):
        assert url.startswith("https://physionet.org/") and timeout > 0
        name = url.rsplit("/", 1)[1]
        asked.append(name)
        if name not in contents:
            raise urllib.error.URLError("no route to host")
        content, length = contents[name]
        response = io.BytesIO(content)
        response.headers = {"Content-Length": str(length)} if length else {}
        return response

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return asked


def originals(folder):
    for letter in "abc":
        pack_set(folder, letter)
    names = [f"set-{letter}.tar.gz" for letter in "abc"] + [f"Outcomes-{c}.txt" for c in "abc"]
    return {name: (folder / name).read_bytes() for name in names}


def test_download(monkeypatch, folder, capsys):
    expected = load(folder)
    digests = {f"set-{c}.tar.gz": digest_of_records(folder / f"set-{c}") for c in "abc"}
    files = originals(folder)
    for name in ("Outcomes-a.txt", "Outcomes-b.txt", "Outcomes-c.txt"):
        digests[name] = hashlib.sha256(files[name]).hexdigest()
    monkeypatch.setattr(_physionet_download, "_DIGESTS", digests)
    asked = serve(monkeypatch, {name: (data, len(data)) for name, data in files.items()})
    arguments = {"split_dir": folder / "splits", "cache_dir": folder / "fresh"}
    monkeypatch.setattr(progress, "DELAY", 0.0)  # after which progress shows
    found = physionet2012(**arguments)
    assert "Outcomes-a.txt: 0 kB in " in capsys.readouterr().err
    assert found.report == expected.report and sorted(asked) == sorted(files)
    assert sorted(p.name for p in (folder / "fresh/physionet2012").iterdir()) == sorted(files)
    physionet2012(**arguments, progress=False)
    assert len(asked) == len(files)


@pytest.mark.parametrize(
    "content, length, match",
    [
        (None, None, "could not be downloaded .*no route to host.*give the folder .* as data_dir"),
        (b"cut", 10, "could not be downloaded .*ended after 3 of 10 bytes"),
        (b"<html>", None, "Outcomes-a.txt is not what was expected: its SHA-256 is [0-9a-f]{64};"),
    ],
)
def test_download_errors(monkeypatch, folder, content, length, match):
    serve(monkeypatch, {} if content is None else {"Outcomes-a.txt": (content, length)})
    with pytest.raises(RuntimeError, match=match):
        physionet2012(split_dir=folder / "splits", cache_dir=folder / "fresh", progress=False)
    assert not list((folder / "fresh/physionet2012").iterdir())


def test_download_of_something_else_as_an_archive(monkeypatch, folder):
    outcomes = {f"Outcomes-{c}.txt": (folder / f"Outcomes-{c}.txt").read_bytes() for c in "abc"}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in outcomes.items()}
    monkeypatch.setattr(
        _physionet_download, "_DIGESTS", {**_physionet_download._DIGESTS, **digests}
    )
    contents = {name: (data, None) for name, data in outcomes.items()}
    serve(monkeypatch, {**contents, "set-a.tar.gz": (b"<html>", None)})
    with pytest.raises(
        RuntimeError, match="set-a.tar.gz is not what was expected: .*cannot be read"
    ):
        physionet2012(split_dir=folder / "splits", cache_dir=folder / "fresh", progress=False)


def test_download_asks_for_the_lists_first(monkeypatch, tmp_path):
    asked = serve(monkeypatch, {})
    with pytest.raises(FileNotFoundError, match="split_dir: .*physionet2012.splits does not hold"):
        physionet2012(cache_dir=tmp_path)
    assert not asked
