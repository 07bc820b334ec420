"""`[roles]` of the project file: what `belvedere check` says of it, and where."""

from __future__ import annotations

from pathlib import Path

import pytest

from belvedere.catalog.access import Right
from belvedere.compiler import Compiled, compile_script
from belvedere.connectors.project_file import read_project

SCRIPT = """
CREATE TABLE T (id BIGINT NOT NULL, tenant STRING, level INT, price DECIMAL(8,2), at TIMESTAMP, ok BOOLEAN, raw BINARY,
                items ARRAY<STRUCT<sku STRING>>, PRIMARY KEY (id));
CREATE STREAM S (a STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 SECOND) KEEP 1 DAY;
_Private := SELECT id FROM T;
V := SELECT id, tenant FROM T;
Q(n STRING) := SELECT id FROM T WHERE tenant = :n;
W(n STRING) := SELECT id FROM V WHERE tenant = :n;
Seen := SUBSCRIBE SELECT * FROM T;
"""


def compiled(text: str) -> tuple[Compiled, str]:
    file = Path("/nowhere/belvedere.toml")
    project = read_project(text, file.parent, file, {})
    result = compile_script(SCRIPT, project=project)
    return Compiled(result.catalog, (*project.diagnostics, *result.diagnostics)), text


def errors(text: str) -> list[tuple[str, str, str]]:
    """Code, message and the text that is pointed at."""
    result, _ = compiled(text)
    return [(d.code, d.message, text[d.span.start : d.span.end] if d.span else "") for d in result.diagnostics]


