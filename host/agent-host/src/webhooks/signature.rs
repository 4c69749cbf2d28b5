//! Signatures of Standard Webhooks: `v1` (HMAC-SHA256) for receivers who hold the secret, and `v1a` (Ed25519)
//! for those who hold the public key only. The key pair is derived from the secret, so that there is one
//! thing to keep and to replace.

use agent_core::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

const SECRET: &str = "whsec_";
const PUBLIC: &str = "whpk_";

/// What the key pair is derived by. Another text would be another key pair.
const DERIVATION: &[u8] = b"agent-host webhook signing key v1a";

/// What `WEBHOOK_SECRET` holds.
#[derive(Debug, Clone)]
pub struct WebhookSecret(Secret);

impl WebhookSecret {
    /// `whsec_` and the base64 of 24 to 64 bytes, which is what the specification wants.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        decode(text).map(|_bytes| Self(Secret::new(text)))
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let bytes = STANDARD.decode(text.strip_prefix(SECRET)?).ok()?;
    (24..=64).contains(&bytes.len()).then_some(bytes)
}

/// The keys that messages are signed with.
pub(crate) struct SigningKeys {
    symmetric: hmac::Key,
    pair: Option<Ed25519KeyPair>,
    public: String,
}

impl SigningKeys {
    pub(crate) fn of(secret: &WebhookSecret) -> Self {
        // The secret was decoded when it was read.
        let secret = decode(secret.0.expose()).unwrap_or_default();
        let symmetric = hmac::Key::new(hmac::HMAC_SHA256, &secret);
        // A seed has 32 bytes, as this digest has.
        let pair = Ed25519KeyPair::from_seed_unchecked(hmac::sign(&symmetric, DERIVATION).as_ref()).ok();
        let public =
            pair.as_ref().map(|pair| STANDARD.encode(pair.public_key().as_ref())).unwrap_or_default();
        Self { symmetric, pair, public: format!("{PUBLIC}{public}") }
    }

    /// The header `webhook-signature`.
    pub(super) fn sign(&self, id: &str, timestamp: u64, body: &str) -> String {
        let content = format!("{id}.{timestamp}.{body}");
        let v1 = STANDARD.encode(hmac::sign(&self.symmetric, content.as_bytes()));
        match &self.pair {
            Some(pair) => format!("v1,{v1} v1a,{}", STANDARD.encode(pair.sign(content.as_bytes()))),
            None => format!("v1,{v1}"),
        }
    }

    /// `whpk_…`
    pub(super) fn public(&self) -> &str {
        &self.public
    }
}
