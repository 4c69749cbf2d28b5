//! The receipt of a tool call: what ran, what it came to, what it cost and what it reached. From it alone an
//! operator is to understand why a call failed.
//!
//! Receipts are bounded, whatever a guest does: [`ToolReceipt::bound`] cuts what is longer, and the driver
//! applies it to every one before it is journaled. They hold names of secrets, never values. Their detail is
//! the operator's: clients are shown none of it, and the JSON of [`super::AgentResult`] leaves it out.

use serde::{Deserialize, Serialize};

use super::ToolOutcome;

/// Most hosts and most secrets that a receipt lists.
const MOST_LISTED: usize = 32;

/// Most refusals that a receipt lists. A guest that is refused eight times is not understood better after 32.
const MOST_REFUSALS: usize = 8;

/// Most bytes of a digest, an address, a code or the name of a secret, of a host's name, and of a text in
/// sentences.
const WORD_BYTES: usize = 100;
const HOST_BYTES: usize = 255;
const TEXT_BYTES: usize = 400;

/// The answer to one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolReturn {
    /// What the model is told.
    pub content: String,
    /// What it came to.
    pub receipt: ToolReceipt,
}

impl ToolReturn {
    /// The answer to a call of a tool that there is not, or that the caller may not know of.
    pub fn unknown_tool(name: &str) -> Self {
        let content = "Error: there is no tool of that name.".into();
        Self { content, receipt: ToolReceipt::new(name, ToolOutcome::UnknownTool) }
    }
}

/// What one tool call came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolReceipt {
    /// The tool's name, as the model wrote it.
    pub name: String,
    /// `component@sha256:…` of the code that ran; absent when none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// How long the call took in the host, in milliseconds.
    pub duration_ms: f64,
    /// How it ended.
    pub outcome: ToolOutcome,
    /// How many calls of other tools it made; each has a receipt of its own in the journal.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nested: u32,
    /// How it went, for operators. Absent in journals of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<ReceiptDetail>>,
}

/// How a call went. Whatever is not known is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReceiptDetail {
    /// Digest of the policy under which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// [`super::ToolCall::arguments_digest`] of its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The code of a failure: the tool's own, or `denied` or `limit-exceeded` where the host refused a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// What the operator is told of a failure beyond what the model is told, scanned for secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The job of the run that it began, and whose end is its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child: Option<String>,
    /// Milliseconds that it waited for its permits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// Milliseconds that its instance took to be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instantiate_ms: Option<f64>,
    /// Milliseconds that the guest ran, its waiting for the host included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_ms: Option<f64>,
    /// The most bytes that its memories had together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Fuel used, where it is metered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// What went to which hosts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exchanges: Vec<Exchange>,
    /// Requests to hosts that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlisted_requests: u32,
    /// Why requests were not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Refusals that are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub unlisted_refusals: u32,
    /// Names of the secrets that were added to its requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// How many values of secrets were found in what came back, and replaced.
    #[serde(skip_serializing_if = "is_zero")]
    pub redactions: u32,
    /// How often the host ran it. 0 where nothing ran or nobody said.
    #[serde(skip_serializing_if = "is_zero")]
    pub attempts: u32,
    /// Whether the answer of an earlier call was given again.
    #[serde(skip_serializing_if = "is_false")]
    pub cached: bool,
    /// Whether the component, or one whose tool it called, can tell users apart: then the answer may be one
    /// user's.
    #[serde(skip_serializing_if = "is_false")]
    pub per_user: bool,
    /// Whether the call may have changed something outside of itself: the tool does not call itself
    /// read-only, and its component may send requests or keep values.
    #[serde(skip_serializing_if = "is_false")]
    pub effects: bool,
}

/// What a call exchanged with one host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Exchange {
    /// `https` or `http`.
    pub scheme: String,
    /// Name of the host, as the guest wrote it.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Where the last connection went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Requests that were sent.
    pub requests: u32,
    /// Requests among them that ended without a whole answer.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// Bytes sent, headers included.
    pub sent_bytes: u64,
    /// Bytes received, headers included.
    pub received_bytes: u64,
}

impl ToolReceipt {
    /// The receipt of a call for which no code has run (yet).
    pub fn new(name: impl Into<String>, outcome: ToolOutcome) -> Self {
        Self { name: name.into(), component: None, duration_ms: 0.0, outcome, nested: 0, detail: None }
    }

    /// The code of a failure, if there is one.
    pub fn code(&self) -> Option<&str> {
        self.detail.as_ref()?.code.as_deref()
    }

    /// Whether the answer is not to be given to others, or again: it may be one user's, or say that something
    /// was done which would not be done then. What an interrupted call has reached is not known.
    pub fn is_per_user(&self) -> bool {
        let is_own = |detail: &ReceiptDetail| detail.per_user || detail.effects;
        self.outcome == ToolOutcome::Interrupted || self.detail.as_deref().is_some_and(is_own)
    }

    /// The detail, to be added to.
    pub fn detail_mut(&mut self) -> &mut ReceiptDetail {
        self.detail.get_or_insert_default()
    }