def test_rights_follow_from_what_is_named() -> None:
    text = (
        '[roles.a]\nviews = ["t"]\n[roles.b]\npushes = ["S"]\n[roles.c]\nrights = ["status"]\nviews = '
        '["V"]\n[roles.d]\n'
    )
    grants = compiled(text)[0].catalog.access.grants
    assert [g.rights for g in grants.values()] == [{Right.READ}, {Right.PUSH}, {Right.STATUS}, set()]
    assert [set(g.relations) for g in grants.values()] == [{"T"}, set(), {"V"}, set()]
    assert not compiled("")[0].catalog.access.grants


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ('views = ["Tt"]', "B9107", '"Tt"'),
        ('views = ["_Private"]', "B9107", '"_Private"'),
        ('views = ["Q"]', "B9107", '"Q"'),
        ('views = ["T"]\nhidden = {V = ["id"]}', "B9107", "V"),
        ('views = ["T"]\nhidden = {T = ["tenat"]}', "B9107", '"tenat"'),
        ('views = ["T", "Q"]\nhidden = {T = ["tenant"]}', "B9107", '"Q"'),
        ('views = ["T", "Seen"]\nhidden = {T = ["tenant"]}', "B9107", '"Seen"'),
        ('pushes = ["V"]', "B9107", '"V"'),
        ('views = ["T"]\npushes = ["T"]\nhidden = {T = ["level"]}', "B9107", '"T"'),
        ('views = ["T"]\nrows = {V = "id = 1"}', "B9107", "V"),
        ('views = ["T", "T.items"]\nrows = {T = "id = 1"}', "B9107", '"T.items"'),
        ('views = ["T", "Seen"]\nrows = {T = "id = 1"}', "B9107", '"Seen"'),
        ('views = ["T", "V"]\nrows = {T = "id = 1"}', "B9107", '"V"'),
        ('views = ["T"]\nrows = {T = "tenat = claim(\'tenant\')"}', "B2002", "tenat"),
        ('views = ["T"]\nrows = {T = "tenant"}', "B3002", "tenant"),
        ('views = ["T"]\nrows = {T = "tenant = "}', "B1002", ""),
        ('views = ["T"]\nrows = {T = ""}', "B1002", ""),
        ('views = ["T"]\nrows = {T = "id = 1 GROUP BY id"}', "B9107", "id = 1 GROUP BY id"),
        ('views = ["T"]\nrows = {T = "id = 1; X := SELECT 1 AS a"}', "B9107", "id = 1; X := SELECT 1 AS a"),
        ('views = ["T"]\nrows = {T = "id IN (SELECT id FROM V)"}', "B9107", "SELECT id FROM V"),
        ('views = ["T"]\nrows = {T = "EXISTS (SELECT 1 FROM V)"}', "B9107", "SELECT 1 FROM V"),
        ('views = ["T"]\nrows = {T = "id = :id"}', "B9107", ":id"),
        ('views = ["T"]\nrows = {T = "id = claim(tenant)"}', "B9107", "claim(tenant)"),
        ('views = ["T"]\nrows = {T = "id = claim(\'a..b\')"}', "B9107", "claim('a..b')"),
        ('views = ["T"]\nrows = {T = "raw = claim(\'a\')"}', "B3002", "claim('a')"),
        ('views = ["T"]\nrows = {T = "id = CAST(claim(\'a\') AS TEXTT)"}', "B1001", "TEXTT"),
        ('views = ["T"]\nrows = {T = "upper(tenant) = claim(\'a\')"}', "B8020", "T"),
        ('views = ["T"]\nrows = {T = "row_number() OVER (ORDER BY id) = 1"}', "B3038", "row_number() OVER (ORDER BY "
                                                                                       "id) = 1"),
        ('views = ["T"]\nrows = {T = "count(*) > 1"}', "B8020", "T"),
        ('views = "T"', "B9104", "views"),
        ('rights = ["write"]', "B9104", "rights"),
        ("colour = 1", "B9103", "colour"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_shown_at_its_place(text: str, code: str, place: str) -> None:
    found = errors(f"[roles.a]\n{text}\n")
    assert [(c, p) for c, _, p in found] == [(code, place)], found


def test_texts_of_several_lines_and_quoted_names() -> None:
    text = (
        '[roles.a]\nviews = ["T", "T.items"]\n\n[roles.a.rows]\n"T.items" = \'true\'\nT = """\n  level >= 3\n  AND '
        'levl < 7"""\n'
    )
    assert [(c, p) for c, _, p in errors(text)] == [("B2002", "levl")]


@pytest.mark.parametrize(
    ("condition", "type_"),
    [
        ("level >= claim('x')", "int32"),
        ("claim('x') = id", "int64"),
        ("tenant IN (claim('x'), 'all')", "string"),
        ("price BETWEEN 0 AND claim('x')", "decimal128(8, 2)"),
        ("claim('x') OR tenant IS NULL", "bool"),
        ("NOT claim('x')", "bool"),
        ("CAST(claim('x') AS BIGINT) > level", "int64"),
        ("tenant LIKE claim('x')", "string"),
        ("coalesce(tenant, '') = coalesce(claim('x'), 'a')", "string"),
        ("CASE WHEN claim('x') THEN ok ELSE false END", "bool"),
        ("id <> level + (claim('x'))", "int32"),
        ("at > claim('x')", "timestamp[us, tz=UTC]"),
    ],
)
def test_a_claim_has_the_type_of_what_it_is_compared_with(condition: str, type_: str) -> None:
    result, _ = compiled(f'[roles.a]\nviews = ["T"]\nrows = {{T = "{condition}"}}\n')
    assert result.ok, result.diagnostics
    (parameter,) = result.catalog.access.grants["a"].row_conditions["T"].parameters
    assert str(parameter.type) == type_


def test_names_of_claims() -> None:
    text = "claim('a.b') = tenant AND claim('https://x.example/tenant') = tenant AND claim('a.b') = level"
    grant = compiled(f'[roles.a]\nviews = ["T"]\nrows = {{T = "{text}"}}\n')[0].catalog.access.grants["a"]
    claims = [p.metadata.claim for p in grant.row_conditions["T"].parameters if p.metadata is not None]
    assert claims == [("a", "b"), ("https://x.example/tenant",), ("a", "b")]


def test_what_is_wrong_is_not_granted() -> None:
    result, _ = compiled('[roles.a]\nviews = ["T", "V", "Q"]\nrows = {T = "tenat = 1"}\n')
    grant = result.catalog.access.grants["a"]
    assert (set(grant.relations), set(grant.templates)) == ({"V"}, set())
    assert len(result.diagnostics) == 1


def test_tokens_name_roles_that_there_are() -> None:
    known = '[roles.tenant]\nviews = ["T"]'
    for text, code in (
        ('[api]\nanonymous_role = "tenat"', "B9107"),
        ('[api.jwt]\nkey = "x"\ndefault_role = "tenat"', "B9107"),
        ('[api.tokens.a]\ntoken = "x"\nrole = "tenat"', "B9107"),
        ('[api.tokens.a]\ntoken = "x"', "B9104"),
        ('[api.tokens.a]\nrole = "tenant"', "B9104"),
        ('[api.tokens.a]\ntoken = "x y"\nrole = "tenant"', "B9104"),
        ('[api.tokens.a]\ntoken = "x"\nrights = ["all"]', "B9104"),
    ):
        assert [c for c, _, _ in errors(f"{text}\n{known}")] == [code], text


WISHES = """
CREATE TABLE Offers (offer INT, kind STRING, price DOUBLE, tenant STRING, PRIMARY KEY (offer));
CREATE TABLE Wishes (wish INT, kind STRING, price DOUBLE, PRIMARY KEY (wish));
Wishes.alike := JOIN Offers o ON upper(o.kind) = upper(_.kind);
"""


def test_the_stored_rows_of_a_relationship_are_seen_as_those_of_its_target() -> None:
    roles = '[roles.shop]\nviews = ["Wishes", "Offers"]\n[roles.shop.rows]\nOffers = "tenant = claim(\'tenant\')"\n'
    file = Path("/nowhere/belvedere.toml")
    catalog = compile_script(WISHES, project=read_project(roles, file.parent, file, {})).catalog
    (relationship,) = catalog.relationships
    assert relationship.kept is not None, "the store cannot compute upper()"
    grant = catalog.access.grants["shop"]
    assert relationship.kept in grant.relations
    conditions = {id_: rows.condition.sql() for id_, rows in grant.row_conditions.items()}
    assert conditions == dict.fromkeys((relationship.target, relationship.kept), conditions[relationship.target])
