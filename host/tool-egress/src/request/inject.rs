//! Credentials: added by the host, after the guest's own request was found free of them.
//!
//! [`refuse_secrets`] comes first, over everything that the guest wrote; [`inject`] after it, so that the
//! scan never sees what the host adds. Which credentials a request gets is the policy's to say
//! ([`Admission::secrets`]); they go over plain HTTP only if the rule that admits the request names that
//! scheme. Nothing of the guest's is replaced: what it set itself where a credential belongs is refused.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_RANGE, RANGE};
use http::uri::PathAndQuery;
use http::{Request, Uri};
use outbound::Scheme;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::allowed_hosts::{Admission, Placement, Secret, SecretValue};
use crate::error::{EgressError, InvalidUri, Place};
use crate::secret_scan::Scanner;
use crate::target::{MAX_URI_BYTES, Target};

/// What RFC 3986 calls unreserved stays.
const QUERY_VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What is asked for with its credentials, and the names of those. It cannot be printed: the query may hold
/// one.
pub(crate) struct Injected {
    pub path_and_query: PathAndQuery,
    pub secrets: Vec<String>,
}

/// Refuses a request whose URL, method or headers hold the value of a secret. Its body is scanned as it is
/// sent.
pub(crate) fn refuse_secrets<B>(request: &Request<B>, scanner: &Scanner) -> Result<(), EgressError> {
    let refusal = |name: &str, place| EgressError::SecretInRequest { name: name.to_owned(), place };
    if let Some(name) = find_in_uri(request.uri(), scanner) {
        return Err(refusal(name, Place::Url));
    }
    let find = |bytes: &[u8]| scanner.find(bytes);
    if let Some(name) = find(request.method().as_str().as_bytes()) {
        return Err(refusal(name, Place::Headers));
    }
    for (name, value) in request.headers() {
        if let Some(secret) = find(name.as_str().as_bytes()).or_else(|| find(value.as_bytes())) {
            return Err(refusal(secret, Place::Headers));
        }
    }
    Ok(())
}

/// Adds the credentials that the admission names, to the headers and to what is asked for.
pub(crate) fn inject(
    secrets: &[Secret],
    admission: &Admission,
    target: &Target,
    headers: &mut HeaderMap,
) -> Result<Injected, EgressError> {
    let (mut path_and_query, mut used) = (admitted_path(admission, target)?, vec![]);
    let mut placements: Vec<&Placement> = vec![];
    for name in &admission.secrets {
        let secret = secrets.iter().find(|secret| secret.name == *name);
        let Some((secret, value)) = secret.and_then(|secret| Some((secret, secret.value.as_ref()?))) else {
            let (name, host) = (name.clone(), target.origin.host.as_str().to_owned());
            return Err(EgressError::SecretUnresolved { name, host });
        };
        if target.origin.scheme == Scheme::Http && admission.scheme != Scheme::Http {
            return Err(secret.unusable("it is sent over https only"));
        }
        if placements.iter().any(|earlier| earlier.same_place(&secret.placement)) {
            return Err(secret.unusable("another secret for this host has the same place"));
        }
        match &secret.placement {
            Placement::Header { name, prefix } => {
                let value = format!("{prefix}{}", value.expose());
                put_header(secret, name, &value, headers)?;
            }
            Placement::Basic { user } => {
                let value = format!("Basic {}", STANDARD.encode(format!("{user}:{}", value.expose())));
                put_header(secret, &AUTHORIZATION, &value, headers)?;
            }
            Placement::Query { name } => {
                path_and_query = with_parameter(secret, name, value, &path_and_query)?;
            }
        }
        placements.push(&secret.placement);
        used.push(secret.name.clone());
    }
    if !used.is_empty() {
        // A server that repeats a credential could be asked for one half of it, and then for the other.
        headers.remove(RANGE);
        headers.remove(IF_RANGE);
    }
    Ok(Injected { path_and_query, secrets: used })
}

impl Secret {
    fn set_by_guest(&self, part: String) -> EgressError {
        EgressError::SetByGuest { name: self.name.clone(), part }
    }

    fn unusable(&self, problem: &'static str) -> EgressError {
        EgressError::SecretUnusable { name: self.name.clone(), problem }
    }
}

/// The path that was admitted, with the query that the guest wrote.
pub(crate) fn admitted_path(admission: &Admission, target: &Target) -> Result<PathAndQuery, EgressError> {
    let Some(path) = &admission.path else { return Ok(target.path_and_query.clone()) };
    let admitted = match target.path_and_query.query() {
        None => path.clone(),
        Some(query) => format!("{path}?{query}"),
    };
    let refused = EgressError::InvalidUri(InvalidUri::Path);
    if !path.starts_with('/') || path.contains(['?', '#']) || admitted.len() > MAX_URI_BYTES {
        return Err(refused);
    }
    PathAndQuery::try_from(admitted).map_err(|_| refused)
}

/// As it is written, and decoded: a value whose characters are encoded here and there is one, too.
fn find_in_uri<'a>(uri: &Uri, scanner: &'a Scanner) -> Option<&'a str> {
    let text = uri.to_string();
    let decoded = || scanner.find(&percent_decode_str(&text).collect::<Vec<u8>>());
    scanner.find(text.as_bytes()).or_else(decoded)
}

fn put_header(
    secret: &Secret,
    name: &HeaderName,
    value: &str,
    headers: &mut HeaderMap,
) -> Result<(), EgressError> {
    if headers.contains_key(name) {
        return Err(secret.set_by_guest(format!("header {name}")));
    }
    let mut value = HeaderValue::try_from(value)
        .map_err(|_| secret.unusable("it holds characters that no header takes"))?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

fn with_parameter(
    secret: &Secret,
    name: &str,
    value: &SecretValue,
    path_and_query: &PathAndQuery,
) -> Result<PathAndQuery, EgressError> {
    let query = path_and_query.query().unwrap_or_default();
    if query.split(['&', ';']).any(|parameter| decoded_name(parameter) == name.as_bytes()) {
        return Err(secret.set_by_guest(format!("query parameter {name}")));
    }
    let encode = |text| utf8_percent_encode(text, QUERY_VALUE);
    let separator = match path_and_query.query() {
        None => "?",
        Some(query) if query.is_empty() || query.ends_with('&') => "",
        Some(_) => "&",
    };
    let with = format!("{path_and_query}{separator}{}={}", encode(name), encode(value.expose()));
    if with.len() > MAX_URI_BYTES {
        return Err(EgressError::InvalidUri(InvalidUri::TooLong(MAX_URI_BYTES)));
    }
    PathAndQuery::try_from(with).map_err(|_| secret.unusable("it cannot stand in a URL"))
}

/// As servers read it.
fn decoded_name(parameter: &str) -> Vec<u8> {
    let name = parameter.split('=').next().unwrap_or_default().replace('+', " ");
    percent_decode_str(&name).collect()
}
