import json
import re
import subprocess
import sys

import pytest
import sympy

from equivariance import SO2, solve_generators
from equivariance.command import main


def test_summary(capsys):
    assert main(["--group", "SO2", "--rep", "2x0 + 1"]) == 0
    out, err = capsys.readouterr()
    assert not err
    lines = out.splitlines()
    assert lines[0] == "group SO2, 2x0 + 1 (4 channels)"
    (total,) = [x for x in lines if x.startswith("all")]
    assert total.split() == ["all", "6", "8", "8"]
    assert "residual 0, characters count the same" in out
    assert "d/dt v = sum_b (b3_b grad u_b + b4_b rot u_b)" in out


def test_other_output(capsys):
    assert main(["--group", "D6", "--rep", "T(1,0)", "--rep-out", "T(1,1)"]) == 0
    out = capsys.readouterr().out
    assert "T(1,0) (2 channels) -> T(1,1) (4 channels)" in out
    assert "irreducible parts of T(1,1): 0+ + 0- + 2" in out and "u' = b1 div v" in out


def test_latex(capsys):
    assert main(["--group", "O2", "--rep", "0 + 1", "--latex"]) == 0
    out = capsys.readouterr().out
    assert out.count(r"\begin{align*}") == 2 and r"\operatorname{div} \mathbf{v}" in out


def test_json(capsys, tmp_path):
    assert main(["--group", "SO3", "--rep", "0 + T(1,1)", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["dimensions"]["second_order"] == 14
    assert [x["multiplicity"] for x in document["irreps_in"]] == [2, 1, 1]
    counted = dict.fromkeys(document["dimensions"], 0)
    copies = {x["representation"]: x["multiplicity"] for x in document["irreps_in"]}
    for pair in document["pairs"]:
        for name in counted:
            counted[name] += len(pair[name]) * copies[pair["out"]] * copies[pair["in"]]
    assert counted == document["dimensions"]
    path = tmp_path / "basis.json"
    assert main(["--group", "SO2", "--rep", "1", "--rep-out", "0", "--json", str(path)]) == 0
    document = json.loads(path.read_text())
    solution = solve_generators(SO2.irrep(1), SO2.irrep(0))
    for entries, array in zip(
        document["pairs"][0]["first_order"], solution.first_order, strict=True
    ):
        read = sympy.MutableDenseNDimArray.zeros(2, 1, 2)
        for entry in entries:
            read[tuple(entry["index"])] = sympy.sympify(entry["exact"])
            assert float(read[tuple(entry["index"])]) == entry["value"]
        assert read.tolist() == array.tolist()


def test_keras(capsys, tmp_path):
    path = tmp_path / "flow.py"
    arguments = ["--group", "SO2", "--rep", "0 + 1", "--keras", str(path), "--name", "Flow"]
    assert main(arguments) == 0
    assert "class Flow(keras.layers.Layer)" in path.read_text()
    assert "dissipative" in path.read_text() and f"wrote {path}" in capsys.readouterr().err
    assert main([*arguments, "--constraint", "free"]) == 0
    assert "all equivariant generators" in path.read_text()
    assert main([*arguments, "--rep-out", "1"]) == 0
    assert "differential operator" in path.read_text()
    capsys.readouterr()
    assert main(["--group", "SO2", "--rep", "0 + 1", "--keras", "-"]) == 0
    compile(capsys.readouterr().out, "flow", "exec")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group", "SO2", "--rep", "2x0 + 1y"], "Unexpected 'y'.\n  2x0 + 1y\n         ^"),
        (["--group", "SO4", "--rep", "0"], "known are SO2, O2, SO3"),
        (["--group", "SO2", "--rep", "0", "--rep-out", "1 +"], "missing here.\n  1 +\n     ^"),
        (["--group", "SO2", "--rep", "0", "--keras", "-", "--name", "a b"], "name of a class"),
        (
            ["--group", "SO2", "--rep", "0", "--rep-out", "2", "--keras", "-"]
            + ["--constraint", "dissipative"],
            "maps a representation to itself",
        ),
        (["--group", "O2", "--rep", "0", "--rep-out", "0-", "--keras", "-"], "nothing to learn"),
        (["--group", "O2", "--rep", "0", "--keras", "-", "--name", "float"], "meaning in Python"),
        (["--group", "O2", "--rep", "0", "--keras", "-", "--name", "np"], "the file itself uses"),
        (["--group", "O2", "--rep", "0", "--keras", "-", "--name", ""], "--name must be"),
        (["--group", "O2", "--rep", "0", "--name", "Flow"], "--name Flow .* give --keras FILE"),
        (["--group", "O2", "--rep", "0", "--constraint", "free"], "--constraint free .* --keras"),
        (["--group", "O2", "--rep", "0", "--json", "-", "--keras", "-"], "--json - and --keras -"),
        (["--group", "O2", "--rep", "0", "--json", "-", "--latex"], "--json - and --latex would"),
        (
            ["--group", "O2", "--rep", "0", "--latex", "--keras", "-", "--json", "-"],
            "--json - and --keras - and --latex would all go to the same output",
        ),
        (["--group", "O2", "--rep", "0", "--json", "x", "--keras", "x"], "name the same file, x"),
        (["--group", "O2", "--rep", "0", "--json", "x", "--keras", "./x"], "name the same file, x"),
        (["--group", "SO2", "--rep", "1001x1"], "2002 channels are more than the 2000"),
    ],
)
def test_wrong_arguments(capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith("error: ")
    assert message in err or re.search(message, err)


def test_files_that_cannot_be_written(capsys, tmp_path):
    for option in ("--json", "--keras"):
        path = tmp_path / "missing" / "file"
        assert main(["--group", "SO2", "--rep", "0", option, str(path)]) == 1
        assert f"error: cannot write {path}: No such file" in capsys.readouterr().err


def test_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "equivariance", "--group", "C4", "--rep", "0 ++"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2 and "^" in done.stderr and "Traceback" not in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "equivariance", "--help"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0 and "T(p,q)" in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "equivariance", "--group", "C4"], capture_output=True, timeout=60
    )
    assert done.returncode == 2


def test_a_reader_that_stops_early():
    command = f"{sys.executable} -m equivariance --group SO3 --rep '3x4 + 3x3 + 2' | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("group SO3") and not done.stderr


def test_one_output_and_files(capsys, tmp_path):
    paths = [str(tmp_path / name) for name in ("basis.json", "flow.py")]
    arguments = ["--group", "SO2", "--rep", "0 + 1", "--latex"]
    assert main([*arguments, "--json", paths[0], "--keras", paths[1]]) == 0
    assert capsys.readouterr().out.startswith("\\begin{align*}")


def test_columns_stay_apart(capsys):
    """Counts of up to seven digits, and numbers of copies that are as wide."""
    assert main(["--group", "C4", "--rep", "700x0 + 2x1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("") + 1
    table = lines[start : lines.index("", start)]
    assert table[0].split() == ["out", "<-", "in", "copies", "C", "B", "S"]
    assert table[1].split() == ["0", "<-", "0", "700", "x", "700", "490000", "0", "490000"]
    assert table[-1].split()[1:] == ["490008", "5600", "490024"]
    assert len({len(line) for line in table}) == 1
