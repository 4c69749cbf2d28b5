//! Talking to one registry about one repository: logging in when it asks for that, and going where it sends
//! us, if that is a place to go to.
//!
//! Where requests go: to the registry, to the token service that it names, and for what is read also to where
//! it redirects. Anywhere but to the registry itself only over https, and from a registry on the internet
//! only to the internet (`outbound`). On loopback, with plain HTTP, the token service may be on loopback too.
//! What logs us in is sent to the registry itself alone.

pub(crate) mod body;
pub(crate) mod challenge;
pub(crate) mod client;

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::{Method, Response, StatusCode};
use outbound::{Body, ConnectError, Reach, Request};
use serde::Deserialize;
use tokio::time::timeout;
use url::{Host, Url};

use crate::credentials::sensitive;
use crate::error::{Error, RedirectProblem};
use crate::reference::{Reference, shown};
use crate::session::body::{Bounds, unreachable};
use crate::session::challenge::Challenge;
use crate::session::client::Client;

const MOST_REDIRECTS: usize = 5;

/// Most bytes of a token service's answer.
const MOST_TOKEN_BYTES: u64 = 64 << 10;

/// Most bytes that are read of an answer that is an error, for what it says.
const MOST_ERROR_BYTES: u64 = 16 << 10;

/// Bytes up to which a request is one small write, so that silence after it is the registry's.
const SMALL_BYTES: usize = 64 << 10;

/// What is to be done in the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Pull,
    Push,
}

