//! A parameter of a route: of its path, its query string or its headers.

use serde_json::{Value, json};

use crate::request::Field;

/// A parameter of a route.
#[derive(Debug, Clone)]
pub struct Parameter(pub Value);

impl Parameter {
    pub fn of(place: &str, field: &Field) -> Self {
        Self::new(place, field.name, field.description(), field.schema())
    }

    /// A header, which may be absent.
    pub fn header(name: &str, description: &str, schema: Value) -> Self {
        Self::new("header", name, description, schema)
    }

    fn new(place: &str, name: &str, description: &str, schema: Value) -> Self {
        let mut parameter = json!({ "in": place, "name": name, "description": description });
        parameter["schema"] = schema;
        Self(parameter)
    }

    /// Makes the parameter one that may not be absent.
    pub fn required(mut self) -> Self {
        self.0["required"] = true.into();
        self
    }
}
