//! A component with a tool whose name the contract does not allow.

#[macro_use]
mod describing;

export_description! { "Not a name!", "Its name has capitals, blanks and a mark.", r#"{"type":"object"}"#; }
