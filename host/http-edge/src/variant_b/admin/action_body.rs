//! What stands in the bodies of changes, uploads apart. An empty body is `{}`. Unlike under `/api/` a key
//! that is not known is an issue: whoever writes `thresold` must not begin a trial with the default ones.

use agent_core::ports::{self, TrialOptions};
use agent_core::words::Thresholds;
use serde_json::{Value, json};

use super::digest::DIGEST;
use crate::request::{Field, Kind, Object, request};

/// More calls than a trial has.
const MOST_CALLS: u32 = 1_000_000_000;

/// Beyond that a p99 is not compared at all.
const MOST_RATIO: u32 = 1_000_000;

const VERSION: Field = Field::text("digest").like(DIGEST).example(|| json!(super::digest::EXAMPLE));

request! {
    /// Nothing is to be said.
    pub(super) struct NoOptions = Object { example: Some(|| json!({})), ..Object::CLOSED };
}

request! {
    /// Which version.
    pub(super) struct VersionChoice = Object::CLOSED;

    /// The version. Without it the last that served, or, to promote it, the one that was tried.
    digest: Option<String> = VERSION;
}

request! {
    /// Which version may serve.
    pub(super) struct Approval = Object::CLOSED;

    /// The version. Without it the newest proposal.
    digest: Option<String> = VERSION;

    /// The digest of the facts that were looked at. An approved version that describes itself otherwise now
    /// (`described` of the component) is approved anew only with it.
    facts: Option<String> = Field::text("facts").like(DIGEST).example(|| json!(super::digest::EXAMPLE));

    /// Whether it serves at once. Otherwise it can be tried first.
    serve: bool = Field::new("serve", Kind::Truth).default(|| json!(true));
}

request! {
    /// Which version is tried, and how.
    pub(super) struct TrialRequest = Object::CLOSED;

    /// The version. Without it the newest proposal.
    digest: Option<String> = VERSION;

    /// The share of the calls or runs that it gets.
    share: f64 = Field::new("share", Kind::PositiveNumber).least(0).most(1).default(|| json!(TrialOptions::default().share));

    thresholds: TrialThresholds = Field::new("thresholds", TrialThresholds::KIND);
}

request! {
    /// When it has failed and when it has passed.
    pub(super) struct TrialThresholds = Object::CLOSED;

    /// Calls before anything but traps is judged.
    min_calls: u64 = count("minCalls", || json!(Thresholds::default().min_calls));

    /// Most that its share of failed calls may be above the old one's.
    max_error_rate: f64 =
        ratio("maxErrorRate", 1, || json!(Thresholds::default().max_error_rate));

    /// Most calls that may end in a trap.
    max_traps: u64 = count("maxTraps", || json!(Thresholds::default().max_traps));

    /// Most that its p99 may be of the old one's.
    max_p99_ratio: f64 =
        ratio("maxP99Ratio", MOST_RATIO, || json!(Thresholds::default().max_p99_ratio));

    /// Least share of a shadow's answers that must be equal.
    min_agreement: f64 =
        ratio("minAgreement", 1, || json!(Thresholds::default().min_agreement));

    /// Calls after which it has passed; 0: never by itself.
    pass_after: u64 = count("passAfter", || json!(Thresholds::default().pass_after));

    /// Whether a version that has passed serves from then on.
    promote: bool = Field::new("promote", Kind::Truth).default(|| json!(Thresholds::default().promote));
}

const fn count(name: &'static str, default: fn() -> Value) -> Field {
    Field::new(name, Kind::WholeNumber).least(0).most(MOST_CALLS).default(default)
}

const fn ratio(name: &'static str, most: u32, default: fn() -> Value) -> Field {
    Field::new(name, Kind::Number).least(0).most(most).default(default)
}

impl From<TrialRequest> for ports::TrialRequest {
    fn from(request: TrialRequest) -> Self {
        let TrialRequest { digest, share, thresholds: asked } = request;
        let thresholds = Thresholds {
            min_calls: asked.min_calls,
            max_error_rate: asked.max_error_rate,
            max_traps: asked.max_traps,
            max_p99_ratio: asked.max_p99_ratio,
            min_agreement: asked.min_agreement,
            pass_after: asked.pass_after,
            promote: asked.promote,
        };
        Self { digest, options: TrialOptions { share, thresholds } }
    }
}
