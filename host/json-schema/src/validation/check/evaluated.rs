//! What `unevaluatedItems` and `unevaluatedProperties` have to know: the items and members that other
//! keywords of the same schema looked at. The schemas that apply to the same value are held against it once
//! more for that.

use serde_json::Value;

use super::{At, Check, Holds, text_steps};
use crate::validation::fuel::Exhausted;
use crate::validation::rules::{Id, Keyword, Part};

impl Check<'_, '_> {
    /// Marks the members or items of a value that the keywords of a part look at beside its own
    /// `unevaluated*`, those of the parts that it applies to the same value included. The value is an array
    /// or an object.
    pub(super) fn mark_beside(
        &mut self,
        id: Id,
        value: &Value,
        seen: &mut [bool],
        at: &At<'_>,
    ) -> Result<(), Exhausted> {
        let rules = self.rules;
        let Some(Part::All(keywords)) = rules.part(id) else { return Ok(()) };
        for keyword in keywords {
            if !matches!(keyword, Keyword::UnevaluatedItems(_) | Keyword::UnevaluatedProperties(_)) {
                self.mark_keyword(keyword, value, seen, at)?;
            }
        }
        Ok(())
    }

    /// Marks what all keywords of a part look at.
    fn mark(&mut self, id: Id, value: &Value, seen: &mut [bool], at: &At<'_>) -> Result<(), Exhausted> {
        self.fuel.spend(1)?;
        let rules = self.rules;
        let Some(Part::All(keywords)) = rules.part(id) else { return Ok(()) };
        keywords.iter().try_for_each(|keyword| self.mark_keyword(keyword, value, seen, at))
    }

    fn mark_keyword(
        &mut self,
        keyword: &Keyword,
        value: &Value,
        seen: &mut [bool],
        at: &At<'_>,
    ) -> Result<(), Exhausted> {
        self.fuel.spend(1)?;
        match keyword {
            Keyword::Ref(part) => self.mark(*part, value, seen, at)?,
            Keyword::AllOf(parts) => {
                for part in parts {
                    self.mark(*part, value, seen, at)?;
                }
            }
            Keyword::AnyOf(parts) | Keyword::OneOf(parts) => {
                for part in parts {
                    self.mark_if(*part, value, seen, at)?;
                }
            }
            Keyword::If { condition, then, otherwise } => {
                let holds = self.mark_if(*condition, value, seen, at)?;
                if let Some(branch) = if holds { then } else { otherwise } {
                    self.mark(*branch, value, seen, at)?;
                }
            }
            Keyword::DependentSchemas(dependents) => {
                for (name, part) in dependents {
                    self.fuel.spend(text_steps(name))?;
                    if value.get(name).is_some() {
                        self.mark(*part, value, seen, at)?;
                    }
                }
            }
            own => self.mark_own(own, value, seen, at)?,
        }
        Ok(())
    }

    fn mark_if(&mut self, id: Id, value: &Value, seen: &mut [bool], at: &At<'_>) -> Holds {
        let holds = self.quietly(id, value, at)?;
        if holds {
            self.mark(id, value, seen, at)?;
        }
        Ok(holds)
    }

    /// Marks what one keyword looks at by itself.
    fn mark_own(
        &mut self,
        keyword: &Keyword,
        value: &Value,
        seen: &mut [bool],
        at: &At<'_>,
    ) -> Result<(), Exhausted> {
        match (keyword, value) {
            (Keyword::PrefixItems(parts), Value::Array(_)) => {
                seen.iter_mut().take(parts.len()).for_each(|seen| *seen = true);
            }
            (Keyword::Items { from, .. }, Value::Array(_)) => {
                self.fuel.spend(seen.len() as u64 / 8)?;
                seen.iter_mut().skip(*from).for_each(|seen| *seen = true);
            }
            (Keyword::UnevaluatedItems(_), Value::Array(_))
            | (Keyword::UnevaluatedProperties(_), Value::Object(_)) => {
                self.fuel.spend(seen.len() as u64 / 8)?;
                seen.fill(true);
            }
            (Keyword::Contains { schema, .. }, Value::Array(items)) => {
                for (item, seen) in items.iter().zip(seen) {
                    *seen |= self.quietly(*schema, item, at)?;
                }
            }
            (Keyword::Members(rules), Value::Object(members)) => {
                for (name, seen) in members.keys().zip(seen) {
                    self.fuel.spend(text_steps(name))?;
                    *seen |= rules.other.is_some() || rules.named.contains_key(name);
                    for (pattern, _) in &rules.matching {
                        *seen = *seen || pattern.is_match(name, self.fuel)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
