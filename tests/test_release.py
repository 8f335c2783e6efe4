"""What is released: a source archive, the wheel made of it, and an installation of that."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

import tfpn

ROOT = Path(__file__).parents[1]
PACKAGES = ("tfpn", "equivariance")
FILES = ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE")
TEXTS = ("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md")


def run(*command, **options):
    command = [sys.executable, *map(str, command)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=120, **options
    ).stdout


def build(kind, source, folder):
    """Builds what the installer would, without its isolated environment and its downloads."""
    folder.mkdir()
    code = f"from setuptools import build_meta; build_meta.build_{kind}({str(folder)!r})"
    run("-c", code, cwd=source)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    for name in (*PACKAGES, "models"):
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignore)
    for name in (*FILES, *TEXTS):
        shutil.copy(ROOT / name, source)
    return build("sdist", source, source.parent / "sdist")


@pytest.fixture(scope="module")
def installed(sdist, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with tarfile.open(sdist) as archive:
        if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(folder / "unpacked")
    (source,) = (folder / "unpacked").iterdir()
    wheel = build("wheel", source, folder / "wheel")
    target = folder / "target"
    options = ("--no-deps", "--no-index", "--no-compile", "--quiet", "--target", target)
    run("-m", "pip", "install", *options, wheel)
    shutil.rmtree(source)
    return target


def test_source_archive_has_the_texts(sdist):
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "LICENSE", *TEXTS} <= names


def test_installation_works_without_the_checkout(installed, tmp_path):
    code = (
        "import equivariance, tfpn; from tfpn import recipes; "
        "print(tfpn.__version__, equivariance.__file__, recipes.models_folder()); "
        "print(*recipes.names()); "
        "print(recipes.load('digits').sections['model'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found, names, model = run("-c", code, env=environment, cwd=tmp_path).splitlines()
    version, file, folder = found.split()
    assert version == tfpn.__version__
    assert Path(file) == installed / "equivariance" / "__init__.py"
    assert Path(folder) == installed / "tfpn" / "_models"
    assert set(names.split()) == {
        path.parent.name for path in (ROOT / "models").glob("*/recipe.toml")
    }
    assert "'channels': 32" in model
    assert all((installed / package / "py.typed").exists() for package in PACKAGES)
    shipped = {path.relative_to(ROOT / "models") for path in (ROOT / "models").glob("*/*")}
    assert all((installed / "tfpn" / "_models" / path).exists() for path in shipped)


def test_texts_name_the_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == tfpn.__version__
    headings = re.findall(
        r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M
    )
    assert headings[0] == (tfpn.__version__, str(citation["date-released"]))
