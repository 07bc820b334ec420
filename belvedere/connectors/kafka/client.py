"""Connection to a cluster: settings of librdkafka from a source or sink, and its errors as diagnostics.

In: options of the project file; options with a dot in their name are librdkafka's own. Out: settings of a client. Opens
no connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from belvedere.errors import BelvedereError, fail

Settings = dict[str, Any]
QUIET: Settings = {"client.id": "belvedere", "log_level": 0}
"""Settings that silence librdkafka: callers report connection errors, and librdkafka would print them to stderr too."""


def client_settings(kind: str, name: str, options: Mapping[str, Any]) -> Settings:
    """Return the settings of a client of `kind` ("source" or "sink") `name`. Raises B6200."""
    servers = options.get("servers")
    if not isinstance(servers, str) or not servers:
        raise fail(
            "B6200", f'{kind} "{name}" names no servers', hint='write `servers = "localhost:9092"` in belvedere.toml'
        )
    given = {k: _plain(v) for k, v in options.items() if "." in k}
    protocol = str(given.get("security.protocol", "")).upper()
    if protocol.startswith("SASL") and not ({"sasl.mechanism", "sasl.mechanisms"} & given.keys()):
        hint = '"sasl.mechanism" = "SCRAM-SHA-512", "PLAIN" or "OAUTHBEARER"; Kerberos is not in this client'
        raise fail("B6200", f'{kind} "{name}" uses SASL and names no mechanism', hint=hint)
    return QUIET | {"bootstrap.servers": servers} | given


REFUSALS = (KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED)


class Heard:
    """Errors that a client reports outside its calls.

    If a connection is rejected, librdkafka retries, and the call itself only times out.
    """

    def __init__(self, what: str):
        self.what = what
        self._refusal: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        if error.code() in REFUSALS:
            self._refusal = error

    def refusal(self) -> BelvedereError | None:
        """Return the reason that the cluster rejects connections, once; None if no rejection was reported."""
        error, self._refusal = self._refusal, None
        if error is None:
            return None
        hint = "see `sasl.mechanism`, `sasl.username`, `sasl.password`"
        if error.code() == KafkaError._SSL:
            hint = (
                "check `security.protocol`, and `ssl.ca.location`: "
                "the file with the certificate authority of the servers"
            )
        return fail("B6207", f"the servers of {self.what} reject the connection", detail=error.str(), hint=hint)


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


@contextmanager
def explaining_failures(
    what: str, other: Callable[[KafkaError], BelvedereError | None] = lambda error: None
) -> Iterator[None]:
    """Convert Kafka errors inside the block to diagnostics: that of `other`, else B6201 (no answer) or B6200 (bad
    setting)."""
    try:
        yield
    except KafkaException as error:
        raise other(error.args[0]) or diagnostic(what, error.args[0]) from error


def diagnostic(what: str, error: KafkaError) -> BelvedereError:
    """Return a client's error as a diagnostic."""
    if error.code() == KafkaError._INVALID_ARG:
        return fail("B6200", f"{what}: {error.str()}", hint="keys with a dot are settings of librdkafka")
    return fail("B6201", f"{what}: {error.str()}", hint="check that its servers run and can be reached from here")
