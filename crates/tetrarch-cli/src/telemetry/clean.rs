//! Spans without credentials: whoever runs the collector reads them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_otlp::SpanExporter as Otlp;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tetrarch_core::redaction;

/// Exports spans without credentials in their texts, and says once when they are not taken.
#[derive(Debug)]
pub(super) struct Clean {
    exporter: Otlp,
    refused: AtomicBool,
}

impl Clean {
    pub(super) fn of(exporter: Otlp) -> Self {
        Self { exporter, refused: AtomicBool::new(false) }
    }
}

impl SpanExporter for Clean {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(clean);
        let sent = self.exporter.export(batch).await;
        let was = self.refused.swap(sent.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&sent, was) {
            tracing::warn!(%error, "the collector does not accept spans; `tetrarch doctor` says why");
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

fn clean(span: &mut SpanData) {
    words(&mut span.name);
    values(&mut span.attributes);
    for event in &mut span.events.events {
        words(&mut event.name);
        values(&mut event.attributes);
    }
    if let Status::Error { description } = &mut span.status {
        words(description);
    }
}

fn values(attributes: &mut [KeyValue]) {
    for KeyValue { value, .. } in attributes {
        if let Value::String(text) = value {
            *text = redaction::text(text.as_str()).into_owned().into();
        } else if let Value::Array(Array::String(texts)) = value {
            for text in texts {
                *text = redaction::text(text.as_str()).into_owned().into();
            }
        }
    }
}

fn words(text: &mut Cow<'static, str>) {
    if let Cow::Owned(clean) = redaction::text(text) {
        *text = Cow::Owned(clean);
    }
}
