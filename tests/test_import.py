"""`import tfpn`, `import equivariance` and `tfpn --help` must stay quick: no TensorFlow."""

import subprocess
import sys

import pytest

HEAVY = ("tensorflow", "keras", "tensorflow_probability", "matplotlib", "sklearn")


@pytest.mark.parametrize(
    "code",
    [
        "import tfpn; tfpn.__version__; dir(tfpn)",
        "import equivariance",
        "import contextlib, tfpn.cli\n"
        "with contextlib.suppress(SystemExit): tfpn.cli.main(['train', '--help'])",
    ],
    ids=["tfpn", "equivariance", "help"],
)
def test_loads_no_heavy_package(code):
    check = f"{code}\nimport sys\nprint([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_package_is_the_command():
    """``python -m tfpn``, where the script ``tfpn`` is not on the path."""
    run = [sys.executable, "-m", "tfpn"]
    done = subprocess.run([*run, "--help"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("usage: tfpn ") and not done.stderr
    done = subprocess.run([*run, "trian"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "invalid choice: 'trian'" in done.stderr


def test_unknown_attribute_is_an_attribute_error():
    import tfpn

    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = tfpn.no_such_thing


@pytest.mark.parametrize("module", ["evaluation", "figures"])
def test_statistics_and_pictures_need_no_tensorflow(module):
    code = f"import sys, tfpn.{module}; print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["False"]
