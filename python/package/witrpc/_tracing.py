"""Spans of OpenTelemetry, if it is installed and wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from .errors import InvalidArgumentError, WitRpcError


class Tracer:
    """Makes a span for each call."""

    def __init__(self, kind: str) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            error = InvalidArgumentError("tracing=True needs OpenTelemetry, and it is not installed")
            error.add_note("pip install 'witrpc[opentelemetry]'")
            raise error from None
        self._trace = trace
        self._tracer = trace.get_tracer("witrpc")
        # What the extension of the wire carries is a W3C traceparent, whatever else is propagated here.
        self._propagator = TraceContextTextMapPropagator()
        self._kind = trace.SpanKind[kind]

    @contextlib.contextmanager
    def span(self, contract: str, method: str, parent: str | None = None) -> Iterator[bytes | None]:
        """Around a call or its execution, which is below the span of its caller. Gives what that is to be told."""
        attributes = {"rpc.system": "witrpc", "rpc.service": contract, "rpc.method": method}
        context = None if parent is None else self._propagator.extract({"traceparent": parent})
        with self._tracer.start_as_current_span(
            f"{contract}/{method}", context, kind=self._kind, attributes=attributes, set_status_on_exception=True
        ) as span:
            carrier: dict[str, str] = {}
            self._propagator.inject(carrier)
            told = carrier.get("traceparent")
            try:
                yield None if told is None else told.encode()
            except WitRpcError as error:
                span.set_attribute("error.type", error.code)
                span.set_attribute("witrpc.outcome", error.outcome.value)
                span.set_attribute("witrpc.attempts", error.attempts)
                raise


def tracer(wanted: bool, kind: str) -> Tracer | None:
    """The tracer, if spans are wanted."""
    return Tracer(kind) if wanted else None
