//! A component that describes a tool which `call` does not know.

#[macro_use]
mod describing;

export_description! { "promise", "Described, but not there when it is called.", r#"{"type":"object"}"#; }
