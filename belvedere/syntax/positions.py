"""Sets the exact position of each node of a tree in the script.

In: a new tree from the parser, whose nodes have partial positions (inclusive token offsets), and its tokens. Out: the
same tree; each node's `meta["start"]` and `meta["end"]` are half-open character offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}


@dataclass(frozen=True)
class TokenMap:
    """Tokens by offset, with the bracket depth at the end of each."""

    starts: list[int]
    ends: list[int]
    depths: list[int]
    kinds: list[TokenType]


def map_tokens(tokens: list[Token]) -> TokenMap:
    """Prepare the look-ups of `locate`, once per statement."""
    depths = []
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        depths.append(depth)
    return TokenMap([t.start for t in tokens], [t.end + 1 for t in tokens], depths, [t.token_type for t in tokens])


def locate(tree: exp.Expr, tokens: TokenMap) -> None:
    """Set the position of each node: its own tokens and those of its descendants, with balanced brackets."""
    nodes = list(tree.bfs())
    places: dict[int, tuple[int, int]] = {}
    for node in reversed(nodes):
        place = _hull(node, places)
        if place is not None:
            places[id(node)] = _balance(node, place, tokens)
    for node in nodes:
        found = places.get(id(node))
        if found is None and node.parent is not None:
            found = places.get(id(node.parent))
        if found is not None:
            places[id(node)] = found
            meta = node.meta
            meta["start"], meta["end"] = found
            for unread in ("line", "col"):  # each copy of a node would copy them
                meta.pop(unread, None)


def _hull(node: exp.Expr, places: dict[int, tuple[int, int]]) -> tuple[int, int] | None:
    spans = [places[id(child)] for child in node.iter_expressions() if id(child) in places]
    meta = node.meta
    if "start" in meta:
        spans.append((meta["start"], meta.get("end", meta["start"]) + 1))
    if not spans:
        return None
    return min(s for s, _ in spans), max(e for _, e in spans)


def _balance(node: exp.Expr, place: tuple[int, int], tokens: TokenMap) -> tuple[int, int]:
    """Extend a position to the brackets that belong to the node."""
    first = bisect_right(tokens.starts, place[0]) - 1
    last = bisect_left(tokens.ends, place[1])
    if first < 0 or last >= len(tokens.ends):
        return place
    depths = tokens.depths
    if isinstance(node, exp.Func) and first == last and last + 1 < len(depths) and tokens.kinds[last + 1] in OPENING:
        last += 1
    outside = depths[first - 1] if first else 0
    while depths[last] > outside and last + 1 < len(depths):
        last += 1
    while depths[last] < (depths[first - 1] if first else 0) and first:
        first -= 1
    return min(tokens.starts[first], place[0]), max(tokens.ends[last], place[1])