    /// Cuts what is too long and counts what is too much.
    pub fn bound(&mut self) {
        if let Some(component) = &mut self.component {
            cut(component, HOST_BYTES);
        }
        if let Some(detail) = &mut self.detail {
            detail.bound();
        }
    }
}

impl ReceiptDetail {
    fn bound(&mut self) {
        for word in [&mut self.policy, &mut self.arguments, &mut self.code].into_iter().flatten() {
            cut(word, WORD_BYTES);
        }
        if let Some(cause) = &mut self.cause {
            cut(cause, TEXT_BYTES);
        }
        for Exchange { requests, .. } in self.exchanges.drain(MOST_LISTED.min(self.exchanges.len())..) {
            self.unlisted_requests = self.unlisted_requests.saturating_add(requests);
        }
        for Exchange { scheme, host, address, .. } in &mut self.exchanges {
            cut(scheme, WORD_BYTES);
            cut(host, HOST_BYTES);
            if let Some(address) = address {
                cut(address, WORD_BYTES);
            }
        }
        let unlisted = self.refusals.len().saturating_sub(MOST_REFUSALS);
        self.unlisted_refusals =
            self.unlisted_refusals.saturating_add(u32::try_from(unlisted).unwrap_or(u32::MAX));
        self.refusals.truncate(MOST_REFUSALS);
        self.refusals.iter_mut().for_each(|refusal| cut(refusal, TEXT_BYTES));
        self.secrets.truncate(MOST_LISTED);
        self.secrets.iter_mut().for_each(|secret| cut(secret, WORD_BYTES));
    }
}

/// At most that many bytes of a text.
pub fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::receipt_detail;

    fn full() -> ToolReceipt {
        let detail = ReceiptDetail { child: Some("01a2".into()), ..receipt_detail() };
        ToolReceipt {
            component: Some("c@sha256:1".into()),
            duration_ms: 13.5,
            nested: 6,
            detail: Some(Box::new(detail)),
            ..ToolReceipt::new("fetch", ToolOutcome::Failed)
        }
    }

    #[test]
    fn a_receipt_is_read_as_it_was_written_and_what_is_not_known_is_not_written() {
        let text = serde_json::to_string(&full()).unwrap();
        assert_eq!(serde_json::from_str::<ToolReceipt>(&text).unwrap(), full());
        let mut plain = ToolReceipt::new("nope", ToolOutcome::UnknownTool);
        plain.detail_mut();
        assert_eq!(
            serde_json::to_value(&plain).unwrap(),
            json!({"name": "nope", "durationMs": 0.0, "outcome": "unknown_tool", "detail": {}})
        );
        // As an older version wrote it, and as a newer one may.
        let older = json!({"name": "add", "component": "c@sha256:1", "durationMs": 1.0, "outcome": "ok"});
        assert_eq!(serde_json::from_value::<ToolReceipt>(older).unwrap().detail, None);
        let newer =
            json!({"name": "add", "durationMs": 1.0, "outcome": "ok", "detail": {"what": [1]}, "more": 1});
        assert_eq!(
            serde_json::from_value::<ToolReceipt>(newer).unwrap().detail,
            Some(Box::<ReceiptDetail>::default())
        );
    }

    #[test]
    fn a_receipt_of_ordinary_size_is_not_changed_and_a_large_one_is_bounded() {
        let mut bounded = full();
        bounded.bound();
        assert_eq!(bounded, full());

        // Three bytes a character, so that no bound falls between two of them.
        let long = "€".repeat(1_000);
        let mut receipt = full();
        receipt.component = Some(long.clone());
        let detail = receipt.detail_mut();
        for word in [&mut detail.policy, &mut detail.arguments, &mut detail.code, &mut detail.cause] {
            *word = Some(long.clone());
        }
        let exchange = Exchange {
            scheme: long.clone(),
            host: long.clone(),
            address: Some(long.clone()),
            requests: 1,
            ..Exchange::default()
        };
        detail.exchanges = vec![exchange; 1_000];
        detail.refusals = vec![long.clone(); 1_000];
        detail.secrets = vec![long; 1_000];
        receipt.bound();
        let detail = receipt.detail.as_deref().unwrap();
        assert_eq!((detail.exchanges.len(), detail.unlisted_requests), (32, 3 + 968));
        assert_eq!((detail.refusals.len(), detail.unlisted_refusals), (8, 4 + 992));
        assert_eq!((detail.code.as_ref().unwrap().len(), detail.secrets.len()), (99, 32));
        let size = serde_json::to_string(&receipt).unwrap().len();
        assert!(size < 28_000, "{size}");
        let once = receipt.clone();
        receipt.bound();
        assert_eq!(receipt, once);
    }

    #[test]
    fn an_answer_is_taken_for_one_users_when_it_is_or_when_nobody_knows() {
        assert!(full().is_per_user());
        assert!(ToolReceipt::new("pay", ToolOutcome::Interrupted).is_per_user());
        assert!(!ToolReceipt::new("add", ToolOutcome::Ok).is_per_user());
        assert_eq!(
            (full().code(), ToolReceipt::new("add", ToolOutcome::Ok).code()),
            (Some("unavailable"), None)
        );
    }
}
