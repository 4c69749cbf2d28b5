//! What is said of the answers of one status.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// What is said of the answers of one status.
#[derive(Debug, Clone, Default)]
pub(super) struct DescribedAnswer {
    /// One line, as all answers of the status have it.
    pub(super) descriptions: BTreeSet<String>,
    pub(super) headers: BTreeSet<String>,
    /// By media type.
    pub(super) content: BTreeMap<&'static str, Content>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) schemas: Vec<Value>,
    pub(super) examples: Map<String, Value>,
}

impl DescribedAnswer {
    pub(super) fn to_json(&self) -> Value {
        let description: Vec<_> = self.descriptions.iter().map(String::as_str).collect();
        let headers: Map<_, _> = self
            .headers
            .iter()
            .map(|name| (name.clone(), json!({ "$ref": format!("#/components/headers/{name}") })))
            .collect();
        let content: Map<_, _> =
            self.content.iter().map(|(media, content)| ((*media).to_owned(), content.to_json())).collect();
        let mut json = json!({ "description": description.join("; "), "headers": headers });
        if let (Value::Object(fields), false) = (&mut json, content.is_empty()) {
            fields.insert("content".to_owned(), content.into());
        }
        json
    }
}

impl Content {
    fn to_json(&self) -> Value {
        let schema = match self.schemas.as_slice() {
            [only] => only.clone(),
            several => json!({ "anyOf": several }),
        };
        if self.examples.is_empty() {
            return json!({ "schema": schema });
        }
        json!({ "schema": schema, "examples": self.examples })
    }
}
