//! Questions to a service, as its clients ask them: over HTTP, streamed.

use std::time::Duration;

use agent_core::terminal_text::shown;
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LOCATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};
use outbound::{Body, PoolBounds, Request};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::time::timeout;
use url::Url;

const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// How long the connection to a service may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How long the head of a stream may take to come after a question. The service sends it with the run's first
/// event, before which the run waits for a permit: `ADMISSION_WAIT_MS`, at most an hour.
const BEGIN: Duration = Duration::from_secs(61 * 60);

/// How long the service may take to answer where no run is waited for, and to send the text of a refusal.
const ANSWER: Duration = Duration::from_secs(30);

/// How much of a refusal is read, and how much of that is shown.
const REFUSAL_BYTES: usize = 64 << 10;
const REFUSAL_CHARS: usize = 1_000;

/// A run that has begun: its stream, and where that can be read again if the service said so.
pub(super) struct Begun {
    pub(super) answer: Response<Body>,
    pub(super) resume_at: Option<Url>,
}

pub(super) struct Client {
    http: outbound::Client,
    /// Where questions go.
    endpoint: Url,
    /// The field of a question.
    field: &'static str,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// With a token Variant B is asked, without one Variant A.
    pub(super) fn new(service: &Url, token: Option<&str>) -> anyhow::Result<Self> {
        let (path, field) =
            if token.is_some() { ("/api/agent", "query") } else { ("/agent/invoke", "input") };
        let endpoint =
            service.join(path).context("--url has to be an address such as http://127.0.0.1:3000")?;
        let authorization = token.map(|token| format!("Bearer {token}")).or_else(|| user_of(service));
        let authorization = authorization.map(|text| {
            let mut value = HeaderValue::try_from(text)?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let authorization =
            authorization.transpose().context("the token is none: it has to be one line of letters")?;
        let endpoint = without_user(endpoint);
        // Answers of a service lead nowhere else, and a token is for this service only.
        let http = outbound::Client::for_url(&endpoint, CONNECT, PoolBounds::default())?;
        Ok(Self { http, endpoint, field, authorization })
    }

    /// Begins a run.
    pub(super) async fn ask(&self, message: &str, history: &[Value]) -> anyhow::Result<Begun> {
        let mut body = json!({ self.field: message });
        if !history.is_empty() {
            body["options"] = json!({ "history": history });
        }
        let json = HeaderValue::from_static("application/json");
        let headers = HeaderMap::from_iter([(ACCEPT, EVENTS), (CONTENT_TYPE, json)]);
        let answer =
            self.send(Request::post(self.endpoint.clone(), headers, body.to_string()), BEGIN).await?;
        let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        if !answer.headers().get(CONTENT_TYPE).is_some_and(is_stream) {
            bail!("{} does not stream: it is no agent-host, or an old one", self.endpoint);
        }
        let location = answer.headers().get(CONTENT_LOCATION).and_then(|location| location.to_str().ok());
        let resume_at = location.and_then(|location| self.endpoint.join(location).ok());
        // Whoever answers could name another host.
        let resume_at = resume_at.filter(|url| url.origin() == self.endpoint.origin());
        Ok(Begun { answer, resume_at })
    }

    /// A stream of events, from behind the one of that id.
    pub(super) async fn resume(&self, url: &Url, last_id: Option<&str>) -> anyhow::Result<Response<Body>> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, EVENTS)]);
        if let Some(id) = last_id {
            headers.insert("last-event-id", HeaderValue::try_from(id)?);
        }
        self.send(Request { method: Method::GET, ..Request::post(url.clone(), headers, "") }, ANSWER).await
    }

    /// Cancels a run.
    pub(super) async fn cancel(&self, url: Url) -> anyhow::Result<()> {
        self.send(Request::post(url, HeaderMap::new(), ""), ANSWER).await.map(drop)
    }

    /// Sends a request and waits that long for the head of its answer; a refusal is an error with what the
    /// service says.
    async fn send(&self, mut request: Request, within: Duration) -> anyhow::Result<Response<Body>> {
        request.headers.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
        let service = self.endpoint.origin().ascii_serialization();
        let Ok(answer) = timeout(within, self.http.send(request)).await else {
            bail!("the service at {service} has not answered for {} s", within.as_secs());
        };
        let mut answer = answer.with_context(|| format!("no service answers at {service}"))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && answer.body().content_length() == Some(0)
        {
            bail!(
                "the service answers {status}: the token of --token-file is none that it takes, or has expired"
            );
        }
        let mut body = Vec::new();
        // silent-ok: the status says what happened, and half of the text will do.
        let _ = timeout(ANSWER, answer.body_mut().read_into(&mut body, REFUSAL_BYTES)).await;
        bail!("the service answers {status}: {}", shown(&String::from_utf8_lossy(&body), REFUSAL_CHARS))
    }
}

/// Basic authentication with the user in an address.
fn user_of(url: &Url) -> Option<String> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
    let pair = format!("{}:{}", decoded(url.username()), decoded(url.password().unwrap_or_default()));
    Some(format!("Basic {}", STANDARD.encode(pair)))
}

/// The address as errors may name it.
fn without_user(mut url: Url) -> Url {
    // silent-ok: what cannot have a user has none.
    let _ = (url.set_username(""), url.set_password(None));
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_address_is_sent_and_stands_in_none_that_errors_name() {
        let service = Url::parse("http://ada:hunter2@127.0.0.1:3000/").unwrap();
        let client = Client::new(&service, None).unwrap();
        assert_eq!(client.endpoint.as_str(), "http://127.0.0.1:3000/agent/invoke");
        let sent = client.authorization.unwrap();
        assert_eq!(sent.to_str().unwrap(), format!("Basic {}", STANDARD.encode("ada:hunter2")));
    }
}
