"""Spans of OpenTelemetry, if it is installed and wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .errors import InvalidArgumentError, WitRpcError


class Tracer:
    """Makes a span for each call."""

    def __init__(self, kind: str) -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            error = InvalidArgumentError("tracing=True needs OpenTelemetry, and it is not installed")
            error.add_note("pip install 'witrpc[opentelemetry]'")
            raise error from None
        self._trace = trace
        self._tracer = trace.get_tracer("witrpc")
        self._kind = trace.SpanKind[kind]

    @contextlib.contextmanager
    def span(self, contract: str, method: str) -> Iterator[Any]:
        """Around a call or its execution."""
        attributes = {"rpc.system": "witrpc", "rpc.service": contract, "rpc.method": method}
        with self._tracer.start_as_current_span(
            f"{contract}/{method}", kind=self._kind, attributes=attributes, set_status_on_exception=True
        ) as span:
            try:
                yield span
            except WitRpcError as error:
                span.set_attribute("error.type", error.code)
                span.set_attribute("witrpc.outcome", error.outcome.value)
                span.set_attribute("witrpc.attempts", error.attempts)
                raise


def tracer(wanted: bool, kind: str) -> Tracer | None:
    """The tracer, if spans are wanted."""
    return Tracer(kind) if wanted else None
