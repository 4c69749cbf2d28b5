//! What an operator grants to one component, as plain values. Everything in them is canonical: two texts that
//! mean the same give equal values.
//!
//! [`file`](super::file) makes them of text, [`render`](super::render) makes text of them,
//! [`entries`](super::entries) has all of a file together.

pub mod approve;
pub mod host;
pub mod path;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::audience::Audience;
use super::signature::SignerKey;
use approve::ApproveRule;
use host::HostPattern;
use path::PathPrefix;

/// HTTP requests of one call, unless its component's lines say otherwise.
pub(crate) const DEFAULT_REQUESTS: u32 = 16;

/// HTTP requests of one call that are under way at the same time.
pub(crate) const DEFAULT_CONCURRENT_REQUESTS: u32 = 4;

/// Bytes of all requests and responses of one call together.
pub(crate) const DEFAULT_HTTP_BYTES: u64 = 4 << 20;

/// Bytes that a component may keep, for each user if the scope is the user.
pub(crate) const DEFAULT_KEY_VALUE_BYTES: u64 = 64 << 10;

/// What one component may do: one `[[component]]` of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentPolicy {
    /// The name of its file without `.wasm`.
    pub name: String,
    /// Which files of that name are meant.
    pub(crate) binding: Binding,
    /// Who may use it.
    pub audience: Audience,
    /// Whether it may call the run's other tools.
    pub toolbox: bool,
    /// Whether it may ask people in the middle of a call.
    pub ask: bool,
    /// What it reads through `config`. Not secret.
    pub config: BTreeMap<String, String>,
    /// Other names for tools of a component with typed functions, by the names that follow from the
    /// functions.
    pub rename: BTreeMap<String, String>,
    pub limits: CallLimits,
    /// What it may keep; absent: nothing.
    pub key_value: Option<KeyValueRule>,
    /// Where it may send requests. Any line that allows one allows it.
    pub http: BTreeSet<HttpRule>,
    /// Sorted by name.
    pub secrets: BTreeMap<String, SecretRule>,
    /// Which calls somebody has to approve; absent: none.
    pub approve: Option<ApproveRule>,
    /// Present if it is no component but an MCP server: one `[[mcp]]` of the file.
    pub mcp: Option<McpRule>,
}

/// An MCP server whose tools are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpRule {
    pub transport: McpTransport,
    /// The tools that are served, by the names that the server gives them.
    pub allow: BTreeSet<String>,
    /// Calls at the same time; absent: as many as a component may have.
    pub concurrency: Option<u32>,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// Streamable HTTP. The entry's only [`HttpRule`] allows that URL and nothing else.
    Http { url: String },
    /// A child process that is spoken to over its standard input and output.
    Command { program: String, arguments: Vec<String>, environment: BTreeMap<String, String> },
}

/// How an MCP server is reached, and all else that the policy says of what a child process runs. Values of
/// secrets are not in it: they may be replaced at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpEndpoint {
    pub transport: McpTransport,
    /// The secrets that are environment variables, by name: the variable, and where the value comes from.
    variables: BTreeMap<String, (String, SecretSource)>,
    memory_bytes: Option<u64>,
}

/// Which files of a name are meant. Never all: whoever can write a file could choose its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// `sha256:` and hex: those with one of these digests; empty: with any that a signer stands for.
    pub digests: BTreeSet<String>,
    /// Files that one of these signed; empty: signed or not.
    pub signers: BTreeSet<SignerKey>,
}

/// What a component imports that only a policy gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// `wasi:http`.
    Http,
    KeyValue,
    Toolbox,
    Ask,
}

impl Want {
    /// Name of the capability in the policy.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::KeyValue => "key-value",
            Self::Toolbox => "toolbox",
            Self::Ask => "ask",
        }
    }
}

/// What one call may use up. What is absent is as the host's settings say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLimits {
    pub timeout_ms: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub output_bytes: Option<u64>,
    /// Absent, or 0 in the file: no limit.
    pub fuel: Option<u64>,
    pub requests: u32,
    pub concurrent_requests: u32,
    pub http_bytes: u64,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            timeout_ms: None,
            memory_bytes: None,
            output_bytes: None,
            fuel: None,
            requests: DEFAULT_REQUESTS,
            concurrent_requests: DEFAULT_CONCURRENT_REQUESTS,
            http_bytes: DEFAULT_HTTP_BYTES,
        }
    }
}

/// What a component may keep between calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValueRule {
    pub scope: Scope,
    pub bytes: u64,
}

/// Who shares what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All callers of the component.
    Component,
    /// The calls of one user. Without a user, every operation is denied.
    User,
}

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    Http,
    Https,
}

