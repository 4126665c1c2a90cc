//! What this process counts, for whoever comes to read it: `/metrics` in Prometheus' text format, and `/health`, which
//! answers while the process does (spec 12, `telemetry.prometheus_listen`).

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use prometheus::{Registry, TextEncoder};

use super::resource;
use crate::exit::{CliError, Code};

/// The text format's media type.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Has everything that is counted from now on served at this address, by the runtime it is called in.
///
/// # Errors
/// Nobody can listen there.
pub(super) fn serve(listen: &str) -> Result<(), CliError> {
    let refused = |error: &dyn std::fmt::Display| {
        let what = format!("telemetry.prometheus_listen {listen}: {error}");
        CliError::new(Code::Usage, what).hint("name an address of this machine and a free port")
    };
    let registry = Registry::new();
    let reader = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .build()
        .map_err(|error| refused(&error))?;
    let meters = SdkMeterProvider::builder().with_resource(resource()).with_reader(reader).build();
    let listener = std::net::TcpListener::bind(listen).map_err(|error| refused(&error))?;
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let at = listener.local_addr()?;
    opentelemetry::global::set_meter_provider(meters);
    let pages = Router::new()
        .route("/metrics", get(metrics))
        .route("/health", get(|| async { "live\n" }))
        .with_state(registry);
    // It ends with the process.
    drop(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, pages).await {
            tracing::error!(%error, "metrics are not served any more");
        }
    }));
    tracing::info!(%at, "metrics are served");
    Ok(())
}

async fn metrics(State(registry): State<Registry>) -> Response {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}
