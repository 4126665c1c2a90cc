//! What this process says of itself: log lines on standard error, and spans to a collector when
//! one is configured (spec 07, Traces). Without one nothing is made for spans, so it costs
//! nothing. Programs that serve tell the collector what they count, and can be asked for it.

mod clean;
mod collector;
mod scraped;

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tetrarch_telemetry::{count_with, scope, tell_content};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::Config;
use crate::output::LogWriter;
use crate::{CliError, CliResult, Code};

use clean::Clean;
pub(crate) use collector::Collector;
use scraped::MetricsPage;

/// The name under which spans are found at the collector.
const SERVICE: &str = "tetrarch";
/// Where a collector takes spans, below its address, and what is counted.
const TRACES: &str = "/v1/traces";
const METRICS: &str = "/v1/metrics";
/// Time for the collector to take one batch, and at the end all that is left.
const EXPORT_WITHIN: Duration = Duration::from_secs(3);
/// Spans of our own crates; those of the exporter's own requests would never end.
const OURS: &str = "tetrarch";

/// What was started. Lines and spans are made until [`TelemetryHandle::stop`].
#[derive(Debug)]
pub(crate) struct TelemetryHandle {
    spans: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
    page: Option<MetricsPage>,
    /// Outlives what sends to it.
    collector: Option<Collector>,
}

/// Which programs tell what they count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// One that answers and ends: nobody is told.
    Nobody,
    /// One that serves.
    Alone,
    /// One that serves beside the owner, with the same configuration: it is asked at the port after the owner's.
    BesideOwner,
}

impl TelemetryHandle {
    /// Starts logging and, when a collector is configured, spans. `default` is what is logged
    /// when nobody says: the command's own choice.
    ///
    /// # Errors
    /// The filter is wrong, the exporter cannot be made, or the process logs already.
    pub(crate) fn start(config: &Config, default: &str, counting: Counting) -> CliResult<Self> {
        let filter = config.telemetry.log.as_deref().unwrap_or(default);
        let filter = EnvFilter::try_new(filter)
            .map_err(|error| CliError::new(Code::Usage, format!("--log {filter}: {error}")))?;
        let collector = Collector::of(&config.telemetry)?;
        let spans = collector.as_ref().map(provider).transpose()?;
        let exported = spans.as_ref().map(|spans| exported(spans.tracer_with_scope(scope())));
        let coloured = colours(stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
        let lines = tracing_subscriber::fmt::layer()
            .compact()
            .with_writer(move || LogWriter { coloured })
            .with_ansi(coloured)
            .with_filter(filter);
        tracing_subscriber::registry()
            .with(exported)
            .with(lines)
            .try_init()
            .map_err(|error| CliError::new(Code::Failed, format!("cannot log: {error}")))?;
        if config.telemetry.content {
            tell_content();
        }
        let page = match (counting, config.telemetry.prometheus_listen.as_deref()) {
            (Counting::Nobody, _) | (_, None) => None,
            (Counting::Alone, Some(listen)) => Some(MetricsPage::at(listen)),
            (Counting::BesideOwner, Some(listen)) => MetricsPage::after(listen),
        };
        let counts = collector.as_ref().filter(|_| counting != Counting::Nobody);
        let meters = counted(counts, page.as_ref())?;
        Ok(Self { spans, meters, page, collector })
    }

    /// Serves what is counted, when an address for it is configured. Inside of a runtime.
    ///
    /// # Errors
    /// Nobody can listen at the address.
    pub(crate) fn serve_metrics(&mut self) -> CliResult {
        self.page.take().map_or(Ok(()), MetricsPage::serve)
    }

    /// Sends what is left; waits at most 3 s each for a collector that does not answer.
    pub(crate) fn stop(self) {
        if let Some(spans) = self.spans
            && let Err(error) = spans.shutdown_with_timeout(EXPORT_WITHIN)
        {
            tracing::warn!(%error, "the collector did not accept the last spans");
        }
        if let Some(meters) = self.meters
            && let Err(error) = meters.shutdown_with_timeout(EXPORT_WITHIN)
        {
            tracing::warn!(%error, "the collector did not accept the last metrics");
        }
        drop(self.collector);
    }
}

/// Has what is counted from now on read by whoever is to be told.
fn counted(
    collector: Option<&Collector>,
    page: Option<&MetricsPage>,
) -> CliResult<Option<SdkMeterProvider>> {
    if collector.is_none() && page.is_none() {
        return Ok(None);
    }
    let mut meters = SdkMeterProvider::builder().with_resource(resource());
    if let Some(page) = page {
        meters = meters.with_reader(page.reader()?);
    }
    if let Some(collector) = collector {
        meters = meters.with_periodic_exporter(collector.metrics()?);
    }
    let meters = meters.build();
    count_with(meters.clone());
    Ok(Some(meters))
}

/// Colours are for terminals whose owner did not refuse them (<https://no-color.org>).
fn colours(terminal: bool, no_color: Option<&std::ffi::OsStr>) -> bool {
    terminal && no_color.is_none_or(std::ffi::OsStr::is_empty)
}

fn provider(collector: &Collector) -> CliResult<SdkTracerProvider> {
    let spans = SdkTracerProvider::builder().with_resource(resource());
    Ok(spans.with_batch_exporter(Clean::of(collector.spans()?)).build())
}

/// What says of whom spans and metrics are.
fn resource() -> Resource {
    Resource::builder()
        .with_service_name(SERVICE)
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build()
}

fn exported<S>(tracer: SdkTracer) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let ours = Targets::new().with_target(OURS, LevelFilter::INFO);
    tracing_opentelemetry::layer()
        .with_tracer(tracer)
        .with_threads(false)
        .with_location(false)
        .with_tracked_inactivity(false)
        .with_filter(ours)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use super::*;
    use crate::config::TelemetryConfig;

