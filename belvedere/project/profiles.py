"""Profiles of a project file: settings that differ between development and production.

In: the parsed `belvedere.toml`, a profile's name. Out: the file merged with that profile's tables. Values are validated
later, and `${env:NAME}` is expanded later, so that variables of other profiles may be unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from belvedere.errors import fail

DEFAULT_CONNECTOR = "files"
PROFILE_KEY = "profile"
PROFILE_VARIABLE = "BELVEDERE_PROFILE"
VARIABLE_PREFIX = "BELVEDERE_VAR_"
"""Prefix of environment variables that set `{{name}}` in scripts."""
"""The environment variable that chooses a profile; `--profile` sets it for the time of a command."""


def chosen_tables(raw: Mapping[str, Any], profile: str | None) -> Mapping[str, Any]:
    """Return the tables of a profile as in the file; empty without a profile. Raises B9108 if the profile does not
    exist."""
    if not profile:
        return {}
    profiles = raw.get(PROFILE_KEY)
    known = [n for n, t in profiles.items() if isinstance(t, Mapping)] if isinstance(profiles, Mapping) else []
    if profile not in known:
        raise fail("B9108", f"belvedere.toml has no profile `{profile}`", hint=_hint(profile, known))
    found: Mapping[str, Any] = raw[PROFILE_KEY][profile]
    return found


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return `below` with the values of `above`: tables are merged key by key, other values are replaced.

    If `above` changes the connector of a source or sink, only its keys remain: the others belong to the other
    connector.
    """
    kept = {k: _without_changed(v, above.get(k)) if k in ("sources", "sinks") else v for k, v in below.items()}
    return _merged(kept, above)


def _without_changed(below: Any, above: Any) -> Any:
    """Return sources or sinks without those whose connector differs in `above`."""
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return below
    return {name: table for name, table in below.items() if not _changes_connector(table, above.get(name))}


def _changes_connector(below: Any, above: Any) -> bool:
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return False
    return "connector" in above and above["connector"] != below.get("connector", DEFAULT_CONNECTOR)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {k: (below.get(k), value) for k, value in above.items()}
    return {
        **below,
        **{k: _merged(o, n) if isinstance(o, Mapping) and isinstance(n, Mapping) else n for k, (o, n) in both.items()},
    }


def _hint(profile: str, known: list[str]) -> str:
    if not known:
        return f"write `[profile.{profile}]` in it, or remove --profile and {PROFILE_VARIABLE}"
    close = get_close_matches(profile, known, n=1)
    names = ", ".join(f"`{name}`" for name in known)
    there = f"the file has {names}"
    return f"did you mean `{close[0]}`? {there[0].upper()}{there[1:]}" if close else there


def given_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the script variables that the environment sets: BELVEDERE_VAR_name sets `{{name}}`."""
    return {n.removeprefix(VARIABLE_PREFIX): value for n, value in environ.items() if n.startswith(VARIABLE_PREFIX)}
