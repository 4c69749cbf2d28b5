//! A component with a tool that must have an argument which its schema forbids.

#[macro_use]
mod describing;

export_description! {
    "find", "Finds pages by their words. Use it for facts.",
    r#"{"type":"object","properties":{"query":{"type":"string","description":"What to find.",
        "maxLength":100}},"required":["qurey"],"additionalProperties":false}"#;
}
