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
