"""Downloads the original files of PhysioNet 2012 from physionet.org."""

import http.client
import os
import urllib.request
from pathlib import Path

from tfpn.datasets._physionet_files import SETS, digest_of_file, digest_of_records
from tfpn.progress import Progress
from tfpn.types import Verbose

_URL = "https://physionet.org/files/challenge-2012/1.0.0/"
_TIMEOUT_SECONDS = 60
_CHUNK = 1 << 16

# SHA-256 of each outcomes file, and of the records of each set (`digest_of_records`). So an archive
# that someone packed anew with the same records still counts as the same set.
_DIGESTS = {
    "Outcomes-a.txt": "2613ea60ccda29f87571a7d6b09ad130858a8ccd66325bd073365925026883c2",
    "set-a.tar.gz": "44370f3fdae48fa253a14c6aa93cef8fd6e4b018a1e342e53a178d4f9f5a3229",
    "Outcomes-b.txt": "1305f29734da374a809483229a99f33a9230aa8d4fa74b1a2d6ad788136423d5",
    "set-b.tar.gz": "ceed6cdb14213788e650d10cad29ffdfdbacf187babfc95633e750c9a6a53610",
    "Outcomes-c.txt": "0b32dcb7753c0f18f2f5fde498a28618b8879c5e527ce0dae8ad120dd7e205c9",
    "set-c.tar.gz": "c9f6c86160aad5f1fe5d749b803423f9748eb139918b4b6f2f3b7c32790f642e",
}


def download(folder: Path, progress: bool) -> None:
    """Downloads missing files into a folder; a file that is there has been checked before."""
    folder.mkdir(parents=True, exist_ok=True)
    for letter in SETS:
        for name in (f"Outcomes-{letter}.txt", f"set-{letter}.tar.gz"):
            if not (folder / name).exists():
                _download_file(folder, name, progress)


def _download_file(folder, name, progress):
    # The file goes into a temporary folder first, so that only checked files get into `folder`.
    temporary = folder / f"unchecked-{os.getpid()}" / name
    temporary.parent.mkdir(exist_ok=True)
    try:
        try:
            _fetch(_URL + name, temporary, progress)
        except (OSError, http.client.HTTPException) as error:
            raise RuntimeError(
                f"{_URL}{name} could not be downloaded ({error}). Without a network, get the files "
                "of the PhysioNet challenge 2012 elsewhere and give the folder that holds them as "
                "data_dir."
            ) from error
        digest = digest_of_records if name.endswith(".tar.gz") else digest_of_file
        try:
            found = f"its SHA-256 is {digest(temporary)}"
        except ValueError as error:
            found = str(error)
        if not found.endswith(_DIGESTS[name]):
            raise RuntimeError(
                f"{_URL}{name} is not what was expected: {found}; expected the SHA-256 "
                f"{_DIGESTS[name]}. Try again; if it stays so, download the file yourself and, if "
                "you trust it, give the folder that holds it as data_dir."
            )
        os.replace(temporary, folder / name)
    finally:
        temporary.unlink(missing_ok=True)
        temporary.parent.rmdir()


def _fetch(url, path, progress):
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
        size = int(response.headers.get("Content-Length") or 0) or None
        kilobytes = size and size // 1000
        verbose: Verbose = "auto" if progress else 0
        with open(path, "wb") as file, Progress(path.name, kilobytes, "kB", verbose) as shown:
            while chunk := response.read(_CHUNK):
                file.write(chunk)
                shown.update(file.tell() // 1000)
        if size not in (None, path.stat().st_size):
            raise OSError(f"the connection ended after {path.stat().st_size} of {size} bytes")
