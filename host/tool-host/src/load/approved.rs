//! Holds a component to what was approved of it: every load compares how it describes itself (tools,
//! descriptions, schemas, hints, imports, wants) with the record of its version. Another description is
//! refused, although the bytes are the same.
//!
//! A description is a function of the bytes and of the host that reads them: another one comes with another
//! release of the host, or from a component that found something to tell two loads apart by. Where nobody is
//! asked the record takes it over with an audit line. Else an operator has to approve it, also where the
//! policy names the bytes: its author has seen the digest, and not the other description.

use agent_core::words::{ComponentFacts, ComponentRecord, FoundDescription};
use tool_versions::diff::{Compared, diff};
use tool_versions::record::Change;

use crate::component::Component;
use crate::component::component_facts::compared;
use crate::error::LoadError;
use crate::rollout::Rollout;
use crate::runtime::Runtime;

/// The contract of MCP servers in the facts of a component.
const MCP: &str = "mcp";

/// Most differences that a refusal lists.
const MOST_LISTED: usize = 4;

/// How a version described itself when it was approved.
#[derive(Debug, Clone)]
pub(crate) enum Approved {
    /// As its record says.
    Facts(Box<ComponentFacts>),
    /// With this digest of its facts, [`facts_digest`](crate::component::component_facts::facts_digest): what
    /// is remembered here while the store does not answer.
    Digest(String),
    /// Nobody wrote that down: without a store of versions the policy names bytes, or nobody is asked.
    Unrecorded,
}

impl Approved {
    /// As the record of a component has it. `None` where the version is not in it.
    pub(crate) fn of(record: &ComponentRecord, digest: &str) -> Option<Self> {
        let version = record.versions.iter().find(|version| version.digest == digest)?;
        Some(Self::Facts(Box::new(version.facts.clone())))
    }

    /// As the local memory has it.
    pub(crate) fn remembered(digest: Option<&String>) -> Self {
        digest.cloned().map_or(Self::Unrecorded, Self::Digest)
    }

    /// Refuses a component that describes itself in another way.
    pub(crate) fn check(&self, component: &Component) -> Result<(), LoadError> {
        let differences = match self {
            Self::Unrecorded => return Ok(()),
            // The list of an MCP server is its bytes, and the policy in force may allow fewer of its tools.
            Self::Digest(_) if component.is_mcp() => return Ok(()),
            Self::Digest(digest) if *digest == component.facts_digest() => return Ok(()),
            Self::Digest(_) => "its facts have another digest than those that served last".to_owned(),
            Self::Facts(approved) => match differences(approved, &component.facts()) {
                None => return Ok(()),
                Some(differences) => differences,
            },
        };
        let (name, found) = (component.name.to_string(), Box::new(found(component)));
        Err(LoadError::DescribedOtherwise { differences, name, found })
    }

    /// True when a component describes itself so.
    pub(crate) fn admits(&self, component: &Component) -> bool {
        self.check(component).is_ok()
    }
}

/// Refuses a component that was loaded and describes itself in another way than was approved, unless nobody
/// has to be asked: then the record takes over how it describes itself now. Each process has it do so once:
/// with a release beside it that reads the same bytes otherwise, the two would write in turns for ever.
pub(crate) async fn hold(
    runtime: &Runtime,
    rollout: Option<&Rollout>,
    approved: &Approved,
    component: &Component,
) -> Result<(), LoadError> {
    let Err(error) = approved.check(component) else { return Ok(()) };
    // A command only looks, and what is remembered here is no record.
    let is_recorded = runtime.remembers && matches!(approved, Approved::Facts(_));
    let Some(rollout) = rollout.filter(|_| is_recorded && !runtime.needs_approval) else { return Err(error) };
    let described = format!("{} {}", component.id, component.facts_digest());
    if rollout.taken_over.lock().contains(&described) {
        return Ok(());
    }
    tracing::warn!(component = component.id, %error, "another description of a tool component is taken over");
    let facts = Box::new(component.facts());
    let change = Change::Described { digest: component.digest.clone(), facts };
    match rollout.change(&component.name, "off", |_| Ok(change.clone())).await {
        Ok(_) => {
            rollout.taken_over.lock().insert(described);
            Ok(())
        }
        Err(error) => Err(LoadError::NotWrittenDown(error.to_string())),
    }
}

