//! The content of a message: a text, or a list of parts that are texts; what a user says may have images as
//! well.

use agent_core::words::{ContentPart, UserContent};
use serde_json::Value;

use super::images;
use http_edge::variant_b::error::Problem;

/// The text of a content that has to be there. `param` says where it stands.
pub(crate) fn text(content: Option<&Value>, param: &str) -> Result<String, Problem> {
    match content {
        None | Some(Value::Null) => Err(Problem::missing(param)),
        Some(content) => text_if_any(Some(content), param),
    }
}

/// Text of a content that may be absent: an absent one is no text.
pub(crate) fn text_if_any(content: Option<&Value>, param: &str) -> Result<String, Problem> {
    match content {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => {
            let read = |(index, part)| of_part(part, &format!("{param}[{index}]"));
            let texts: Vec<_> = parts.iter().enumerate().map(read).collect::<Result<_, _>>()?;
            Ok(texts.join("\n"))
        }
        Some(_) => Err(Problem::wrong_type(param, "a string or a list of parts")),
    }
}

/// What a user says.
pub(crate) fn of_user(content: Option<&Value>, param: &str) -> Result<UserContent, Problem> {
    let Some(Value::Array(parts)) = content else { return text(content, param).map(UserContent::Text) };
    let read = |(index, part)| of_user_part(part, &format!("{param}[{index}]"));
    let parts = parts.iter().enumerate().map(read).collect::<Result<_, _>>()?;
    Ok(UserContent::of_parts(parts))
}

fn of_user_part(part: &Value, param: &str) -> Result<ContentPart, Problem> {
    match part.get("type").and_then(Value::as_str) {
        Some(kind) if images::KINDS.contains(&kind) => {
            images::read(part, kind, param).map(ContentPart::Image)
        }
        _ => of_part(part, param).map(|text| ContentPart::Text { text: text.to_owned() }),
    }
}

fn of_part<'a>(part: &'a Value, param: &str) -> Result<&'a str, Problem> {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    let kind = field("type").ok_or_else(|| Problem::wrong_type(format!("{param}.type"), "a string"))?;
    let text = match kind {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        _ => {
            let is_image = images::KINDS.contains(&kind);
            let of_users = "Only what the user says may have images.";
            let why =
                if is_image { of_users } else { "The agent reads texts and images: no audio, no files." };
            return Err(Problem::unsupported_value(format!("{param}.type"), why));
        }
    };
    field(text).ok_or_else(|| Problem::wrong_type(format!("{param}.{text}"), "a string"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::check_refused;
    use super::*;

    #[test]
    fn texts_are_read_in_every_form_and_nothing_else_is() {
        for (content, read) in [
            (json!("hi"), "hi"),
            (json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}]), "a\nb"),
            (json!([{"type": "output_text", "text": "a", "annotations": []}]), "a"),
            (json!([{"type": "refusal", "refusal": "no"}]), "no"),
            (json!([]), ""),
        ] {
            assert_eq!(text(Some(&content), "c").as_deref(), Ok(read), "{content}");
            assert_eq!(of_user(Some(&content), "c"), Ok(read.into()), "{content}");
        }
        for (content, code, param) in [
            (json!(null), "missing_required_parameter", "c"),
            (json!(1), "invalid_type", "c"),
            (json!([1]), "invalid_type", "c[0].type"),
            (json!([{"type": "text"}]), "invalid_type", "c[0].text"),
            (json!([{"type": "text", "text": "a"}, {"type": "image_url"}]), "unsupported_value", "c[1].type"),
            (json!([{"type": "input_image"}]), "unsupported_value", "c[0].type"),
            (json!([{"type": "input_audio"}]), "unsupported_value", "c[0].type"),
        ] {
            check_refused(text(Some(&content), "c"), code, param);
        }
        for (content, code, param) in [
            (json!(null), "missing_required_parameter", "c"),
            (json!(1), "invalid_type", "c"),
            (json!([1]), "invalid_type", "c[0].type"),
            (json!([{"type": "file"}]), "unsupported_value", "c[0].type"),
            (
                json!([{"type": "text", "text": "a"}, {"type": "image_url"}]),
                "missing_required_parameter",
                "c[1].image_url",
            ),
        ] {
            check_refused(of_user(Some(&content), "c"), code, param);
        }
    }
}
