//! What can go wrong between us and a registry. Each message says where, why and what to do; none holds a
//! password, a token, or a query of a URL, which may be one.

use std::time::Duration;

use crate::digest::Digest;
use crate::manifest::{ManifestError, SIGNATURE_BYTES};

/// Why nothing was pulled or pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("the HTTP client cannot be made: {cause}")]
    Client { cause: String },
    #[error(
        "the registry {registry} cannot be reached: {cause}. Check its name and whether it is up; --plain-http is for a \
         registry without TLS, and SSL_CERT_FILE names the certificates of those who issue its own"
    )]
    Unreachable { registry: String, cause: String },
    #[error("the registry {registry} sent nothing for {} s: try again later", .limit.as_secs())]
    Stalled { registry: String, limit: Duration },
    #[error(
        "the registry {registry} took longer than {} s in all, which is the limit: try again over a faster connection, or \
         fetch the file by other means and install that", .limit.as_secs()
    )]
    TooSlow { registry: String, limit: Duration },
    #[error(
        "the registry {registry} has no {what}: check the name and the tag or digest. Some registries say this of what is \
         private, too: then set TOOLS_REGISTRY, TOOLS_REGISTRY_USER and TOOLS_REGISTRY_PASSWORD"
    )]
    NotFound { registry: String, what: String },
    #[error(
        "the registry {registry} wants to know who asks: set TOOLS_REGISTRY={registry}, TOOLS_REGISTRY_USER and \
         TOOLS_REGISTRY_PASSWORD"
    )]
    CredentialsNeeded { registry: String },
    #[error(
        "the registry {registry} refuses the credentials in TOOLS_REGISTRY_USER and TOOLS_REGISTRY_PASSWORD: check them, and \
         that this user may {access} {repository}"
    )]
    CredentialsRefused { registry: String, repository: String, access: &'static str },
    #[error(
        "credentials are sent over TLS or within this machine only, and {registry} would get them over plain HTTP: leave out \
         --plain-http, or unset TOOLS_REGISTRY_USER"
    )]
    CredentialsInTheOpen { registry: String },
    #[error("the registry {registry} cannot be logged in to: {problem}. Its operator has to look into that")]
    Login { registry: String, problem: String },
    #[error("the registry {registry} has had enough requests for now{}: try again later", retry(.retry_after))]
    Busy { registry: String, retry_after: Option<String> },
    #[error("the registry {registry} is in trouble: it answered {status}{detail}. Try again later")]
    Trouble { registry: String, status: u16, detail: String },
    #[error(
        "the registry {registry} refused to {access} {repository}: it answered {status}{detail}. Check the name, and who \
         may do that"
    )]
    Refused { registry: String, repository: String, access: &'static str, status: u16, detail: String },
    #[error("the registry {registry} sends us to {to}, which is not followed: {why}")]
    Redirect { registry: String, to: String, why: RedirectProblem },
    #[error("{what} of {registry} is larger than the {most} bytes that it may have{mend}")]
    TooLarge { registry: String, what: &'static str, most: u64, mend: &'static str },
    #[error(
        "the registry {registry} sent {what} encoded ({encoding}), which nobody asked for: it, or a proxy before it, has to \
         send what is stored"
    )]
    Encoded { registry: String, what: &'static str, encoding: String },
    #[error(
        "the registry {registry} ended {what} after {received} of {promised} bytes: try again, and if that does not help, \
         have it published anew"
    )]
    Incomplete { registry: String, what: &'static str, received: u64, promised: u64 },
    #[error(
        "the registry {registry} sent other bytes than the digest of {what} says, so nothing of it is used: {expected} was \
         asked for and {found} came. It, or somebody before it, changed them: do not install this, and tell its operator"
    )]
    WrongDigest { registry: String, what: &'static str, expected: Digest, found: Digest },
    #[error("{reference} is no component that can be installed: {problem}")]
    Manifest { reference: String, problem: ManifestError },
    #[error("this is no component: {problem}")]
    NotAComponent { problem: String },
    #[error(
        "the signature for the name {name} has {found} bytes, and a signature has {SIGNATURE_BYTES}, so nothing was \
         published: sign the component anew with `agent-tool sign`, or remove its .sig"
    )]
    Signature { name: String, found: usize },
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectProblem {
    #[error("only https is. The registry's operator has to set it up so")]
    NotHttps,
    #[error("there are credentials in the address. The registry's operator has to mend that")]
    Credentials,
    #[error("that is in a private network, and the registry is not. Do not use this registry")]
    Private,
    #[error("that is no address. The registry's operator has to mend that")]
    NoAddress,
    #[error("it is one redirect after the other. The registry's operator has to mend that")]
    TooMany,
    #[error("what is pushed is sent where it was meant to go. Push to the registry under its own name")]
    OfPush,
}

fn retry(after: &Option<String>) -> String {
    after.as_ref().map(|seconds| format!(" (Retry-After: {seconds})")).unwrap_or_default()
}
