"""Steps of an epoch and their times, as spans for OpenTelemetry.

In: the start and end of each step, from the code that does it. Out: after each epoch one trace: the span `epoch` with
the spans of its steps (read, ingest, one per stage, write, sync, commit). `TRACES.start` imports OpenTelemetry; without
it a step costs one test of a flag. There is a single `TRACES`, because a process runs one epoch at a time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from belvedere.errors import BelvedereError, fail

ADDRESSES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""OpenTelemetry's environment variables with the address of the collector."""
PREFIX = "belvedere."
FLUSH = 5_000
"""Maximum milliseconds to send the remaining traces when the process ends."""
MISSING = "B9142"


@dataclass
class TracedStep:
    """A part of an epoch, in nanoseconds since 1970."""

    name: str
    began: int
    ended: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)


class Traces:
    """The steps of the current epoch, and the target of traces."""

    def __init__(self) -> None:
        self._tracer: Any = None
        self._provider: Any = None
        self._began = 0
        self._steps: list[TracedStep] = []

    @property
    def is_on(self) -> bool:
        """Return whether traces are sent."""
        return self._tracer is not None

    def start(self, provider: Any = None) -> None:
        """Send traces to a TracerProvider; None: to the collector that the environment names.

        Raises B9142 if OpenTelemetry is not installed.
        """
        if provider is None:
            provider = self._provider = _collector()
        self._tracer = provider.get_tracer("belvedere")

    def stop(self) -> None:
        """Send the remaining traces within some seconds, and stop tracing."""
        if self._provider is not None:
            self._provider.force_flush(FLUSH)
            self._provider.shutdown()
        self._tracer = self._provider = None
        self._began, self._steps = 0, []

    def begin(self) -> None:
        """Start an epoch and discard steps recorded before it."""
        if self._tracer is not None:
            self._began, self._steps = time.time_ns(), []

    @contextmanager
    def step(self, name: str, **attributes: Any) -> Iterator[None]:
        """Run the block as a step of the epoch."""
        if self._tracer is None:
            yield
            return
        step = TracedStep(name, time.time_ns(), attributes=attributes)
        self._steps.append(step)
        try:
            yield
        finally:
            step.ended = time.time_ns()

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Record a failure inside the block as an epoch that failed and was rolled back."""
        try:
            yield
        except BaseException as error:
            if self._tracer is not None:
                for step in self._steps:
                    step.attributes.pop("output", None)
                self._send({}, error)
            raise

    def end(self, attributes: Mapping[str, Any], rows: Mapping[str, int]) -> None:
        """Record the commit of the epoch; `rows` is the number of changed rows per relation, by the `output` of its
        step."""
        if self._tracer is None:
            return
        for step in self._steps:
            output = step.attributes.pop("output", None)
            if output in rows:
                step.attributes["rows"] = rows[output]
        self._send(attributes)

    def _send(self, attributes: Mapping[str, Any], error: BaseException | None = None) -> None:
        from opentelemetry.trace import Status, StatusCode, set_span_in_context  # part of an extra

        began = self._began or min((s.began for s in self._steps), default=time.time_ns())
        epoch = self._tracer.start_span("epoch", start_time=began, attributes=_prefixed(attributes))
        context = set_span_in_context(epoch)
        for step in self._steps:
            span = self._tracer.start_span(
                step.name, context, start_time=step.began, attributes=_prefixed(step.attributes)
            )
            span.end(step.ended or time.time_ns())
        if error is not None:
            epoch.set_status(Status(StatusCode.ERROR, str(error)))
            if isinstance(error, BelvedereError):
                epoch.set_attribute(PREFIX + "code", error.diagnostics[0].code)
        epoch.end()
        self._began, self._steps = 0, []


def _prefixed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {PREFIX + name: value for name, value in attributes.items()}


def trace_epochs(provider: Any = None) -> None:
    """Send a trace of each epoch of this process to a TracerProvider; None: to the collector that the environment
    names."""
    TRACES.start(provider)


@contextmanager
def traced_by_environment() -> Iterator[None]:
    """Run the block with tracing, if the environment names a collector."""
    if any(os.environ.get(name) for name in ADDRESSES) and os.environ.get("OTEL_SDK_DISABLED", "").lower() != "true":
        TRACES.start()
    try:
        yield
    finally:
        TRACES.stop()


def _collector() -> Any:
    """Return a provider that sends spans to the collector that the environment names."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # part of an extra
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        hint = "pip install 'belvedere[otel]'"
        raise fail(
            MISSING, f"tracing is configured, but OpenTelemetry is not installed: {error.name}", hint=hint
        ) from None
    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "belvedere"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


TRACES = Traces()
"""The traces of this process."""
