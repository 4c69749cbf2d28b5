//! A component with a tool whose input schema is JSON, but no JSON Schema.

#[macro_use]
mod describing;

export_description! {
    "badly_typed", "Its schema has a type that JSON Schema does not know.",
    r#"{"type":"obstacle","properties":[]}"#;
}
