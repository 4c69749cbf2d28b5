//! What a provider says in the body of an error. Servers that speak a provider's protocol rarely copy its
//! errors, hence the many shapes.

use serde_json::Value;

use crate::transport::ERROR_LIMIT;

/// The provider's own words for what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Complaint {
    /// Not cut, not scrubbed.
    pub(crate) message: String,
    /// The status that a gateway passes on inside a body whose own status is 200.
    pub(crate) status: Option<u16>,
    /// The parameter it is about.
    pub(crate) parameter: Option<String>,
}

impl Complaint {
    /// The complaint in a body, if it holds one. A body too long for an error is a reply, however bad, and as
    /// a tree of values would take up many times its size.
    pub(crate) fn read(body: &[u8]) -> Option<Self> {
        if body.len() > ERROR_LIMIT {
            return None;
        }
        let body: Value = serde_json::from_slice(body).ok()?;
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(&body);
        let message = match error {
            Value::String(text) => text.clone(),
            _ => ["message", "detail", "msg"]
                .iter()
                .find_map(|key| error.get(key))
                .map(|text| text.as_str().map_or_else(|| text.to_string(), str::to_owned))?,
        };
        let kind = error.get("type").and_then(Value::as_str).filter(|kind| !message.contains(kind));
        Some(Self {
            message: kind.map_or_else(|| message.clone(), |kind| format!("{kind}: {message}")),
            status: error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()),
            parameter: error.get("param").and_then(Value::as_str).map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_come_in_many_shapes() {
        for (body, expected) in [
            (r#"{"error":{"message":"no","type":"invalid","param":"temperature"}}"#, Some("invalid: no")),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, {
                Some("overloaded_error: Overloaded")
            }),
            (r#"{"error":"model not found"}"#, Some("model not found")),
            (r#"{"object":"error","message":"too long","code":40303}"#, Some("too long")),
            (r#"{"detail":[{"loc":["body"]}]}"#, Some(r#"[{"loc":["body"]}]"#)),
            (r#"{"error":null,"message":"m"}"#, Some("m")),
            (r#"{"choices":[]}"#, None),
            ("<html>", None),
            ("", None),
        ] {
            let message = Complaint::read(body.as_bytes()).map(|complaint| complaint.message);
            assert_eq!(message.as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn a_body_too_long_for_an_error_is_not_taken_apart() {
        let body = |padding: usize| format!(r#"{{"error":"no"}}{}"#, " ".repeat(padding));
        let longest = ERROR_LIMIT - body(0).len();
        assert!(Complaint::read(body(longest).as_bytes()).is_some());
        assert!(Complaint::read(body(longest + 1).as_bytes()).is_none());
    }

    #[test]
    fn the_parameter_and_a_gateways_status_are_found() {
        let body = br#"{"error":{"message":"busy","code":429,"param":"top_p"}}"#;
        let complaint = Complaint::read(body).unwrap();
        assert_eq!((complaint.status, complaint.parameter.as_deref()), (Some(429), Some("top_p")));
    }
}