/// An exchange with a registry about one repository.
pub(crate) struct Session<'a> {
    client: &'a Client,
    reference: &'a Reference,
    access: Access,
    /// The registry's own address.
    base: Url,
    /// What logs us in there, once it has asked.
    authorization: Option<HeaderValue>,
    /// Whether it has answered from the internet, wherever its name leads by now.
    is_on_internet: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: &'static str,
    /// Media type of the body, and its bytes.
    pub(crate) content: Option<(&'static str, Bytes)>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

#[derive(Deserialize)]
struct Errors {
    errors: Vec<ErrorLine>,
}

#[derive(Deserialize)]
struct ErrorLine {
    code: String,
    #[serde(default)]
    message: String,
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: &'a Client, reference: &'a Reference, access: Access) -> Result<Self, Error> {
        let scheme = if client.options.plain_http { "http" } else { "https" };
        let base = Url::parse(&format!("{scheme}://{}/", reference.registry()));
        let base = base.map_err(|error| Error::Unreachable {
            registry: reference.registry().to_owned(),
            cause: error.to_string(),
        })?;
        Ok(Self { client, reference, access, base, authorization: None, is_on_internet: false })
    }

    /// A request for something of the repository, such as `manifests/1.0`.
    pub(crate) fn request(&self, method: Method, what: &str) -> Outgoing {
        let mut url = self.base.clone();
        url.set_path(&format!("v2/{}/{what}", self.reference.repository()));
        Outgoing { method, url, accept: "*/*", content: None }
    }

    /// Whom we talk to, for errors.
    pub(crate) fn registry(&self) -> String {
        self.reference.registry().to_owned()
    }

    /// How much is read of `what`.
    pub(crate) fn bounds(&self, what: &'static str, most: u64, mend: &'static str) -> Bounds<'_> {
        let stall = self.client.options.limits.stall;
        Bounds { registry: self.reference.registry(), what, most, mend, stall }
    }

    /// Sends a request, logs in if that is asked for, and follows redirects of what is read.
    pub(crate) async fn send(&mut self, outgoing: &Outgoing) -> Result<Response<Body>, Error> {
        let (mut url, mut asked, mut hops) = (outgoing.url.clone(), false, 0);
        loop {
            let is_own = self.is_own(&url);
            let response = self.send_once(&url, outgoing).await?;
            if is_own {
                self.has_answered_from(response.body().address().ip());
            }
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && is_own {
                if std::mem::replace(&mut asked, true) {
                    return Err(self.not_let_in());
                }
                let challenge = challenge_of(&response);
                drop(response);
                self.log_in(challenge).await?;
            } else if is_redirect(status) {
                url = self.next(&url, outgoing, response.headers().get(LOCATION))?;
                hops += 1;
                if hops > MOST_REDIRECTS {
                    return Err(self.redirect(&url, RedirectProblem::TooMany));
                }
            } else {
                return Ok(response);
            }
        }
    }

    /// The answer if it is of that status, or what the registry has against the request. `what` was asked
    /// for.
    pub(crate) async fn expect(
        &self,
        response: Response<Body>,
        status: StatusCode,
        what: &str,
    ) -> Result<Response<Body>, Error> {
        let (registry, found) = (self.registry(), response.status());
        if found == status {
            return Ok(response);
        }
        Err(match found {
            StatusCode::NOT_FOUND => Error::NotFound { registry, what: what.to_owned() },
            StatusCode::UNAUTHORIZED => self.not_let_in(),
            StatusCode::TOO_MANY_REQUESTS => {
                let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
                Error::Busy { registry, retry_after: after.map(shown) }
            }
            _ => {
                let (status, detail) = (found.as_u16(), self.detail(response).await);
                if found.is_server_error() {
                    Error::Trouble { registry, status, detail }
                } else {
                    let (repository, access) = (self.reference.repository().to_owned(), self.access.verb());
                    Error::Refused { registry, repository, access, status, detail }
                }
            }
        })
    }

    /// Whether an address is the registry's own.
    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// The registry's answer came from that address.
    fn has_answered_from(&mut self, address: IpAddr) {
        self.is_on_internet |= Reach::Public.allows(address);
    }

    /// Whether the registry is spoken to in plain HTTP on this machine.
    fn is_plain_loopback(&self) -> bool {
        self.base.scheme() == "http" && is_loopback(&self.base)
    }

    /// What logs us in there: nothing, unless that is the registry itself.
    fn authorization_at(&self, url: &Url) -> Option<&HeaderValue> {
        self.authorization.as_ref().filter(|_| self.is_own(url))
    }

    async fn send_once(&self, url: &Url, outgoing: &Outgoing) -> Result<Response<Body>, Error> {
        let (method, mut body) = (outgoing.method.clone(), Bytes::new());
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(outgoing.accept))]);
        headers.extend(self.authorization_at(url).map(|value| (AUTHORIZATION, value.clone())));
        if let Some((media_type, content)) = &outgoing.content {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
            body = content.clone();
        } else if method != Method::GET && method != Method::HEAD {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        let reach = self.reach_at(url).await?;
        self.ask(Request { method, url: url.clone(), headers, body, reach }).await
    }

    async fn ask(&self, request: Request) -> Result<Response<Body>, Error> {
        let (url, bytes) = (request.url.clone(), request.body.len());
        let sending = self.client.http.send(request);
        let limit = self.client.options.limits.stall;
        let answer = if bytes > SMALL_BYTES {
            // How long a large upload takes is bounded with everything else.
            sending.await
        } else {
            let answer = timeout(limit, sending).await;
            answer.map_err(|_elapsed| Error::Stalled { registry: host_of(&url), limit })?
        };
        answer.map_err(|error| self.unanswered(&url, &error))
    }

    fn unanswered(&self, url: &Url, error: &outbound::Error) -> Error {
        match error {
            outbound::Error::Connect(ConnectError::Forbidden(_)) => {
                self.redirect(url, RedirectProblem::Private)
            }
            error => unreachable(&host_of(url), error),
        }
    }

    /// How far a request may reach, if it may be made: from a registry on the internet only to the internet.
    async fn reach_at(&self, url: &Url) -> Result<Reach, Error> {
        if self.is_own(url) {
            return Ok(Reach::Any);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(self.redirect(url, RedirectProblem::Credentials));
        }
        let is_plain = url.scheme() == "http" && self.is_plain_loopback() && is_loopback(url);
        if !(url.scheme() == "https" || is_plain) {
            return Err(self.redirect(url, RedirectProblem::NotHttps));
        }
        // Whoever owns the name can have it lead into a private network behind the first answer.
        if self.is_on_internet {
            return Ok(Reach::Public);
        }
        let own = self.client.http.addresses(&self.base, Reach::Any).await.unwrap_or_default();
        Ok(reach_of_redirects(&own))
    }

    /// Where a redirect leads.
    fn next(&self, from: &Url, outgoing: &Outgoing, location: Option<&HeaderValue>) -> Result<Url, Error> {
        if outgoing.method != Method::GET && outgoing.method != Method::HEAD {
            return Err(self.redirect(from, RedirectProblem::OfPush));
        }
        let to = location.and_then(|value| from.join(value.to_str().ok()?).ok());
        let to = to.ok_or_else(|| self.redirect(from, RedirectProblem::NoAddress))?;
        // The token service may be another plain one on loopback; content is not fetched from there.
        let is_own_plain = self.is_own(&to) && self.is_plain_loopback();
        if !to.username().is_empty() || to.password().is_some() {
            return Err(self.redirect(&to, RedirectProblem::Credentials));
        }
        if to.scheme() != "https" && !is_own_plain {
            return Err(self.redirect(&to, RedirectProblem::NotHttps));
        }
        Ok(to)
    }

    /// An error without path and query, in which there may be what logs somebody in.
    fn redirect(&self, to: &Url, why: RedirectProblem) -> Error {
        let to = format!("{}://{}", shown(to.scheme()), host_of(to));
        Error::Redirect { registry: self.registry(), to, why }
    }

    /// Logs in as the registry wants it.
    async fn log_in(&mut self, challenge: Option<Challenge>) -> Result<(), Error> {
        let credentials = self.credentials()?;
        let registry = self.registry();
        self.authorization = Some(match challenge {
            Some(Challenge::Basic) => credentials.ok_or(Error::CredentialsNeeded { registry })?,
            Some(Challenge::Bearer { realm, service }) => {
                self.token(&realm, service.as_deref(), credentials).await?
            }
            None => {
                let problem = "it names neither a token service nor Basic authentication".to_owned();
                return Err(Error::Login { registry, problem });
            }
        });
        Ok(())
    }

    /// What logs us in with user and password, if they are for this registry.
    fn credentials(&self) -> Result<Option<HeaderValue>, Error> {
        let ours = self.client.options.credentials.as_ref();
        let Some(ours) = ours.filter(|ours| ours.registry == self.reference.registry()) else {
            return Ok(None);
        };
        if self.base.scheme() != "https" && !self.is_plain_loopback() {
            return Err(Error::CredentialsInTheOpen { registry: self.registry() });
        }
        let unusable = || Error::Login {
            registry: self.registry(),
            problem: "TOOLS_REGISTRY_USER and TOOLS_REGISTRY_PASSWORD cannot be sent in a header".to_owned(),
        };
        ours.header().map(Some).ok_or_else(unusable)
    }

    /// Has the token service give us a token (the distribution project's "Token Authentication
    /// Specification").
    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        credentials: Option<HeaderValue>,
    ) -> Result<HeaderValue, Error> {
        let login = |problem: String| Error::Login { registry: self.registry(), problem };
        let mut url = Url::parse(realm)
            .map_err(|_| login(format!("`{}` is no address of a token service", shown(realm))))?;
        let scope = format!("repository:{}:{}", self.reference.repository(), self.access.scope());
        if let Some(service) = service {
            url.query_pairs_mut().append_pair("service", service);
        }
        url.query_pairs_mut().append_pair("scope", &scope);
        let reach = self.reach_at(&url).await?;
        let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
        let has_credentials = credentials.is_some();
        headers.extend(credentials.map(|credentials| (AUTHORIZATION, credentials)));
        let request = Request { method: Method::GET, url: url.clone(), headers, body: Bytes::new(), reach };
        let answer = self.ask(request).await?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(self.not_let_in()),
            status => {
                let whose = if has_credentials { "with credentials" } else { "without credentials" };
                let problem = format!("its token service {} answered {status}, {whose}", host_of(&url));
                return Err(login(problem));
            }
        }
        let bounds = self.bounds("the token", MOST_TOKEN_BYTES, ": its operator has to look into it");
        let body = body::read(answer, bounds, |_| {}).await?;
        bearer_of(&body).ok_or_else(|| login(format!("its token service {} gave no token", host_of(&url))))
    }

    /// We logged in as well as we can, and that is not enough.
    fn not_let_in(&self) -> Error {
        let registry = self.registry();
        let ours = self.client.options.credentials.as_ref();
        if ours.is_none_or(|ours| ours.registry != registry) {
            return Error::CredentialsNeeded { registry };
        }
        let (repository, access) = (self.reference.repository().to_owned(), self.access.verb());
        Error::CredentialsRefused { registry, repository, access }
    }

    /// What the registry says of an error, in one short line, or nothing.
    async fn detail(&self, response: Response<Body>) -> String {
        let bounds = self.bounds("an error", MOST_ERROR_BYTES, "");
        let Ok(body) = body::read(response, bounds, |_| {}).await else { return String::new() };
        let Some(text) = first_error(&body) else { return String::new() };
        // The registry knows what we logged in with, and may say it.
        let credentials = self.client.options.credentials.as_ref();
        let header = credentials.and_then(|ours| ours.header());
        let headers = header.iter().chain(&self.authorization).filter_map(|value| value.to_str().ok());
        let tokens = headers.filter_map(|value| value.split_once(' ').map(|(_, token)| token));
        let mut secrets = tokens.chain(credentials.map(|ours| ours.password.expose()));
        if secrets.any(|secret| text.contains(secret)) {
            return String::new();
        }
        format!(": {}", shown(text.trim()))
    }
}

