//! What a call of a tool of an MCP server returned, as components' tools return it: JSON, or a failure in
//! words.

use json_schema::text_sanitizer::printable;
use serde_json::Value;

use crate::error::McpError;

/// Names and addresses in notes are whole: secrets are looked for in what comes of this, and half of one is
/// not found.
const WHOLE: usize = usize::MAX;

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpAnswer {
    /// JSON text.
    Value(String),
    /// The tool's own failure.
    Failure(String),
}

impl McpAnswer {
    /// Reads the result of `tools/call`. Structured content is the value. Without it the value is the text:
    /// as it is if it is a JSON object or list, else as a JSON string.
    pub(crate) fn read(result: &Value) -> Result<Self, McpError> {
        let content = match result.get("content") {
            Some(Value::Array(content)) => content.as_slice(),
            Some(_) => return Err(McpError::protocol("the content of an answer is no list")),
            None => &[],
        };
        let structured = result.get("structuredContent").filter(|value| !value.is_null());
        if content.is_empty() && structured.is_none() && result.get("content").is_none() {
            return Err(McpError::protocol("an answer has no content"));
        }
        if result.get("isError").and_then(Value::as_bool).unwrap_or(false) {
            let text = text_of(content);
            let text = if text.is_empty() { structured.map(ToString::to_string) } else { Some(text) };
            return Ok(Self::Failure(text.unwrap_or_else(|| "it does not say why".into())));
        }
        Ok(Self::Value(match structured {
            Some(value) => value.to_string(),
            None => value_of(text_of(content)),
        }))
    }
}

fn value_of(text: String) -> String {
    let trimmed = text.trim();
    let is_structure = trimmed.starts_with(['{', '[']);
    if is_structure && serde_json::from_str::<serde::de::IgnoredAny>(trimmed).is_ok() {
        return trimmed.to_owned();
    }
    Value::String(text).to_string()
}

/// The texts, and a note for what is none.
fn text_of(content: &[Value]) -> String {
    let parts: Vec<_> = content.iter().map(part).collect();
    parts.join("\n\n")
}

fn part(block: &Value) -> String {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    let kind = field("type").unwrap_or("unknown");
    match kind {
        "text" => field("text").unwrap_or_default().to_owned(),
        "image" | "audio" => {
            let bytes = field("data").map_or(0, str::len) / 4 * 3;
            let mime = printable(field("mimeType").unwrap_or("unknown type"), WHOLE);
            let article = if kind == "image" { "an" } else { "a piece of" };
            format!("[{article} {kind} ({mime}, about {bytes} bytes) was returned and is left out]")
        }
        "resource_link" => {
            let uri = printable(field("uri").unwrap_or_default(), WHOLE);
            let name = printable(field("name").unwrap_or_default(), WHOLE);
            format!("[a link to the resource {name:?}: {uri}]")
        }
        "resource" => resource(block.get("resource").unwrap_or(&Value::Null)),
        kind => format!("[content of the type {:?} is left out]", printable(kind, WHOLE)),
    }
}

fn resource(resource: &Value) -> String {
    let field = |name: &str| resource.get(name).and_then(Value::as_str);
    match (field("text"), field("blob")) {
        (Some(text), _) => text.to_owned(),
        (None, blob) => {
            let uri = printable(field("uri").unwrap_or_default(), WHOLE);
            let bytes = blob.map_or(0, str::len) / 4 * 3;
            format!(
                "[the resource {uri} (about {bytes} bytes that are no text) was returned and is left out]"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(result: &Value) -> String {
        match McpAnswer::read(result).unwrap() {
            McpAnswer::Value(value) => value,
            McpAnswer::Failure(text) => panic!("{text}"),
        }
    }

    #[test]
    fn structured_content_goes_before_text_and_text_is_json_or_a_string() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let both = json!({ "content": [text("{\"a\": 1}")], "structuredContent": { "a": 2 } });
        assert_eq!(value(&both), r#"{"a":2}"#);
        for (said, expected) in [
            ("hello", r#""hello""#),
            ("{\"a\": 1}\n", "{\"a\": 1}"),
            ("{not json", r#""{not json""#),
            ("5", r#""5""#),
            ("", r#""""#),
        ] {
            assert_eq!(value(&json!({ "content": [text(said)] })), expected, "{said}");
        }
        assert_eq!(value(&json!({ "content": [text("a"), text("b")] })), r#""a\n\nb""#);
        assert_eq!(value(&json!({ "content": [] })), r#""""#);
    }

    #[test]
    fn what_is_no_text_is_a_note() {
        let image = json!({ "type": "image", "data": "AAAA".repeat(100), "mimeType": "image/png" });
        let blob = json!({ "type": "resource", "resource": { "uri": "file:///x", "blob": "AAAA" } });
        let other = json!({ "type": "video" });
        let found = value(&json!({ "content": [image, blob, other] }));
        assert!(found.contains("an image (image/png, about 300 bytes)"), "{found}");
        assert!(
            found.contains("the resource file:///x (about 3 bytes") && found.contains("video"),
            "{found}"
        );
        assert!(!found.contains("AAAA"), "{found}");
    }

    #[test]
    fn an_error_is_the_tools_failure() {
        let failure = |result: &Value| McpAnswer::read(result).unwrap();
        let said = json!({ "isError": true, "content": [{ "type": "text", "text": "no such city" }] });
        assert_eq!(failure(&said), McpAnswer::Failure("no such city".into()));
        let silent = json!({ "isError": true, "content": [] });
        assert_eq!(failure(&silent), McpAnswer::Failure("it does not say why".into()));
        for bad in [json!({}), json!({ "content": "text" })] {
            assert!(matches!(McpAnswer::read(&bad), Err(McpError::Protocol(_))), "{bad}");
        }
    }
}
