//! A parameter of a route: of its path, its query string or its headers.

use serde_json::{Map, Value};

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
        let mut parameter = Map::new();
        parameter.insert("in".to_owned(), place.into());
        parameter.insert("name".to_owned(), name.into());
        parameter.insert("description".to_owned(), description.into());
        parameter.insert("schema".to_owned(), schema);
        Self(parameter.into())
    }

    /// Makes the parameter one that may not be absent.
    pub fn required(mut self) -> Self {
        if let Value::Object(fields) = &mut self.0 {
            fields.insert("required".to_owned(), true.into());
        }
        self
    }
}