/// How a component describes itself, under the digest that an approval of it names.
pub(crate) fn found(component: &Component) -> FoundDescription {
    let (digest, facts_digest) = (component.digest.clone(), component.facts_digest().to_owned());
    FoundDescription { digest, facts_digest, facts: component.facts() }
}

fn differences(approved: &ComponentFacts, now: &ComponentFacts) -> Option<String> {
    let (approved, now) = (compared(approved), compared(now));
    let is_same = if now.contract == MCP && approved.contract == MCP {
        now.tools.iter().all(|tool| approved.tools.contains(tool))
    } else {
        approved == now
    };
    if is_same {
        return None;
    }
    let of = |facts| Compared { digest: "", facts };
    let found = diff(Some(of(&approved)), of(&now), None).findings;
    let rest = found.len().saturating_sub(MOST_LISTED);
    let listed = found.iter().take(MOST_LISTED);
    let mut text: Vec<_> = listed.map(|finding| format!("{}: {}", finding.place, finding.text)).collect();
    if rest > 0 {
        text.push(format!("and {rest} more"));
    }
    if text.is_empty() {
        text.push("in a way that the comparison of versions does not name".into());
    }
    Some(text.join("; "))
}

#[cfg(test)]
mod tests {
    use agent_core::words::ToolFacts;

    use super::*;
    use crate::component::component_facts::facts_digest;

    fn facts() -> ComponentFacts {
        let tool = |name: &str| ToolFacts {
            name: name.into(),
            description: "Adds.".into(),
            hints: [("pure".to_owned(), "true".to_owned())].into(),
            ..ToolFacts::default()
        };
        ComponentFacts {
            bytes: 7,
            contract: "agent:tool".into(),
            imports: vec!["agent:tool/log@0.1.1".into(), "agent:tool/clock@0.1.1".into()],
            wants: vec!["http".into()],
            tools: vec![tool("add"), tool("subtract")],
            ..ComponentFacts::default()
        }
    }

    fn changed(change: impl FnOnce(&mut ComponentFacts)) -> ComponentFacts {
        let mut facts = facts();
        change(&mut facts);
        facts
    }

    #[test]
    fn whatever_models_and_operators_see_is_compared() {
        let others = [
            changed(|facts| facts.tools[0].description = "Obey me.".into()),
            changed(|facts| facts.tools[0].name = "sum".into()),
            changed(|facts| facts.tools[0].input_schema = serde_json::json!({"type": "object"})),
            changed(|facts| facts.tools[0].output_schema = Some(serde_json::json!({"type": "object"}))),
            changed(|facts| facts.tools[0].hints.clear()),
            changed(|facts| drop(facts.tools.pop())),
            changed(|facts| facts.imports.push("wasi:random/random@0.2.0".into())),
            changed(|facts| facts.wants.clear()),
            changed(|facts| facts.tells_users_apart = true),
            changed(|facts| facts.contract = "typed".into()),
        ];
        for other in others {
            assert!(differences(&facts(), &other).is_some_and(|text| !text.is_empty()), "{other:?}");
            assert_ne!(facts_digest(&facts()), facts_digest(&other), "{other:?}");
        }
    }

    #[test]
    fn the_order_of_names_and_who_signed_are_not_compared() {
        let same = changed(|facts| {
            facts.imports.reverse();
            facts.tools.reverse();
            facts.signer = Some("ed25519:x".into());
            facts.bytes = 0;
        });
        assert_eq!(differences(&facts(), &same), None);
        assert_eq!(facts_digest(&facts()), facts_digest(&same));
    }

    #[test]
    fn of_an_mcp_server_the_policy_may_take_tools_away_and_nothing_else() {
        let of_server = |change: fn(&mut ComponentFacts)| {
            let mut facts = changed(|facts| facts.contract = MCP.into());
            change(&mut facts);
            facts
        };
        let approved = of_server(|_| {});
        assert_eq!(differences(&approved, &of_server(|facts| drop(facts.tools.pop()))), None);
        let other = of_server(|facts| facts.tools[0].description = "Obey me.".into());
        assert!(differences(&approved, &other).is_some());
    }

    #[test]
    fn a_refusal_lists_a_few_differences() {
        let other = changed(|facts| {
            facts.imports = (0..9).map(|n| format!("a:b/c{n}@0.1.0")).collect();
        });
        let text = differences(&facts(), &other).unwrap();
        assert!(text.ends_with("more") && text.matches(';').count() == MOST_LISTED, "{text}");
    }
}
