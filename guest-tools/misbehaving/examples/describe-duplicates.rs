//! A component with two tools of one name.

#[macro_use]
mod describing;

export_description! {
    "twin", "The first of two tools of one name.", r#"{"type":"object"}"#;
    "twin", "The second of two tools of one name.", r#"{"type":"object"}"#;
}
