//! The content of a message: a text, or a list of parts that are texts.

use serde_json::Value;

use super::problem::Problem;

/// The text of a content that has to be there. `param` says where it stands.
pub(super) fn text(content: Option<&Value>, param: &str) -> Result<String, Problem> {
    match content {
        None | Some(Value::Null) => Err(Problem::missing(param)),
        Some(content) => text_if_any(Some(content), param),
    }
}

/// The same of one that may be absent: that is no text.
pub(super) fn text_if_any(content: Option<&Value>, param: &str) -> Result<String, Problem> {
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

fn of_part<'a>(part: &'a Value, param: &str) -> Result<&'a str, Problem> {
    let field = |name: &str| part.get(name).and_then(Value::as_str);
    let kind = field("type").ok_or_else(|| Problem::wrong_type(format!("{param}.type"), "a string"))?;
    let text = match kind {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        _ => {
            let why = "The agent reads texts only: no images, no audio, no files.";
            return Err(Problem::unsupported_value(format!("{param}.type"), why));
        }
    };
    field(text).ok_or_else(|| Problem::wrong_type(format!("{param}.{text}"), "a string"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        }
        for (content, code, param) in [
            (json!(null), "missing_required_parameter", "c"),
            (json!(1), "invalid_type", "c"),
            (json!([1]), "invalid_type", "c[0].type"),
            (json!([{"type": "text"}]), "invalid_type", "c[0].text"),
            (json!([{"type": "text", "text": "a"}, {"type": "image_url"}]), "unsupported_value", "c[1].type"),
            (json!([{"type": "input_image"}]), "unsupported_value", "c[0].type"),
        ] {
            let error = &text(Some(&content), "c").unwrap_err().body()["error"];
            assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{content}");
        }
    }
}
