//! Which calls somebody has to approve before they are made: `approve` of a component or an MCP server.

use std::sync::Arc;

use agent_core::words::{Deciders, OnExpiry, ToolHints};
use json_schema::{Fuel, Schema};
use serde_json::Value;

/// How long those who decide have, unless the policy says otherwise: a day.
pub(crate) const DEFAULT_WITHIN_S: u64 = 24 * 60 * 60;

/// Which calls somebody has to approve, and who.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApproveRule {
    pub when: ApproveWhen,
    /// Whether a tool that does not say whether it may destroy something counts as one that may.
    pub unhinted: bool,
    /// Calls whose arguments this allows pass unasked.
    pub pass: Option<PassSchema>,
    pub deciders: Deciders,
    /// Seconds after which a wait is decided by itself.
    pub within_s: u64,
    /// What is decided when a wait has expired.
    pub on_expiry: OnExpiry,
}

/// Which tools it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApproveWhen {
    /// Every tool of the component.
    Always,
    /// Tools that may destroy something, as their hints say.
    Destructive,
}

impl ApproveWhen {
    /// As it stands in the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::Destructive => "destructive",
        }
    }
}

/// A JSON Schema that arguments may meet. Equal texts are equal schemas.
#[derive(Debug, Clone)]
pub struct PassSchema {
    /// As it stands in the file.
    pub(crate) text: String,
    pub(crate) schema: Arc<Schema>,
}

impl PartialEq for PassSchema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PassSchema {}

impl ApproveRule {
    /// The rule with everything by default.
    pub(crate) fn new(when: ApproveWhen) -> Self {
        Self {
            when,
            unhinted: false,
            pass: None,
            deciders: Deciders::default(),
            within_s: DEFAULT_WITHIN_S,
            on_expiry: OnExpiry::Reject,
        }
    }

    /// Of the rule in force and another one that asks as well: as many have to approve as in either, the
    /// owner is one of them only if both say so, and a wait expires as soon as in either, and into a
    /// rejection unless both approve. Who else decides is said by the rule in force.
    pub(crate) fn stricter(in_force: Self, other: &Self) -> Self {
        let Deciders { count, own, .. } = &other.deciders;
        let deciders = Deciders {
            count: in_force.deciders.count.max(*count),
            own: in_force.deciders.own && *own,
            ..in_force.deciders
        };
        let on_expiry = match (in_force.on_expiry, other.on_expiry) {
            (OnExpiry::Approve, OnExpiry::Approve) => OnExpiry::Approve,
            _ => OnExpiry::Reject,
        };
        Self { deciders, within_s: in_force.within_s.min(other.within_s), on_expiry, ..in_force }
    }

    /// Whether somebody has to approve a call of a tool with these hints. Arguments that cost too much to
    /// check pass nowhere.
    pub fn asks(&self, hints: &ToolHints, arguments: &Value) -> bool {
        let is_meant = match self.when {
            ApproveWhen::Always => true,
            ApproveWhen::Destructive => hints.destructive.unwrap_or(self.unhinted),
        };
        let passes = |pass: &PassSchema| pass.schema.check(arguments, "they", &mut Fuel::inline()).is_ok();
        is_meant && !self.pass.as_ref().is_some_and(passes)
    }
}
