//! A model's server to which the requests of programs are passed on as they are: nothing is read of them here.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode, Url};

use crate::{BadAddress, http_settings};

/// How long the server may say nothing.
const SILENT_MAX: Duration = Duration::from_secs(600);

/// The server.
#[derive(Debug, Clone)]
pub struct Upstream {
    client: reqwest::Client,
    base_url: Url,
}

/// Why an answer did not come, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// Nobody answers.
    #[error("the model's server does not answer: {0}; check the profile's baseUrl")]
    Unreachable(reqwest::Error),
    /// It ended in the middle.
    #[error("the answer of the model's server broke off: {0}")]
    BrokenOff(reqwest::Error),
    /// It is too long to be taken at once.
    #[error("the answer of the model's server has more than {0} bytes")]
    TooLong(usize),
}

impl Upstream {
    /// The server at this address. Nothing is sent.
    ///
    /// # Errors
    /// No client can be made.
    pub fn new(base_url: Url) -> Result<Self, BadAddress> {
        let client = http_settings().read_timeout(SILENT_MAX).build();
        let client = client.map_err(|error| BadAddress::Client(error.to_string()))?;
        Ok(Self { client, base_url })
    }

    /// Where it is.
    #[must_use]
    pub fn base_url(&self) -> &Url {
        &self.base_url
    }

    /// Sends a request to this path of it, and gives the beginning of the answer.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn send(
        &self,
        method: Method,
        (path, query): (&str, Option<&str>),
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<UpstreamAnswer, UpstreamError> {
        let mut url = self.base_url.clone();
        url.set_path(path);
        url.set_query(query);
        let asked = self.client.request(method, url).headers(headers).body(body).send().await;
        asked.map(UpstreamAnswer).map_err(|cause| UpstreamError::Unreachable(cause.without_url()))
    }
}

/// An answer on its way.
#[derive(Debug)]
pub struct UpstreamAnswer(reqwest::Response);

impl UpstreamAnswer {
    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// Its headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The next part of it; none at its end.
    ///
    /// # Errors
    /// It broke off.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, UpstreamError> {
        self.0.chunk().await.map_err(|cause| UpstreamError::BrokenOff(cause.without_url()))
    }

    /// All of it, at most so many bytes.
    ///
    /// # Errors
    /// It broke off, or has more.
    pub async fn whole(&mut self, bytes_max: usize) -> Result<Bytes, UpstreamError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if all.len() + chunk.len() > bytes_max {
                return Err(UpstreamError::TooLong(bytes_max));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all.into())
    }
}
