"""Types with names that differ only in case, for code generators that capitalize type names."""

from __future__ import annotations

from collections import Counter

from belvedere.api.graphql.types import schema_of
from belvedere.api.limits import Limits
from belvedere.api.reads.entities import model_of
from belvedere.compiler import compile_script

NAMES = ("sort", "int", "boolean", "query", "mutation", "subscription", "cursor", "json", "asOf", "string", "id")


def test_types_differ_by_more_than_the_size_of_letters() -> None:
    script = "".join(f"CREATE TABLE `{n}` (id INT NOT NULL, ok BOOLEAN, PRIMARY KEY (id));\n" for n in NAMES)
    catalog = compile_script(script + "V := SELECT * FROM sort;\nSortOrders := SELECT * FROM sort;\n").catalog
    schema = schema_of(model_of(catalog), Limits())
    counts = Counter(name.casefold() for name in schema.type_map)
    assert not [name for name, count in counts.items() if count > 1]
    assert schema.query_type is not None
    assert set(NAMES) <= set(schema.query_type.fields), "fields are called as the script says"
