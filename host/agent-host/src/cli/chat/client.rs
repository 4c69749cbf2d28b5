//! Questions to a service, as its clients ask them: over HTTP, streamed.

use std::time::Duration;

use agent_core::runs::shown;
use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use reqwest::header::{ACCEPT, CONTENT_LOCATION, CONTENT_TYPE, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};

/// How long the connection to a service may take.
const CONNECT: Duration = Duration::from_secs(10);

/// How much of a refusal is read, and how much of that is shown.
const REFUSAL_BYTES: usize = 64 << 10;
const REFUSAL_CHARS: usize = 1_000;

/// A run that has begun: its stream, and where that can be read again if the service said so.
pub(super) struct Begun {
    pub(super) answer: Response,
    pub(super) resume_at: Option<Url>,
}

pub(super) struct Client {
    http: reqwest::Client,
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
        let authorization = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))?;
            value.set_sensitive(true);
            anyhow::Ok(value)
        });
        let authorization =
            authorization.transpose().context("the token is none: it has to be one line of letters")?;
        // Answers of a service lead nowhere else, and a token is for this service only.
        let http =
            reqwest::Client::builder().connect_timeout(CONNECT).redirect(reqwest::redirect::Policy::none());
        Ok(Self { http: http.build()?, endpoint, field, authorization })
    }

    /// Begins a run.
    pub(super) async fn ask(&self, message: &str, history: &[Value]) -> anyhow::Result<Begun> {
        let mut body = json!({ self.field: message });
        if !history.is_empty() {
            body["options"] = json!({ "history": history });
        }
        let request = self.http.post(self.endpoint.clone()).header(ACCEPT, "text/event-stream").json(&body);
        let answer = self.send(request).await?;
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

    pub(super) fn get(&self, url: &Url) -> RequestBuilder {
        self.http.get(url.clone()).header(ACCEPT, "text/event-stream")
    }

    pub(super) fn post(&self, url: Url) -> RequestBuilder {
        self.http.post(url)
    }

    /// Sends a request; a refusal is an error with what the service says.
    pub(super) async fn send(&self, request: RequestBuilder) -> anyhow::Result<Response> {
        let request = match &self.authorization {
            Some(token) => request.header("authorization", token),
            None => request,
        };
        let answer = request.send().await;
        let answer = answer.with_context(|| {
            format!("no service answers at {}", self.endpoint.origin().ascii_serialization())
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
            && answer.content_length() == Some(0)
        {
            bail!(
                "the service answers {status}: the token of --token-file is none that it takes, or has expired"
            );
        }
        let body = http_body_util::Limited::new(reqwest::Body::from(answer), REFUSAL_BYTES).collect().await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        bail!("the service answers {status}: {}", shown(&String::from_utf8_lossy(&body), REFUSAL_CHARS))
    }
}
