//! A component whose description is 64 MiB long.

#[macro_use]
mod describing;

export_description! { "flood", "x".repeat(64 << 20), r#"{"type":"object"}"#; }