/// Requests that are allowed: one `[[component.http]]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HttpRule {
    pub host: HostPattern,
    pub scheme: Scheme,
    pub port: u16,
    pub path: PathPrefix,
    /// Upper case.
    pub methods: BTreeSet<String>,
    /// Whether the host may resolve to a private or loopback address.
    pub private: bool,
}

/// A secret that the host adds to requests: one `[[component.secret]]`. The value is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRule {
    pub source: SecretSource,
    pub placement: Placement,
    /// Never [`HostPattern::Any`].
    pub hosts: BTreeSet<HostPattern>,
}

/// Where a secret's value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Env(String),
    /// A file, or a folder in which the file has the secret's name. Relative to the policy's folder.
    File(PathBuf),
}

/// Where a secret stands in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// In this header (lower case), after the prefix.
    Header { name: String, prefix: String },
    /// As this parameter of the query.
    Query(String),
    /// As the password of this user, in `Authorization: Basic`.
    Basic { user: String },
    /// In no request: as this environment variable of an MCP server that is a child process.
    Variable(String),
}

impl Binding {
    /// Whether a component is one of those meant. An entry with digests and signers wants both. That the
    /// signature is of that key is taken on trust.
    pub(crate) fn would_admit(&self, digest: &str, signer: Option<&SignerKey>) -> bool {
        let is_listed = self.digests.contains(digest);
        let is_signed = signer.is_some_and(|signer| self.signers.contains(signer));
        match (self.digests.is_empty(), self.signers.is_empty()) {
            (true, true) => false,
            (false, true) => is_listed,
            (true, false) => is_signed,
            (false, false) => is_listed && is_signed,
        }
    }

    /// Whether one component could be meant by both with the same precedence, so that neither would be the
    /// one.
    pub(super) fn overlap(&self, other: &Self) -> Option<String> {
        if self.digests.is_empty() && other.digests.is_empty() {
            return self.signers.intersection(&other.signers).next().map(ToString::to_string);
        }
        self.digests.intersection(&other.digests).next().cloned()
    }
}

impl ComponentPolicy {
    /// Grants nothing but to be loaded.
    pub fn bare(name: &str, digest: &str) -> Self {
        Self {
            name: name.to_owned(),
            binding: Binding { digests: [digest.to_owned()].into(), signers: BTreeSet::new() },
            audience: Audience::default(),
            toolbox: false,
            ask: false,
            config: BTreeMap::new(),
            rename: BTreeMap::new(),
            limits: CallLimits::default(),
            key_value: None,
            http: BTreeSet::new(),
            secrets: BTreeMap::new(),
            approve: None,
            mcp: None,
        }
    }

    /// Whether a component of this name is one of those meant. An MCP server is known by its address or
    /// command, which nobody but the operator writes, so its entry need not name a digest.
    pub(crate) fn is_for(&self, digest: &str, signer: Option<&SignerKey>) -> bool {
        self.takes_any_version() || self.binding.would_admit(digest, signer)
    }

    /// How the MCP server is reached that it is for.
    pub fn mcp_endpoint(&self) -> Option<McpEndpoint> {
        let transport = self.mcp.as_ref()?.transport.clone();
        let variable = |(name, rule): (&String, &SecretRule)| match &rule.placement {
            Placement::Variable(variable) => Some((name.clone(), (variable.clone(), rule.source.clone()))),
            Placement::Header { .. } | Placement::Query(_) | Placement::Basic { .. } => None,
        };
        let variables = self.secrets.iter().filter_map(variable).collect();
        Some(McpEndpoint { transport, variables, memory_bytes: self.limits.memory_bytes })
    }

    /// Whether it is for an MCP server, whatever its tools are.
    pub fn takes_any_version(&self) -> bool {
        self.mcp.is_some() && self.binding.digests.is_empty()
    }
}

impl HttpRule {
    /// Whether every request that `other` allows is allowed by this.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.port == other.port
            && self.host.covers(&other.host)
            && self.path.covers(&other.path)
            && self.methods.is_superset(&other.methods)
            && (self.private || !other.private)
    }
}

impl Scheme {
    /// Both, as they are written.
    pub const ALL: [Self; 2] = [Self::Http, Self::Https];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// URLs may write it in upper case (RFC 3986, 3.1).
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| text.eq_ignore_ascii_case(scheme.as_str()))
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Scope {
    pub const ALL: [Self; 2] = [Self::Component, Self::User];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Component => "component",
            Self::User => "user",
        }
    }
}

/// `GET` and `HEAD`: what a line without `methods` allows.
pub(crate) fn default_methods() -> BTreeSet<String> {
    ["GET", "HEAD"].map(str::to_owned).into()
}
