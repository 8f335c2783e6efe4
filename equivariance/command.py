"""The command ``python -m equivariance``."""

import argparse
import json
import sys
import time

from equivariance.characters import count_generators
from equivariance.documents import to_document
from equivariance.generators import solve_generators
from equivariance.keras_source import keras_source
from equivariance.notation import KNOWN_GROUPS, parse_group, parse_representation
from equivariance.parameterization import CONSTRAINTS
from equivariance.writing import latex_basis, latex_system, text_system
from tfpn.files import WriteError, same_file, write

DESCRIPTION = """\
Find the PDEs df/dt = (C + sum_i B_i d_i + sum_ij S_ij d_i d_j) f that commute with a group. The
group acts on space and on the channels of f. Print the solution space with its dimensions."""
EPILOG = """\
representations:
  0, 1, 2     irreducible, by frequency (plane) or spin (space): 0 a scalar, 1 a vector
  0+, 0-      with a parity, under O2 and D<n>: a scalar and a pseudoscalar
  T(p,q)      tensors of the plane or space: T(0,0) scalars, T(1,0) vectors, T(1,1) matrices
  2x1         twice 1
  1 + 2       both
  1 @ 2       tensor product; parentheses group

examples:
  python -m equivariance --group SO2 --rep "2x0 + 1"
  python -m equivariance --group O2 --rep "0 + 1" --latex
  python -m equivariance --group D6 --rep "T(1,0)" --rep-out "T(1,1)" --json -
  python -m equivariance --group SO2 --rep "0 + 1 + 2" --keras flow.py --name Flow"""


def main(arguments=None):
    """Runs the command.

    Args:
        arguments: a list of strings. The default is the arguments of the process.

    Returns:
        The exit code: 0; 1 if a file cannot be written; 2 for wrong arguments.
    """
    parser = argparse.ArgumentParser(
        prog="python -m equivariance",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--group", required=True, help=KNOWN_GROUPS.replace("%", "%%"))
    parser.add_argument("--rep", required=True, help="the channels, such as '2x0 + 1'")
    parser.add_argument("--rep-out", help="the channels of the result (default: those of --rep)")
    parser.add_argument(
        "--latex", action="store_true", help="print LaTeX of the basis and the system instead"
    )
    parser.add_argument("--json", metavar="FILE", help="write the exact basis; - for the output")
    parser.add_argument("--keras", metavar="FILE", help="write a constrained Keras layer")
    parser.add_argument("--name", help="the Keras layer's class (default: EquivariantFlow)")
    parser.add_argument(
        "--constraint",
        choices=CONSTRAINTS,
        help="constraint of the Keras layer (default: dissipative, or free with --rep-out)",
    )
    options = parser.parse_args(arguments)
    try:
        _check(options)
        group = parse_group(options.group)
        rep_in = parse_representation(options.rep, group)
        rep_out = rep_in
        if options.rep_out is not None:
            rep_out = parse_representation(options.rep_out, group)
        start = time.perf_counter()
        solution = solve_generators(rep_in, rep_out)
        seconds = time.perf_counter() - start
        source = None
        if options.keras is not None:
            default = "dissipative" if rep_in == rep_out else "free"
            constraint = options.constraint or default
            name = options.name or "EquivariantFlow"
            source = keras_source(solution.parameterization(constraint), name)
    except ValueError as error:
        return _failed(f"{error}")
    texts = []
    if options.latex:
        texts += [latex_basis(solution), latex_system(solution)]
    elif options.json != "-" and options.keras != "-":
        texts.append(_summary(solution, seconds))
    try:
        if options.json is not None:
            _write(options.json, json.dumps(to_document(solution), indent=1) + "\n", texts)
        if source is not None:
            _write(options.keras, source, texts)
    except WriteError as error:
        return _failed(f"{error}", 1)
    print("\n".join(text.rstrip("\n") for text in texts))
    return 0


def _check(options):
    """Refuses options that contradict each other."""
    if options.keras is None:
        for name in ("name", "constraint"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name} {getattr(options, name)} is about the Keras layer: give --keras FILE"
                    " with it, or leave it out."
                )
    elif options.name == "":
        raise ValueError("--name must be the name of a class, such as 'MyFlow', found ''.")
    printed = [f"--{x} -" for x in ("json", "keras") if getattr(options, x) == "-"]
    if options.latex:
        printed.append("--latex")
    if len(printed) > 1:
        raise ValueError(
            f"{' and '.join(printed)} would all go to the same output. Leave one of them there and "
            "give the others a file."
        )
    files = [x for x in (options.json, options.keras) if x not in (None, "-")]
    if len(files) == 2 and same_file(*files):
        raise ValueError(f"--json and --keras name the same file, {options.json}.")


def _write(path, text, texts):
    if path == "-":
        texts.append(text)
        return
    write(path, text)
    print(f"wrote {path}", file=sys.stderr)


def _failed(message, code=2):
    print(f"error: {message}", file=sys.stderr)
    return code


def _summary(solution, seconds):
    rep_in, rep_out = solution.rep_in, solution.rep_out
    same = rep_in == rep_out
    names = f"{rep_in} ({rep_in.dim} channels)"
    if not same:
        names += f" -> {rep_out} ({rep_out.dim} channels)"
    lines = [f"group {solution.group.name}, {names}"]
    for parts in dict.fromkeys((solution.decomposition_in, solution.decomposition_out)):
        irreducible = str(parts.representation)
        if irreducible != str(parts.rep):
            lines.append(f"irreducible parts of {parts.rep}: {irreducible}")
    rows: list[tuple[str, ...]] = [("out <- in", "copies", "C", "B", "S")]
    for block in solution.blocks:
        copies = block.multiplicity_out * block.multiplicity_in
        rows.append(
            (
                f"{block.irrep_out} <- {block.irrep_in}",
                f"{block.multiplicity_out} x {block.multiplicity_in}",
                *(str(block.count(order) * copies) for order in range(3)),
            )
        )
    totals = solution.dimensions
    rows.append(("all", "", *map(str, totals.values())))
    lines += ["", *_table(rows)]
    expected = count_generators(rep_in, rep_out)
    agreement = "the same" if expected == totals else f"others: {expected}"
    lines += [
        "",
        f"residual {solution.residual()}, characters count {agreement}, solved in {seconds:.2f} s",
        "",
        text_system(solution),
    ]
    return "\n".join(lines)


def _table(rows):
    """Lines of columns two spaces apart; the first two are left-aligned, numbers right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if n < 2 else cell.rjust(max(width, 4))
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells)
