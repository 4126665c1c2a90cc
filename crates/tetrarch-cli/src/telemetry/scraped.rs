//! What this process counts, for whoever comes to read it: `/metrics` in Prometheus' text format, and `/health`, which
//! answers while the process does (spec 12, `telemetry.prometheus_listen`).

use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use opentelemetry_prometheus::PrometheusExporter;
use prometheus::{Registry, TextEncoder};

use crate::serving;
use crate::{CliError, CliResult, Code};

/// The text format's media type.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is counted, and where it can be read.
#[derive(Debug)]
pub(super) struct MetricsPage {
    listen: String,
    /// Whether the process does without it when nobody can listen there.
    dispensable: bool,
    registry: Registry,
}

impl MetricsPage {
    /// At this address, without which the process does not start.
    pub(super) fn at(listen: &str) -> Self {
        Self { listen: listen.to_owned(), dispensable: false, registry: Registry::new() }
    }

    /// At the port after this one, which nobody chose; none when there is none.
    pub(super) fn after(listen: &str) -> Option<Self> {
        let (address, port) = listen.rsplit_once(':')?;
        // Any port is any port.
        let port = match port.parse::<u16>().ok()? {
            0 => 0,
            port => port.checked_add(1)?,
        };
        Some(Self { dispensable: true, ..Self::at(&format!("{address}:{port}")) })
    }

    /// What reads for it.
    ///
    /// # Errors
    /// The registry does not take it.
    pub(super) fn reader(&self) -> CliResult<PrometheusExporter> {
        opentelemetry_prometheus::exporter()
            .with_registry(self.registry.clone())
            .build()
            .map_err(|error| self.refused(&error))
    }

    /// Has it served by the runtime this is called in.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub(super) fn serve(self) -> CliResult {
        let listener = match std::net::TcpListener::bind(&self.listen) {
            Ok(listener) => listener,
            Err(error) if self.dispensable => {
                tracing::warn!(at = self.listen, %error, "metrics are not served");
                return Ok(());
            }
            Err(error) => return Err(self.refused(&error)),
        };
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let at = listener.local_addr()?;
        let registry = self.registry;
        let answer = move |request| std::future::ready(answer(&registry, &request));
        // It ends with the process.
        drop(tokio::spawn(serving::serve(listener, answer)));
        tracing::info!(%at, "metrics are served");
        Ok(())
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> CliError {
        let what = format!("telemetry.prometheus_listen {}: {error}", self.listen);
        CliError::new(Code::Usage, what).hint("name an address of this machine and a free port")
    }
}

fn answer(registry: &Registry, request: &Request) -> Response {
    match request.uri().path() {
        "/metrics" => metrics(registry),
        "/health" => "live\n".into_response(),
        _ => (StatusCode::NOT_FOUND, "see /metrics and /health\n").into_response(),
    }
}

fn metrics(registry: &Registry) -> Response {
    match TextEncoder::new().encode_to_string(&registry.gather()) {
        Ok(text) => ([(header::CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_beside_an_owner_serves_metrics_on_the_next_port() {
        let after = |listen| MetricsPage::after(listen).map(|page| page.listen);
        assert_eq!(after("127.0.0.1:9464").as_deref(), Some("127.0.0.1:9465"));
        assert_eq!(after("[::1]:9464").as_deref(), Some("[::1]:9465"));
        assert_eq!(after("127.0.0.1:0").as_deref(), Some("127.0.0.1:0"));
        assert_eq!(after("127.0.0.1:65535"), None);
    }
}
