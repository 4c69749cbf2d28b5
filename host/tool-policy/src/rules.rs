//! Whether a request is allowed, and what did not match if it is not. Pure: nothing is resolved and nothing
//! is sent.
//!
//! [`Target::parse`] makes the one meaning of what a guest wrote, or refuses it. [`ComponentPolicy::decide`]
//! compares that with the lines. The connector then uses the target and nothing of what the guest wrote,
//! `Host` header included, so that what was checked is what is reached.

use std::fmt;

use url::Host;

use super::model::host::{self, HostFault, HostPattern};
use super::model::path::{self, PathFault};
use super::model::{ComponentPolicy, HttpRule, Scheme, SecretRule};
use super::text::{brief, listed};

/// Most bytes of an authority as a guest writes it: a host and a port.
const MOST_AUTHORITY_BYTES: usize = 320;

const MOST_METHOD_BYTES: usize = 32;

/// Hosts that a refusal names at most.
const HOSTS_SHOWN: usize = 8;

/// A request as a guest describes it.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    pub scheme: &'a str,
    pub authority: &'a str,
    pub method: &'a str,
    pub path_and_query: &'a str,
}

/// Where a request goes, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub scheme: Scheme,
    pub host: Host,
    pub port: u16,
    pub method: String,
    /// Canonical, which a server reads as it would have read what the guest wrote.
    pub path: String,
    /// As the guest wrote it, without the question mark. Lines do not look at it.
    pub query: Option<String>,
}

#[derive(Debug)]
pub struct Allowed<'a> {
    /// Whether one of the lines that allow it allows private addresses.
    pub private: bool,
    /// What the host adds to it, by name.
    pub secrets: Vec<(&'a str, &'a SecretRule)>,
}

/// Why a request is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}; requests go to http:// or https://")]
    Scheme(String),
    #[error("the address of the request is refused: {0}")]
    Host(#[from] HostFault),
    #[error("the address of the request is refused: its port is not a number from 1 to 65535")]
    Port,
    #[error("the path of the request is refused: {0}")]
    Path(#[from] PathFault),
    #[error("{0}; a method is 1 to {MOST_METHOD_BYTES} of A-Z, 0-9, '-' and '_'")]
    Method(String),
    /// The policy has no line for it.
    #[error("{0}")]
    NotGranted(#[from] Mismatch),
}

/// What of a request matches no line, although everything before it does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("requests to {host} are not granted; {}", those("hosts", .granted))]
    Host { host: String, granted: Vec<String> },
    #[error("requests to {host} over {scheme} are not granted; {}", those("schemes", .granted))]
    Scheme { host: String, scheme: Scheme, granted: Vec<String> },
    #[error("requests to port {port} of {host} are not granted; {}", those("ports", .granted))]
    Port { host: String, port: u16, granted: Vec<String> },
    #[error("{method} requests to {host} are not granted; {}", those("methods", .granted))]
    Method { host: String, method: String, granted: Vec<String> },
    #[error("requests to {path} of {host} are not granted; {}", those("paths", .granted))]
    Path { host: String, path: String, granted: Vec<String> },
}

fn those(what: &str, names: &[String]) -> String {
    match names {
        [] => format!("no {what} are"),
        [only] => format!("only {only} is"),
        names => format!("the {what} that are: {}", listed(names, HOSTS_SHOWN)),
    }
}

impl Target {
    /// The one meaning of a request, or a refusal. Bounded by the size of what may be a host and a path.
    pub fn parse(line: &RequestLine<'_>) -> Result<Self, Refusal> {
        let scheme = Scheme::parse(line.scheme)
            .ok_or_else(|| Refusal::Scheme(format!("the scheme {} is not known", brief(line.scheme))))?;
        let (host, port) = parse_authority(line.authority, scheme)?;
        let method = line.method;
        let is_token = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if method.is_empty() || method.len() > MOST_METHOD_BYTES || !method.bytes().all(is_token) {
            return Err(Refusal::Method(format!("{} is no method", brief(method))));
        }
        let (path, query) = match line.path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (line.path_and_query, None),
        };
        if let Some(odd) = query.and_then(|query| query.chars().find(|c| !c.is_ascii_graphic() || *c == '#'))
        {
            return Err(PathFault::Character(odd).into());
        }
        Ok(Self {
            scheme,
            host,
            port,
            method: method.to_owned(),
            path: path::canonical(path)?,
            query: query.map(str::to_owned),
        })
    }
}

