//! What the policy knows a component by.

use super::signature::VerifiedSigner;

/// What the policy knows a component by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    /// `sha256:…` of its bytes.
    pub(crate) digest: &'a str,
    pub(crate) signer: Option<&'a VerifiedSigner>,
}
