//! Bytes out, bytes in: one HTTP exchange, bounded in time and in size. Knows no JSON and no provider.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};
use reqwest::{Client, Response, StatusCode, redirect};
use tokio::time::{Instant, timeout_at};
use tracing::Instrument as _;
use url::Url;

use crate::client_span;
use crate::connect_error::ConnectError;

/// The largest reply that is read. The longest ones that models can write are a few hundred KiB; a provider
/// that sends without end must not fill our memory.
const REPLY_LIMIT: usize = 16 << 20;

/// The most that is read of an answer that is only going to be quoted, and the longest error.
pub(crate) const ERROR_LIMIT: usize = 64 << 10;

/// How long finding, reaching and greeting a provider may take. An address that does not answer at all is
/// not worth the whole time of a call: a second try may get another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Shorter than the 60 s after which common load balancers drop an idle connection, so that it is us who
/// drop it and no request is lost on it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// The header OpenAI documents for ids of the caller's making. Anthropic ignores it. `X-Request-Id` stays
/// the providers': both answer with one of their own.
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-client-request-id");

/// A pool of connections to one endpoint.
#[derive(Debug)]
pub(crate) struct Transport {
    client: Client,
    endpoint: Url,
    headers: HeaderMap,
}

/// What came back, before anybody has judged it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Why nothing whole came back.
#[derive(Debug)]
pub(crate) enum Broken {
    /// Time was up.
    Late,
    /// No connection, or one that broke.
    Cut(String),
    /// The provider sends more than a reply can be.
    Endless,
}

impl Transport {
    /// Connects to nothing yet.
    pub(crate) fn new(endpoint: Url, mut headers: HeaderMap) -> Result<Self, ConnectError> {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Self { client: build_client(&endpoint)?, endpoint, headers })
    }

    /// Posts `body` and reads the whole answer, whatever its status.
    pub(crate) async fn post(
        &self,
        request_id: &str,
        body: Vec<u8>,
        until: Instant,
    ) -> Result<Answer, Broken> {
        if until <= Instant::now() {
            return Err(Broken::Late);
        }
        let span = client_span::begin(&self.endpoint);
        let answer = self.exchange(request_id, body, until).instrument(span.clone()).await;
        client_span::end(&span, &answer);
        answer
    }

    async fn exchange(&self, request_id: &str, body: Vec<u8>, until: Instant) -> Result<Answer, Broken> {
        let mut headers = self.headers.clone();
        if let Ok(id) = HeaderValue::from_str(request_id) {
            headers.insert(CLIENT_REQUEST_ID, id);
        }
        client_span::pass_context_on(&mut headers);
        let sending = self.client.post(self.endpoint.clone()).headers(headers).body(body).send();
        let mut response = match timeout_at(until, sending).await {
            Ok(sent) => sent.map_err(|error| self.cut(error))?,
            Err(_) => return Err(Broken::Late),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let mut body = Vec::new();
        let limit = if status.is_success() { REPLY_LIMIT } else { ERROR_LIMIT };
        let reading = self.read(&mut response, &mut body, limit);
        let read = timeout_at(until, reading).await.unwrap_or(Err(Broken::Late));
        match read {
            // The status says what happened; its text is only there to be quoted, and half of it will do.
            Err(_) if !status.is_success() => {}
            whole => whole?,
        }
        Ok(Answer { status, headers, body })
    }

    /// Appends the body of a response to `body`, as far as it comes.
    async fn read(&self, response: &mut Response, body: &mut Vec<u8>, limit: usize) -> Result<(), Broken> {
        if response.content_length().is_some_and(|length| length > limit as u64) {
            return Err(Broken::Endless);
        }
        while let Some(chunk) = response.chunk().await.map_err(|error| self.cut(error))? {
            if body.len() + chunk.len() > limit {
                return Err(Broken::Endless);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(())
    }

    fn cut(&self, error: reqwest::Error) -> Broken {
        if error.is_connect() && error.is_timeout() {
            let (host, limit) = (self.endpoint.authority(), CONNECT_TIMEOUT.as_millis());
            return Broken::Cut(format!("{host}: no connection within {limit} ms"));
        }
        Broken::Cut(format!("{}: {}", self.endpoint.authority(), describe(&error.without_url())))
    }
}

impl Answer {
    /// True when the end of the body was the end of the connection, so that one which broke and one which
    /// was done look the same.
    pub(crate) fn ends_with_the_connection(&self) -> bool {
        !self.headers.contains_key(CONTENT_LENGTH) && !self.headers.contains_key(TRANSFER_ENCODING)
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A pool of connections to that endpoint and to nowhere else.
pub(crate) fn build_client(endpoint: &Url) -> Result<Client, ConnectError> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // reqwest would panic.
        return Err(ConnectError::NoCryptoProvider);
    }
    let mut builder = Client::builder()
        .user_agent(concat!("agent-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        // A request is one small write followed by a wait: what Nagle's algorithm makes slow.
        .tcp_nodelay(true)
        // A redirect would carry the conversation to an address that nobody configured.
        .redirect(redirect::Policy::none())
        .no_proxy()
        // Said aloud, because another crate's feature could switch HTTP/2 on for the whole build.
        .http1_only();
    if endpoint.scheme() == "http" {
        // Nothing to verify, so that the system's certificates, which a small container may not even
        // have, are not loaded.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(ConnectError::Client)
}

/// The causes of an error below the layers that only say that there is one: "Connection refused", "invalid
/// peer certificate: Expired".
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source().or(Some(error));
    while let Some(cause) = next {
        let text = cause.to_string();
        // Some layers repeat what the layer below says.
        if causes.last().is_none_or(|last| !last.contains(&text)) {
            causes.push(text);
        }
        next = cause.source();
    }
    causes.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    #[test]
    fn without_cryptography_there_is_an_error_and_no_panic() {
        // Nothing in this test binary installs a provider; the acceptance tests do.
        let endpoint = Url::parse("http://localhost").unwrap();
        let error = Transport::new(endpoint, HeaderMap::new()).unwrap_err();
        assert!(matches!(error, ConnectError::NoCryptoProvider));
    }

    #[test]
    fn an_error_is_described_by_its_causes() {
        let bottom = Layer { text: "refused (os error 111)", source: None };
        assert_eq!(describe(&bottom), "refused (os error 111)");
        let echo = Layer { text: "connecting: refused (os error 111)", source: Some(Box::new(bottom)) };
        let top = Layer { text: "error sending request", source: Some(Box::new(echo)) };
        assert_eq!(describe(&top), "connecting: refused (os error 111)");
    }
}
