//! The collector that is told: by which protocol, and whose certificate is trusted (spec 07, Traces). What it is told is
//! not decided here.

use std::path::Path;

use futures::executor::block_on;
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig, WithTonicConfig,
};
use opentelemetry_sdk::trace::SpanExporter as _;
use tokio::runtime::Runtime;

use super::{EXPORT_WITHIN, METRICS, TRACES};
use crate::config::TelemetryConfig;
use crate::{CliError, CliResult};

/// What [`TelemetryConfig::otlp_protocol`] says for gRPC.
const GRPC: &str = "grpc";

/// A collector, as it is configured.
#[derive(Debug)]
pub(crate) struct Collector {
    url: String,
    /// The certificates that are trusted, as PEM, in place of those of this machine.
    ca: Option<Vec<u8>>,
    /// On which gRPC runs. That of the command stands still when the last spans are sent.
    grpc: Option<Runtime>,
}

impl Collector {
    /// The collector, when one is configured.
    ///
    /// # Errors
    /// The file of certificates cannot be read, or has none.
    pub(crate) fn of(config: &TelemetryConfig) -> CliResult<Option<Self>> {
        let Some(url) = &config.otlp_endpoint else { return Ok(None) };
        tetrarch_engine::provide_tls();
        let ca = config.otlp_ca.as_deref().map(certificates).transpose()?;
        let mut grpc = tokio::runtime::Builder::new_multi_thread();
        let grpc = grpc.worker_threads(1).enable_all();
        let grpc = (config.otlp_protocol == GRPC).then(|| grpc.build()).transpose()?;
        let url = url.trim_end_matches('/');
        Ok(Some(Self { url: url.strip_suffix(TRACES).unwrap_or(url).to_owned(), ca, grpc }))
    }

    /// What sends spans.
    ///
    /// # Errors
    /// The address or the certificates cannot be used.
    pub(crate) fn spans(&self) -> CliResult<SpanExporter> {
        let exporter = SpanExporter::builder();
        let built = if let Some(runtime) = &self.grpc {
            let _inside = runtime.enter();
            let exporter = exporter.with_tonic().with_timeout(EXPORT_WITHIN);
            exporter.with_endpoint(&self.url).with_tls_config(self.trusted()).build()
        } else {
            let exporter = exporter.with_http().with_http_client(self.client()?);
            let exporter = exporter.with_protocol(Protocol::HttpBinary).with_timeout(EXPORT_WITHIN);
            exporter.with_endpoint(self.at(TRACES)).build()
        };
        built.map_err(|error| self.refused(&error))
    }

    /// What sends metrics.
    ///
    /// # Errors
    /// As for spans.
    pub(super) fn metrics(&self) -> CliResult<MetricExporter> {
        let exporter = MetricExporter::builder();
        let built = if let Some(runtime) = &self.grpc {
            let _inside = runtime.enter();
            let exporter = exporter.with_tonic().with_timeout(EXPORT_WITHIN);
            exporter.with_endpoint(&self.url).with_tls_config(self.trusted()).build()
        } else {
            let exporter = exporter.with_http().with_http_client(self.client()?);
            let exporter = exporter.with_protocol(Protocol::HttpBinary).with_timeout(EXPORT_WITHIN);
            exporter.with_endpoint(self.at(METRICS)).build()
        };
        built.map_err(|error| self.refused(&error))
    }

    /// Sends no spans, to see whether they would be taken. Outside of a runtime's own threads.
    ///
    /// # Errors
    /// What keeps the collector from taking them.
    pub(crate) fn try_out(&self) -> Result<(), String> {
        let exporter = self.spans().map_err(|error| error.what)?;
        let Err(error) = block_on(exporter.export(Vec::new())) else { return Ok(()) };
        let mut why = error.to_string();
        if self.grpc.is_none() {
            // The exporter keeps to itself why nobody could be asked.
            let asked = self.client().map_err(|error| error.what)?.get(&self.url).send();
            let mut cause = asked.as_ref().err().map(|error| error as &dyn std::error::Error);
            while let Some(error) = cause {
                why = format!("{why}: {error}");
                cause = error.source();
            }
        }
        Err(why)
    }

    /// Its address for people.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Where it takes something; the address in the configuration may name the place for spans or not.
    pub(super) fn at(&self, place: &str) -> String {
        format!("{}{place}", self.url)
    }

    fn client(&self) -> CliResult<reqwest::blocking::Client> {
        let mut client = reqwest::blocking::Client::builder().timeout(EXPORT_WITHIN);
        if let Some(pem) = &self.ca {
            let trusted = reqwest::Certificate::from_pem_bundle(pem);
            client = client.tls_certs_only(trusted.map_err(|error| self.refused(&error))?);
        }
        client.build().map_err(|error| self.refused(&error))
    }

    fn trusted(&self) -> ClientTlsConfig {
        let tls = ClientTlsConfig::new();
        match &self.ca {
            Some(pem) => tls.ca_certificate(Certificate::from_pem(pem)),
            None => tls.with_enabled_roots(),
        }
    }

    fn refused(&self, error: &dyn std::fmt::Display) -> CliError {
        CliError::usage(format!("telemetry.otlp_endpoint {}: {error}", self.url))
    }
}

/// The certificates of a file.
fn certificates(path: &Path) -> CliResult<Vec<u8>> {
    let refused = |why: &dyn std::fmt::Display| {
        let what = format!("telemetry.otlp_ca {}: {why}", path.display());
        CliError::usage(what)
            .hint("name the PEM file of the authority that signed the collector's certificate")
    };
    let pem = std::fs::read(path).map_err(|error| refused(&error))?;
    match reqwest::Certificate::from_pem_bundle(&pem) {
        Ok(found) if !found.is_empty() => Ok(pem),
        Ok(_) => Err(refused(&"it has no certificate")),
        Err(error) => Err(refused(&error)),
    }
}