fn parse_authority(authority: &str, scheme: Scheme) -> Result<(Host, u16), Refusal> {
    if authority.len() > MOST_AUTHORITY_BYTES {
        return Err(HostFault::TooLong.into());
    }
    // First, or the password of `user:1@host` would be read as a port.
    if authority.contains('@') {
        return Err(HostFault::UserInfo.into());
    }
    // The last colon begins the port, unless it stands within brackets.
    let after_bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let colon = authority.get(after_bracket..).and_then(|rest| rest.find(':')).map(|at| after_bracket + at);
    let Some(colon) = colon else { return Ok((host::parse(authority)?, scheme.default_port())) };
    let (name, port) = authority.split_at(colon);
    // An IPv6 address without brackets.
    if after_bracket == 0 && port.matches(':').count() > 1 {
        return Err(HostFault::Unbracketed.into());
    }
    let digits = port.strip_prefix(':').unwrap_or_default();
    let is_plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse::<u16>().ok().filter(|port| is_plain && *port != 0);
    Ok((host::parse(name)?, number.ok_or(Refusal::Port)?))
}

impl fmt::Display for Target {
    /// The URL without its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}://{}", self.method, self.scheme, self.host)?;
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        f.write_str(&self.path)
    }
}

impl ComponentPolicy {
    /// Whether some line allows the request.
    pub fn decide(&self, target: &Target) -> Result<Allowed<'_>, Mismatch> {
        let matching = self.http.iter().filter(|rule| rule.matches(target));
        // Lines are sorted by how much they narrow the host.
        let Some(rule) = matching.clone().next_back() else { return Err(self.mismatch(target)) };
        let private = matching.clone().any(|rule| rule.private);
        let secrets = if rule.host == HostPattern::Any { vec![] } else { self.secrets_for(target) };
        Ok(Allowed { private, secrets })
    }

    /// The secrets for a host. Over plain HTTP only those of hosts that have no line for HTTPS, or a guest
    /// could choose to have them sent readably.
    fn secrets_for(&self, target: &Target) -> Vec<(&str, &SecretRule)> {
        let has_https = self.http.iter().any(|rule| {
            rule.scheme == Scheme::Https && rule.host != HostPattern::Any && rule.host.matches(&target.host)
        });
        if target.scheme == Scheme::Http && has_https {
            return vec![];
        }
        let is_for_host = |rule: &SecretRule| rule.hosts.iter().any(|host| host.matches(&target.host));
        let secrets = self.secrets.iter().filter(|(_, rule)| is_for_host(rule));
        secrets.map(|(name, rule)| (name.as_str(), rule)).collect()
    }

    /// The first thing that no line has which has everything before it.
    fn mismatch(&self, target: &Target) -> Mismatch {
        let name = target.host.to_string();
        let all: Vec<_> = self.http.iter().collect();
        let of_host = keep(&all, |rule| rule.host.matches(&target.host));
        if of_host.is_empty() {
            return Mismatch::Host { host: name, granted: names(&all, |rule| rule.host.to_string()) };
        }
        let of_scheme = keep(&of_host, |rule| rule.scheme == target.scheme);
        if of_scheme.is_empty() {
            let granted = names(&of_host, |rule| rule.scheme.to_string());
            return Mismatch::Scheme { host: name, scheme: target.scheme, granted };
        }
        let of_port = keep(&of_scheme, |rule| rule.port == target.port);
        if of_port.is_empty() {
            let granted = names(&of_scheme, |rule| rule.port.to_string());
            return Mismatch::Port { host: name, port: target.port, granted };
        }
        let of_method = keep(&of_port, |rule| rule.methods.contains(&target.method));
        if of_method.is_empty() {
            let mut granted: Vec<_> = of_port.iter().flat_map(|rule| rule.methods.iter().cloned()).collect();
            granted.sort();
            granted.dedup();
            return Mismatch::Method { host: name, method: target.method.clone(), granted };
        }
        let granted = names(&of_method, |rule| rule.path.to_string());
        Mismatch::Path { host: name, path: brief(&target.path), granted }
    }
}

fn keep<'a>(rules: &[&'a HttpRule], is_kept: impl Fn(&HttpRule) -> bool) -> Vec<&'a HttpRule> {
    rules.iter().copied().filter(|rule| is_kept(rule)).collect()
}

fn names(rules: &[&HttpRule], name: impl Fn(&HttpRule) -> String) -> Vec<String> {
    let mut names: Vec<_> = rules.iter().map(|rule| name(rule)).collect();
    names.sort();
    names.dedup();
    names
}

impl HttpRule {
    /// Whether this line allows the request.
    pub fn matches(&self, target: &Target) -> bool {
        self.host.matches(&target.host)
            && self.scheme == target.scheme
            && self.port == target.port
            && self.methods.contains(&target.method)
            && self.path.matches(&target.path)
    }
}

#[cfg(test)]
mod tests;