impl Access {
    fn verb(self) -> &'static str {
        match self {
            Self::Pull => "pull from",
            Self::Push => "push to",
        }
    }

    fn scope(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// `Authorization` with the token that a token service gave.
pub(crate) fn bearer_of(answer: &[u8]) -> Option<HeaderValue> {
    let Token { token, access_token } = serde_json::from_slice(answer).ok()?;
    // One token under two names; a service may write the name that it does not use with an empty text.
    let token = [token, access_token].into_iter().flatten().find(|token| !token.is_empty())?;
    sensitive(&format!("Bearer {token}"))
}

/// The first error of a registry's answer, as it says it.
pub(crate) fn first_error(answer: &[u8]) -> Option<String> {
    let Errors { errors } = serde_json::from_slice(answer).ok()?;
    errors.first().map(|first| format!("{} {}", first.code, first.message))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn challenge_of(response: &Response<Body>) -> Option<Challenge> {
    let headers = response.headers().get_all(WWW_AUTHENTICATE);
    challenge::parse(headers.iter().filter_map(|value| value.to_str().ok()))
}

/// How far a registry at these addresses may send us. One that has a public address as well is on the
/// internet, whatever else its name is made to resolve to.
fn reach_of_redirects(own: &[IpAddr]) -> Reach {
    let is_private = !own.is_empty() && own.iter().all(|address| !Reach::Public.allows(*address));
    if is_private { Reach::Any } else { Reach::Public }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// `host:port`, without what else may be in an address.
fn host_of(url: &Url) -> String {
    let host = shown(url.host_str().unwrap_or_default());
    url.port().map(|port| format!("{host}:{port}")).unwrap_or(host)
}

#[cfg(test)]
mod tests;
