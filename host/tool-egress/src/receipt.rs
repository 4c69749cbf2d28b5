//! What a call reached over HTTP, for its receipt: hosts, requests, bytes, secrets used, refusals.
//!
//! It is bounded whatever a guest does: hosts and refusals beyond a number are counted, not listed. It holds
//! names of secrets, never values; texts in it come from requests that were scanned.

use parking_lot::Mutex;
use std::net::IpAddr;

use outbound::Origin;
use serde::Serialize;

use crate::error::{EgressError, ErrorKind};

/// Most hosts, and most refusals, that are listed.
const MOST_LISTED: usize = 32;

/// What of a refusal's text is kept: some repeat what the guest wrote.
const MAX_TEXT_CHARS: usize = 400;

/// What a call reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Receipt {
    /// Requests that the guest made, refused ones included.
    pub requests: u32,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub hosts: Vec<HostReceipt>,
    pub unlisted_host_requests: u32,
    /// Names of the secrets that were injected.
    pub secrets: Vec<String>,
    /// How many values of secrets were found in answers and replaced.
    pub redactions: u64,
    /// How many values of secrets the guest wrote itself, or were in answers to requests without that secret.
    pub secrets_met: u64,
    pub refusals: Vec<Refusal>,
    pub unlisted_refusals: u32,
}

/// What a call sent to one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostReceipt {
    pub scheme: &'static str,
    pub host: String,
    pub port: u16,
    /// Where the last connection went.
    pub address: Option<IpAddr>,
    pub requests: u32,
    /// Requests that ended without a whole answer.
    pub failures: u32,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

/// A request that was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    pub kind: ErrorKind,
    pub text: String,
}

/// A receipt that is being written.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<Receipt>);

/// The row of a host in a receipt; none if it is not listed.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostRow(Option<usize>);

impl Ledger {
    pub(super) fn receipt(&self) -> Receipt {
        self.0.lock().clone()
    }

    pub(super) fn requested(&self) {
        let mut receipt = self.0.lock();
        receipt.requests = receipt.requests.saturating_add(1);
    }

    pub(super) fn refused(&self, error: &EgressError) {
        let text = error.to_string().chars().take(MAX_TEXT_CHARS).collect();
        let mut receipt = self.0.lock();
        if receipt.refusals.len() < MOST_LISTED {
            receipt.refusals.push(Refusal { kind: error.kind(), text });
        } else {
            receipt.unlisted_refusals = receipt.unlisted_refusals.saturating_add(1);
        }
    }

    /// A request to a host is under way.
    pub(super) fn begun(&self, to: &Origin) -> HostRow {
        let mut receipt = self.0.lock();
        let (scheme, host, port) = (to.scheme.as_str(), to.host.as_str(), to.port);
        let known = |row: &HostReceipt| row.scheme == scheme && row.host == host && row.port == port;
        let row = match receipt.hosts.iter().position(known) {
            Some(row) => row,
            None if receipt.hosts.len() < MOST_LISTED => {
                receipt.hosts.push(HostReceipt {
                    scheme,
                    host: host.to_owned(),
                    port,
                    address: None,
                    requests: 0,
                    failures: 0,
                    sent_bytes: 0,
                    received_bytes: 0,
                });
                receipt.hosts.len() - 1
            }
            None => {
                receipt.unlisted_host_requests = receipt.unlisted_host_requests.saturating_add(1);
                return HostRow(None);
            }
        };
        let row = HostRow(Some(row));
        receipt.update(row, |host| host.requests = host.requests.saturating_add(1));
        row
    }

    pub(super) fn connected(&self, row: HostRow, address: IpAddr) {
        self.0.lock().update(row, |host| host.address = Some(address));
    }

    pub(super) fn sent(&self, row: HostRow, bytes: usize) {
        let (mut receipt, bytes) = (self.0.lock(), as_u64(bytes));
        receipt.sent_bytes = receipt.sent_bytes.saturating_add(bytes);
        receipt.update(row, |host| host.sent_bytes = host.sent_bytes.saturating_add(bytes));
    }

    pub(super) fn received(&self, row: HostRow, bytes: usize) {
        let (mut receipt, bytes) = (self.0.lock(), as_u64(bytes));
        receipt.received_bytes = receipt.received_bytes.saturating_add(bytes);
        receipt.update(row, |host| host.received_bytes = host.received_bytes.saturating_add(bytes));
    }

    pub(super) fn injected(&self, names: &[String]) {
        let mut receipt = self.0.lock();
        for name in names {
            if !receipt.secrets.contains(name) {
                receipt.secrets.push(name.clone());
            }
        }
    }

    pub(super) fn redacted(&self, matches: u64) {
        let mut receipt = self.0.lock();
        receipt.redactions = receipt.redactions.saturating_add(matches);
    }

    pub(super) fn met(&self, matches: u64) {
        let mut receipt = self.0.lock();
        receipt.secrets_met = receipt.secrets_met.saturating_add(matches);
    }

    pub(super) fn failed(&self, row: HostRow) {
        self.0.lock().update(row, |host| host.failures = host.failures.saturating_add(1));
    }
}

impl Receipt {
    fn update(&mut self, row: HostRow, change: impl FnOnce(&mut HostReceipt)) {
        if let Some(host) = row.0.and_then(|row| self.hosts.get_mut(row)) {
            change(host);
        }
    }
}

fn as_u64(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