    /// Takes one request and gives its first line and its body.
    fn collector() -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
        let (tell, took) = mpsc::channel();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let mut stream = BufReader::new(listener.accept().unwrap().0);
            let (mut first, mut length) = (String::new(), 0);
            stream.read_line(&mut first).unwrap();
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                let line = line.trim().to_ascii_lowercase();
                if line.is_empty() {
                    break;
                }
                if let Some(text) = line.strip_prefix("content-length:") {
                    length = text.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            tell.send((first.trim().to_owned(), body)).unwrap();
        });
        (url, took)
    }

    fn at(url: &str) -> Collector {
        let config = TelemetryConfig {
            otlp_endpoint: Some(url.to_owned()),
            otlp_ca: None,
            otlp_protocol: String::new(),
            prometheus_listen: None,
            log: None,
            content: false,
        };
        Collector::of(&config).unwrap().unwrap()
    }

    fn holds(body: &[u8], text: &str) -> bool {
        body.windows(text.len()).any(|window| window == text.as_bytes())
    }

    #[test]
    fn only_own_spans_reach_the_collector() {
        let (url, took) = collector();
        let collector = at(&url);
        let spans = provider(&collector).unwrap();
        let subscriber = tracing_subscriber::registry().with(exported(spans.tracer(SERVICE)));
        tracing::subscriber::with_default(subscriber, || {
            tetrarch_core::redaction::know(b"told-to-a-span-01").unwrap();
            tracing::info_span!("admit_the_agent", epic = "E-42", why = "told-to-a-span-01")
                .in_scope(|| tracing::warn!(cause = "told-to-a-span-01", "told-to-a-span-01"));
            tracing::info_span!(target: "hyper", "send_a_request").in_scope(|| ());
        });
        TelemetryHandle { spans: Some(spans), meters: None, page: None, collector: None }.stop();
        let (first, body) = took.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(first, "POST /v1/traces HTTP/1.1");
        for text in ["service.name", "tetrarch", "admit_the_agent", "E-42"] {
            assert!(holds(&body, text), "{text}");
        }
        assert!(!holds(&body, "send_a_request") && !holds(&body, "told-to-a-span-01"));
        assert!(holds(&body, "[redacted:secret]"));
    }

    #[test]
    fn collector_address_may_omit_its_path() {
        for text in ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"] {
            assert_eq!(at(text).at(TRACES), "http://c:4318/v1/traces");
            assert_eq!(at(text).at(METRICS), "http://c:4318/v1/metrics");
        }
    }

    #[test]
    fn colours_are_used_only_on_capable_terminals() {
        assert!(colours(true, None));
        assert!(colours(true, Some(OsStr::new(""))));
        assert!(!colours(true, Some(OsStr::new("1"))));
        assert!(!colours(false, None));
    }
}
