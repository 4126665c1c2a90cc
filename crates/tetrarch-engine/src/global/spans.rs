//! A span for each request that the owner decides on.

use tetrarch_core::governor::QueueItem;
use tetrarch_core::owner::Input;
use tetrarch_core::request::{Request, RequestBody};
use tetrarch_telemetry::trace;

/// Gives a request's decision a span of its own and lets what it causes follow that.
pub(super) fn traced(next: QueueItem) -> QueueItem {
    let QueueItem::Decide(Input::Request(mut request), seq) = next else { return next };
    let span = span_of(&request);
    trace::follow(&span, request.trace.as_deref());
    request.trace = trace::onward(&span, request.trace.as_deref());
    QueueItem::Decide(Input::Request(request), seq)
}

fn span_of(request: &Request) -> tracing::Span {
    let what = match &request.body {
        RequestBody::Spawn(_) => "spawn.request",
        RequestBody::Op(op) => op.name(),
        RequestBody::Report(report) => report.kind(),
        RequestBody::Malformed { .. } => "malformed",
    };
    tracing::info_span!(
        "process",
        otel.name = %format!("process {what}"),
        otel.kind = "consumer",
        messaging.system = "nats",
        messaging.operation.type = "process",
        tetrarch.sender = %request.sender.from,
        tetrarch.request = %request.id,
    )
}
