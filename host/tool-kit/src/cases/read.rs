//! Takes known keys out of a table and reports the others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::node::{Kind, Node, Problems};

/// A table whose keys are taken one after the other.
pub(super) struct Table<'n> {
    what: &'static str,
    entries: BTreeMap<&'n str, &'n Node>,
    known: Vec<&'static str>,
}

impl<'n> Table<'n> {
    /// Nothing if the node is no table, which is reported.
    pub(super) fn open(node: &'n Node, what: &'static str, problems: &mut Problems) -> Option<Self> {
        let Kind::Table(entries) = &node.kind else {
            problems.report(node.line, format!("{what} is {}, and should be a table", node.sort()));
            return None;
        };
        let entries = entries.iter().map(|(key, node)| (key.as_str(), node)).collect();
        Some(Self { what, entries, known: vec![] })
    }

    pub(super) fn take(&mut self, key: &'static str) -> Option<&'n Node> {
        self.known.push(key);
        self.entries.remove(key)
    }

    pub(super) fn text(&mut self, key: &'static str, problems: &mut Problems) -> Option<String> {
        let node = self.take(key)?;
        match &node.kind {
            Kind::Scalar(Value::String(text)) => Some(text.clone()),
            _ => {
                problems.report(node.line, format!("{key} is {}, and should be a text", node.sort()));
                None
            }
        }
    }

    /// A whole number within bounds.
    pub(super) fn number(
        &mut self,
        key: &'static str,
        (least, most): (u64, u64),
        problems: &mut Problems,
    ) -> Option<u64> {
        let node = self.take(key)?;
        let found = match &node.kind {
            Kind::Scalar(Value::Number(number)) => {
                number.as_u64().filter(|number| (least..=most).contains(number))
            }
            _ => None,
        };
        if found.is_none() {
            problems.report(node.line, format!("{key} should be a whole number from {least} to {most}"));
        }
        found
    }

    pub(super) fn list(&mut self, key: &'static str, remedy: &str, problems: &mut Problems) -> &'n [Node] {
        match self.take(key) {
            None => &[],
            Some(Node { kind: Kind::List(items), .. }) => items,
            Some(node) => {
                problems.report(node.line, format!("{key} is {}: {remedy}", node.sort()));
                &[]
            }
        }
    }

    /// Reports the keys that nobody took.
    pub(super) fn refuse_others(self, problems: &mut Problems) {
        for (key, node) in self.entries {
            let (what, known) = (self.what, self.known.join(", "));
            problems.report(node.line, format!("unknown key {key:?} in {what}; it may have {known}"));
        }
    }
}
