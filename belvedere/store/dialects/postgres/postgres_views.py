"""Schema of the views for other tools in a Postgres store, and the role that can read them.

In: a session. Out: a `ViewSchema`: the schema `views` beside `public` (`NAME_views` beside another schema `NAME`), and
the role. Objects that the store's user must not create are left out, so a run needs no more rights than for its tables.
"""

from __future__ import annotations

from belvedere.store.dialects.dialect import literal
from belvedere.store.dialects.session import Session
from belvedere.store.identifiers import quoted, stored_name
from belvedere.store.public_views import ViewGrant, ViewSchema

VIEWS = "views"
_KNOWN = (
    "SELECT current_schema(), current_database()::text, has_database_privilege(current_database(), 'CREATE'), "
    "(SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user)"
)
_SCHEMA = (
    "SELECT has_schema_privilege(nspname::text, 'CREATE'), nspowner = current_user::regrole FROM pg_namespace "
    "WHERE nspname = ?"
)
_THERE = "SELECT lower(relname::text) FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = ?"
_ROLE = "SELECT 1 FROM pg_roles WHERE rolname = ?"
_OUR_COMMENT = "the views of Belvedere's script, for other tools to read"


_GRANTS = """
SELECT r.rolname::text, x.privilege_type, NULL::text, x.is_grantable
FROM pg_class c CROSS JOIN aclexplode(c.relacl) x LEFT JOIN pg_roles r ON r.oid = x.grantee
WHERE c.oid = to_regclass(?) AND x.grantee <> c.relowner
UNION ALL
SELECT r.rolname::text, x.privilege_type, a.attname::text, x.is_grantable
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid CROSS JOIN aclexplode(a.attacl) x
LEFT JOIN pg_roles r ON r.oid = x.grantee
WHERE c.oid = to_regclass(?) AND NOT a.attisdropped AND x.grantee <> c.relowner
"""


def grants_on(session: Session, target: str) -> tuple[ViewGrant, ...]:
    """Return the grants of administrators and of Belvedere on a table or view. Its owner has all rights anyway."""
    found = session.execute(_GRANTS, (target,) * 2)
    return tuple(ViewGrant(role, str(right), column, bool(passes)) for role, right, column, passes in found)


def place_of_views(session: Session) -> ViewSchema | None:
    """Return the schema, created in the open transaction if it does not exist, or None if this user must not create
    views there."""
    tables, database, may_create, may_make_roles = session.execute(_KNOWN)[0]
    schema = stored_name(VIEWS if tables == "public" else f"{tables}_{VIEWS}")
    found = session.execute(_SCHEMA, (schema,))
    if not (found[0][0] if found else may_create):
        return None
    first = (
        []
        if found
        else [f"CREATE SCHEMA {quoted(schema)}", f"COMMENT ON SCHEMA {quoted(schema)} IS {literal(_OUR_COMMENT)}"]
    )
    is_ours = not found or found[0][1]
    reader = stored_name(f"{database}_{schema}_reader")
    is_there = bool(session.execute(_ROLE, (reader,)))
    if not is_there and may_make_roles and is_ours:
        first.append(f"CREATE ROLE {quoted(reader)} NOLOGIN")
        is_there = True
    if is_there and is_ours:
        first.append(f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(reader)}")
    taken = frozenset(str(name) for (name,) in session.execute(_THERE, (schema,)))
    return ViewSchema(schema, tuple(first), reader if is_there else "", taken, has_comments=True)
