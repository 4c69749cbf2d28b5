//! What operators are shown of a component: its tools, what it imports and what of that is the policy's to
//! grant.

use agent_core::words::{ComponentFacts, ToolFacts};
use tool_policy::sha256;

use super::Component;
use super::call_interface::CallInterface;
use super::definition::Definition;

impl Component {
    /// What it is, as far as operators and models can see it.
    pub(crate) fn facts(&self) -> ComponentFacts {
        let mut tools: Vec<_> = self.tools.iter().map(|tool| tool.facts()).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        ComponentFacts {
            bytes: self.bytes,
            contract: match &self.call_interface {
                CallInterface::Contract(_) => "agent:tool".into(),
                CallInterface::Typed { .. } => "typed".into(),
                CallInterface::Mcp { .. } => "mcp".into(),
            },
            imports: self.imports.clone(),
            wants: self.wants.iter().map(|want| want.as_str().to_owned()).collect(),
            tells_users_apart: self.tells_users_apart,
            signer: self.signer.as_ref().map(|signer| signer.key().to_string()),
            tools,
        }
    }

    /// The digest of how it describes itself.
    pub(crate) fn facts_digest(&self) -> &str {
        self.facts_digest.get_or_init(|| facts_digest(&self.facts()))
    }
}

impl Definition {
    fn facts(&self) -> ToolFacts {
        ToolFacts {
            name: self.spec.name.clone(),
            description: self.spec.description.clone(),
            input_schema: self.spec.input_schema.clone(),
            output_schema: self.output_schema().cloned(),
            hints: self.hints.iter().cloned().collect(),
        }
    }
}

/// The digest of what is compared of a component.
pub(crate) fn facts_digest(facts: &ComponentFacts) -> String {
    let json = serde_json::to_vec(&compared(facts)).unwrap_or_default();
    sha256(json)
}

/// The part that is compared: the bytes are those of the digest, and the signer is for the policy of the day.
pub(crate) fn compared(facts: &ComponentFacts) -> ComponentFacts {
    let mut compared = ComponentFacts { bytes: 0, signer: None, ..facts.clone() };
    compared.imports.sort_unstable();
    compared.wants.sort_unstable();
    compared.tools.sort_by(|one, other| one.name.cmp(&other.name));
    compared
}
