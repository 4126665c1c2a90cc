//! A call of a model: its span, and what is counted of it. Each request that is sent is one call, also one that is
//! sent again.

use std::time::Instant;

use opentelemetry::metrics::Histogram;
use opentelemetry::{Array, KeyValue, StringValue, Value, global};
use tetrarch_core::converse::cost::Tokens;
use tetrarch_core::converse::{Message, Reply};
use tetrarch_core::redaction;
use tracing::{Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::conventions::{
    CACHE_READ_TOKENS, CANCELLED, CHAT, ERROR_TYPE, FINISH_REASONS, INPUT, INPUT_MESSAGES,
    INPUT_TOKENS, OPERATION, OPERATION_DURATION, OPERATION_DURATION_BOUNDS, OUTPUT, OUTPUT_JSON,
    OUTPUT_MESSAGES, OUTPUT_TOKENS, OUTPUT_TYPE, PROVIDER, REQUEST_MAX_TOKENS, REQUEST_MODEL,
    RESPONSE_ID, RESPONSE_MODEL, SERVER_ADDRESS, SERVER_PORT, SYSTEM_INSTRUCTIONS, TOKEN_TYPE,
    TOKEN_USAGE, TOKEN_USAGE_BOUNDS, provider,
};
use crate::spans::{Whose, failed, whole};
use crate::{content, scope, tells_content};

/// Which model is called, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEndpoint {
    /// The provider, by the name that `genai` gives its adapter.
    pub provider: String,
    /// The model.
    pub model: String,
    /// The server's name and port, unless it is the provider's own.
    pub server: Option<(String, u16)>,
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Prompt<'a> {
    /// The system prompt.
    pub system: &'a str,
    /// What was said so far.
    pub messages: &'a [Message],
    /// Tokens it may write.
    pub max_output_tokens: u32,
    /// Whether its answer is to be JSON.
    pub json_only: bool,
}

/// What is told of an answer besides what it says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answered {
    /// The model that gave it, as the provider says.
    pub model: Option<String>,
    /// What the provider calls it.
    pub id: Option<String>,
    /// Why it ended, in the provider's word.
    pub finish: Option<String>,
    /// What it took, if the provider counts that.
    pub tokens: Option<Tokens>,
}

/// Calls of one model.
#[derive(Debug, Clone)]
pub struct Chats {
    served: ModelEndpoint,
    whose: Option<Whose>,
    duration: Histogram<f64>,
    tokens: Histogram<u64>,
}

impl Chats {
    /// Of this model.
    #[must_use]
    pub fn with(served: ModelEndpoint) -> Self {
        let meter = global::meter_with_scope(scope());
        let duration = meter
            .f64_histogram(OPERATION_DURATION)
            .with_unit("s")
            .with_boundaries(OPERATION_DURATION_BOUNDS.to_vec())
            .with_description("GenAI operation duration.")
            .build();
        let tokens = meter
            .u64_histogram(TOKEN_USAGE)
            .with_unit("{token}")
            .with_boundaries(TOKEN_USAGE_BOUNDS.to_vec())
            .with_description("Number of input and output tokens used.")
            .build();
        Self { served, whose: None, duration, tokens }
    }

    /// The same on somebody's behalf.
    #[must_use]
    pub fn on_behalf_of(self, whose: Whose) -> Self {
        Self { whose: Some(whose), ..self }
    }

    /// A call that begins now.
    #[must_use]
    pub fn begin(&self, prompt: &Prompt<'_>) -> Chat {
        let ModelEndpoint { model, server, .. } = &self.served;
        let span = info_span!("chat", otel.name = %format!("{CHAT} {model}"), otel.kind = "client");
        if let Some(whose) = &self.whose {
            whose.mark(&span);
        }
        for KeyValue { key, value, .. } in self.labels() {
            span.set_attribute(key, value);
        }
        span.set_attribute(REQUEST_MAX_TOKENS, i64::from(prompt.max_output_tokens));
        if prompt.json_only {
            span.set_attribute(OUTPUT_TYPE, OUTPUT_JSON);
        }
        if let Some((address, port)) = server {
            span.set_attribute(SERVER_ADDRESS, address.clone());
            span.set_attribute(SERVER_PORT, i64::from(*port));
        }
        if tells_content() {
            span.set_attribute(SYSTEM_INSTRUCTIONS, content::instructions(prompt.system));
            span.set_attribute(INPUT_MESSAGES, content::messages(prompt.messages));
        }
        Chat { span, of: self.clone(), began: Instant::now(), ended: false }
    }

    /// What tells these calls from others.
    fn labels(&self) -> Vec<KeyValue> {
        let ModelEndpoint { provider: name, model, .. } = &self.served;
        vec![
            KeyValue::new(OPERATION, CHAT),
            KeyValue::new(PROVIDER, provider(name).to_owned()),
            KeyValue::new(REQUEST_MODEL, model.clone()),
        ]
    }
}

/// A call of a model. One that is dropped before it ended was given up.
#[derive(Debug)]
pub struct Chat {
    span: Span,
    of: Chats,
    began: Instant,
    ended: bool,
}

impl Chat {
    /// The model answered.
    pub fn answered(mut self, how: &Answered, reply: &Reply) {
        let text = |text: &String| Value::from(text.clone());
        let reasons =
            |reason: &String| Value::Array(Array::String(vec![StringValue::from(reason.clone())]));
        let told = [
            (RESPONSE_MODEL, how.model.as_ref().map(text)),
            (RESPONSE_ID, how.id.as_ref().map(text)),
            (FINISH_REASONS, how.finish.as_ref().map(reasons)),
        ];
        for (name, value) in told {
            if let Some(value) = value {
                self.span.set_attribute(name, value);
            }
        }
        let mut labels = self.of.labels();
        labels.extend(how.model.clone().map(|model| KeyValue::new(RESPONSE_MODEL, model)));
        if let Some(Tokens { input, cached, output }) = how.tokens {
            self.span.set_attribute(INPUT_TOKENS, whole(input));
            self.span.set_attribute(OUTPUT_TOKENS, whole(output));
            if cached > 0 {
                self.span.set_attribute(CACHE_READ_TOKENS, whole(cached));
            }
            for (kind, number) in [(INPUT, input), (OUTPUT, output)] {
                let mut labels = labels.clone();
                labels.push(KeyValue::new(TOKEN_TYPE, kind));
                self.of.tokens.record(number, &labels);
            }
        }
        if tells_content() {
            let finish = how.finish.as_deref().unwrap_or_default();
            self.span.set_attribute(OUTPUT_MESSAGES, content::reply(reply, finish));
        }
        self.took(&labels);
    }

    /// It did not: of which kind the trouble is, and in words.
    pub fn failed(mut self, kind: &str, words: &str) {
        self.fails(kind, &redaction::text(words));
    }

    fn fails(&mut self, kind: &str, words: &str) {
        failed(&self.span, kind, words);
        let mut labels = self.of.labels();
        labels.push(KeyValue::new(ERROR_TYPE, kind.to_owned()));
        self.took(&labels);
    }

    fn took(&mut self, labels: &[KeyValue]) {
        self.ended = true;
        self.of.duration.record(self.began.elapsed().as_secs_f64(), labels);
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        if !self.ended {
            self.fails(CANCELLED, CANCELLED);
        }
    }
}
