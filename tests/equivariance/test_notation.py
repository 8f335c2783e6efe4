import pytest
import sample_groups
from hypothesis import given, settings
from hypothesis import strategies as st
from test_generator_symbols import representation

from equivariance import (
    O2,
    SO2,
    SO3,
    Cyclic,
    Dihedral,
    NotationError,
    parse_group,
    parse_representation,
)


@pytest.mark.parametrize("group", sample_groups.BUILT_IN, ids=sample_groups.name)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_text_of_a_representation_can_be_read(group, data):
    rep = data.draw(representation(group))
    assert parse_representation(str(rep), group) == rep
    assert parse_group(str(group)) == group


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x0 + 1", 2 * O2.irrep(0) + O2.irrep(1)),
        ("  2 x 0+1 ", 2 * O2.irrep(0) + O2.irrep(1)),
        ("2X0 + 2×1", 2 * O2.irrep(0) + 2 * O2.irrep(1)),
        ("0-", O2.irrep(0, -1)),
        ("0+", O2.irrep(0)),
        ("0++0-", O2.irrep(0) + O2.irrep(0, -1)),
        ("0+0", 2 * O2.irrep(0)),
        ("(0+)", O2.irrep(0)),
        ("0+ @ 1", O2.irrep(0) @ O2.irrep(1)),
        ("T(1,2)", O2.tensor(1, 2)),
        ("t( 0 , 1 )", O2.tensor(0, 1)),
        ("T(1,0)*", O2.tensor(1, 0)),
        ("2x1 @ 2", 2 * (O2.irrep(1) @ O2.irrep(2))),
        ("(2x1) @ 2", (2 * O2.irrep(1)) @ O2.irrep(2)),
        ("1 @ 2 @ 3", O2.irrep(1) @ O2.irrep(2) @ O2.irrep(3)),
        ("1 @ (2 + 0)", O2.irrep(1) @ (O2.irrep(2) + O2.irrep(0))),
        ("2x(0 + 1)", 2 * (O2.irrep(0) + O2.irrep(1))),
    ],
)
def test_notation(text, expected):
    assert parse_representation(text, O2) == expected


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("", 0, "empty"),
        ("   ", 3, "empty"),
        ("2x", 2, "missing"),
        ("0 +", 3, "missing"),
        ("0 + + 1", 4, r"found '\+'"),
        ("1y", 1, "Unexpected 'y'"),
        ("1 1", 2, "Unexpected '1'"),
        ("(0 + 1", 6, r"'\)' is missing"),
        ("0 + 1)", 5, r"no '\('"),
        ("x1", 0, "found 'x'"),
        ("-1", 0, "found '-'"),
        ("1.5", 1, "Unexpected '.'"),
        ("2x3x1", 3, "Unexpected 'x'"),
        ("0x1", 0, "at least 1"),
        ("2*1", 1, "multiples with x"),
        ("T1", 1, r"'\(' expected"),
        ("T(1)", 3, "',' expected"),
        ("T(1,a)", 4, "a number expected"),
        ("T(1,2", 5, r"'\)' expected"),
        ("0 + T(30,0)", 4, "channels"),
        ("T(11,0)", 0, "2.11 channels are more"),
        ("5 + 1-", 4, "parity = -1 does not apply"),
        ("99999", 0, "too large"),
        ("9999999999x1", 0, "too large"),
        ("1001x1", 0, "2002 channels"),
        ("1000x1 + 1", 7, "2002 channels"),
        ("(" * 60 + "1" + ")" * 60, 50, "parentheses"),
        ("1 @ ", 4, "missing"),
        ("١", 0, "found"),
        ("1\n+\x00", 3, "found"),
    ],
)
def test_errors_point_at_the_place(text, position, reason):
    with pytest.raises(NotationError, match=reason) as caught:
        parse_representation(text, O2)
    error = caught.value
    assert isinstance(error, ValueError) and (error.text, error.position) == (text, position)
    *_, shown, caret = str(error).split("\n")
    at = caret.index("^")
    character = text[position : position + 1]
    assert shown[at : at + 1] == (character if character.isprintable() else " ")
    if len(text) < 40:
        assert at == position + 2 and len(shown) == len(text) + 2
    assert len(shown) < 100


def test_errors_of_a_group():
    with pytest.raises(NotationError, match="spin must be at most 10"):
        parse_representation("1 + 11", SO3)
    with pytest.raises(NotationError, match="no parity"):
        parse_representation("0-", SO3)
    with pytest.raises(NotationError, match="at most n // 2 = 2"):
        parse_representation("3", Cyclic(5))
    assert parse_representation("3- + 3", Dihedral(6)).dim == 2


def test_groups():
    assert parse_group("so(2)") is SO2 and parse_group(" O2 ") is O2 and parse_group("SO3") is SO3
    assert parse_group("c12") == Cyclic(12) and parse_group("D1") == Dihedral(1)
    for text, position in [
        *(("", 0), ("  SO4", 2), ("C", 0), ("C4x", 0), ("SO(2", 0), ("E8", 0)),
        *(("C0", 1), ("D361", 1), ("C99999999999999999999", 1)),
    ]:
        with pytest.raises(NotationError) as caught:
            parse_group(text)
        assert caught.value.position == position


def test_types():
    with pytest.raises(TypeError, match="A group is named by text, found 2"):
        parse_group(2)
    with pytest.raises(TypeError, match="A representation is text"):
        parse_representation(1, SO2)
    with pytest.raises(TypeError, match="group must be a group such as SO2, found 'SO2'"):
        parse_representation("1", "SO2")
    with pytest.raises(NotationError, match="cube, a user-defined group, are not known") as caught:
        parse_representation("T(1,0) + 1", sample_groups.CUBE)
    assert caught.value.position == 9


@pytest.mark.parametrize("group", [sample_groups.CUBE, sample_groups.LORENTZ], ids=str)
def test_user_defined_groups_have_tensors(group):
    vector, covector = group.tensor(1, 0), group.tensor(0, 1)
    for rep in (vector, 2 * group.tensor(0, 0) + covector, (vector @ covector).dual + vector.dual):
        assert parse_representation(str(rep), group) == rep
    assert parse_representation("T(1,0)*", group) == vector.dual


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(alphabet="0123x+-*@() T,ab", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        rep = parse_representation(text, O2)
    except NotationError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert 1 <= rep.dim <= 2000
