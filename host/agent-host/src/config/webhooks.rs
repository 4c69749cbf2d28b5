//! Webhooks of jobs.

use super::reader::{Reader, Reported};
use super::setting::{hidden, settings, special};
use crate::webhooks::{PrivateHosts, WebhookSecret};

settings! {
    /// Signs webhooks of jobs (Standard Webhooks); without it webhookUrl is refused. The Ed25519 key pair is
    /// derived from it.
    WEBHOOK_SECRET = hidden("whsec_ and the base64 of 24 to 64 bytes");
    /// The hosts, separated by commas, that may receive webhooks on private and loopback addresses, also over
    /// http.
    WEBHOOK_PRIVATE_HOSTS = special("host names or addresses, separated by commas");
}

/// Webhooks of jobs.
#[derive(Debug, Clone)]
pub struct Webhooks {
    /// Signs them; without it there are none (`WEBHOOK_SECRET`).
    pub secret: Option<WebhookSecret>,
    /// Who may be private (`WEBHOOK_PRIVATE_HOSTS`).
    pub private_hosts: PrivateHosts,
}

impl Webhooks {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Reported> {
        let secret = reader.optional(&WEBHOOK_SECRET, WebhookSecret::parse);
        let private_hosts = reader.optional(&WEBHOOK_PRIVATE_HOSTS, PrivateHosts::parse);
        Ok(Self { secret: secret?, private_hosts: private_hosts?.unwrap_or_default() })
    }
}
