//! What is told of the work of agents to whoever looks from outside (spec 07, Traces): spans that follow a request
//! down to the model and its tools, and what calls of models took. It takes part in no decision. Whether anybody
//! hears of it is for whoever starts the process to say: exporters are not known here.

mod chat;
mod content;
mod conventions;
mod spans;
pub mod trace;

use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider;

pub use chat::{Answered, Chat, Chats, ModelEndpoint, Prompt};
pub use spans::{ToolCall, Whose, create_agent, ended, invoke_agent, invoke_workflow};

/// The name by which spans and metrics are known.
const NAME: &str = "tetrarch";

static COUNTED: AtomicBool = AtomicBool::new(false);
static CONTENT: AtomicBool = AtomicBool::new(false);

/// Who makes spans and counts here, and by which version of the conventions.
#[must_use]
pub fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(NAME)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(conventions::SCHEMA_URL)
        .build()
}

/// Has everything that is counted in this process from now on read by this provider.
pub fn count_with<P>(provider: P)
where
    P: MeterProvider + Send + Sync + 'static,
{
    opentelemetry::global::set_meter_provider(provider);
    COUNTED.store(true, Ordering::Relaxed);
}

/// Whether anybody reads what is counted: what is dear to count need not be counted otherwise.
#[must_use]
pub fn is_counted() -> bool {
    COUNTED.load(Ordering::Relaxed)
}

/// Has spans of this process say from now on what was said to models and tools, and by them, without credentials
/// (spec 12, `telemetry.content`).
pub fn tell_content() {
    CONTENT.store(true, Ordering::Relaxed);
}

fn tells_content() -> bool {
    CONTENT.load(Ordering::Relaxed)
}
