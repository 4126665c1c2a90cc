//! Trace continuity: spans follow the `traceparent` that a message carries, and what a span
//! causes carries the span's own (spec 07, Traces). Without an exporter nothing is made and
//! the incoming trace is passed on as it came.

use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The variable by which programs are told of a trace.
pub const VARIABLE: &str = "TRACEPARENT";

/// Makes a span a child of the trace that a message carries.
pub fn follow(span: &Span, traceparent: Option<&str>) {
    if let Some(parent) = traceparent.and_then(parse) {
        let context = opentelemetry::Context::new().with_remote_span_context(parent);
        // An error means that nobody exports spans: there is nothing to follow then.
        let _nobody_exports = span.set_parent(context);
    }
}

/// The `traceparent` for what a span causes: its own when it is exported, else what came in.
pub fn onward(span: &Span, incoming: Option<&str>) -> Option<String> {
    let context = span.context();
    let own = context.span().span_context().clone();
    if own.is_valid() {
        return Some(format!(
            "00-{}-{}-{:02x}",
            own.trace_id(),
            own.span_id(),
            own.trace_flags().to_u8()
        ));
    }
    incoming.map(str::to_owned)
}

/// The trace that whoever started this process told it of; none when there is none, or it is none.
#[must_use]
pub fn of_environment() -> Option<String> {
    std::env::var(VARIABLE).ok().filter(|text| parse(text).is_some())
}

fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-');
    let (_version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        TraceFlags::new(u8::from_str_radix(flags, 16).ok()?),
        true,
        TraceState::default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_trace_context_is_ignored() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(parse(good).unwrap().trace_flags(), TraceFlags::SAMPLED);
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-xx",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn incoming_trace_is_forwarded_without_an_exporter() {
        let span = tracing::info_span!("a_span");
        follow(&span, Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"));
        assert_eq!(onward(&span, Some("as it came")), Some("as it came".to_owned()));
        assert_eq!(onward(&span, None), None);
    }
}
