"""`[api]` and `[roles.NAME]` of the project file: the callers of the API and their rights.

In: the file's parsed sections. Out: their values as written, and diagnostics for invalid ones. The compiler checks the
names in roles against the script (`belvedere.lang.endpoints.grants`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from belvedere.errors import Span
from belvedere.project.role_settings import RIGHTS_RULE, ROLE_RULES, RoleSettings
from belvedere.project.setting_rules import API_RULES, JWT_RULES, MAX_NUMBER, TOKEN_RULES
from belvedere.project.setting_sections import SectionReader, suggest


class ApiReader(SectionReader):
    """Reads the settings of the API."""

    def api(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        valid, roles = self.ruled(values, "api", API_RULES), self.table(values, "roles")
        if "jwt" in valid:
            valid["jwt"] = self.jwt(valid, roles)
        if "tokens" in valid:
            valid["tokens"] = self.fixed_tokens(valid, roles)
        self.known_role(valid, "anonymous_role", "api", roles)
        if valid.get("limit", 0) > valid.get("max_limit", MAX_NUMBER):
            self.report(
                "B9104", "`limit` is greater than `max_limit`", self.at("api", "limit"), "write a smaller `limit`"
            )
        return valid

    def jwt(self, api: Mapping[str, Any], roles: Collection[str]) -> Mapping[str, Any]:
        rules = {f"api.{k}": v for k, v in api.items()}
        valid = self.ruled(rules, "api.jwt", JWT_RULES)
        given = rules["api.jwt"].keys()
        for one, other in (("key", "jwks"), ("algorithm", "algorithms")):
            if {one, other} <= given:
                self.report(
                    "B9104", f"[api.jwt] has `{one}` and `{other}`", self.at("api.jwt", other), "remove one of them"
                )
        if not given & {"key", "jwks"}:
            hint = 'write `key = "${env:BELVEDERE_JWT_KEY}"`, or `jwks` with the address of public keys'
            self.report("B9104", "[api.jwt] has no `key`", self.at("api.jwt", None), hint)
        if "jwks" in valid and "://" not in valid["jwks"]:
            valid["jwks"] = str(self.directory / valid["jwks"])
        self.known_role(valid, "default_role", "api.jwt", roles)
        return valid

    def fixed_tokens(self, api: Mapping[str, Any], roles: Collection[str]) -> Mapping[str, Any]:
        """Return the tokens of `[api.tokens.NAME]`: each has a token, and a role or rights."""
        found = {}
        for name, table in self.tables(api, "tokens").items():
            section = f"api.tokens.{name}"
            rules = {**TOKEN_RULES, "rights": RIGHTS_RULE}
            found[name] = self.ruled({section: table}, section, rules)
            self.known_role(found[name], "role", section, roles)
            if "token" not in table:
                hint = 'write `token = "${env:...}"`'
                self.report("B9104", f"[{section}] has no `token`", self.at(section, None), hint)
            if not table.keys() & {"role", "rights"}:
                hint = 'write `role = "..."`, or `rights = ["read"]`'
                self.report("B9104", f"[{section}] has no `role`", self.at(section, None), hint)
        return found

    def known_role(self, table: Mapping[str, Any], key: str, section: str, roles: Collection[str]) -> None:
        """Report a role that the file does not define."""
        named = table.get(key)
        if named is not None and named not in roles:
            hint = suggest(named, tuple(roles)) if roles else f"write `[roles.{named}]`"
            self.report("B9107", f"there is no role `{named}`", self.at(section, key), hint)

    def role(self, name: str, table: Mapping[str, Any]) -> RoleSettings:
        """Return a role from `[roles.NAME]`."""
        section = f"roles.{name}"
        valid = self.ruled({section: table}, section, ROLE_RULES)
        hidden = {n: tuple(columns) for n, columns in valid.get("hidden", {}).items()}
        rows, views, pushes = valid.get("rows", {}), tuple(valid.get("views", ())), tuple(valid.get("pushes", ()))
        places: dict[tuple[str, ...], Span | None] = {(): self.at(section, None)}
        for key, names in (("views", views), ("pushes", pushes)):
            places |= {(key, n): self.within(section, key, f'"{n}"') for n in names}
        for n, columns in hidden.items():
            places[("hidden", n)] = self.inside(section, "hidden", n, None)
            places |= {("hidden", n, c): self.inside(section, "hidden", n, f'"{c}"') for c in columns}
        places |= {("rows", n): self.inside(section, "rows", n, None) for n in rows}
        places |= {("rows", n, "text"): self.inside(section, "rows", n, text) for n, text in rows.items()}
        known = {k: v for k, v in places.items() if v is not None}
        rights = tuple(valid["rights"]) if "rights" in valid else None
        return RoleSettings(name, rights, views, pushes, hidden, rows, known)
