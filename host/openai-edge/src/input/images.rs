//! Images in what a user says: `image_url` of chat completions, `input_image` of responses. They are handed
//! to the provider as they are; an image at an `https:` URL is fetched by the provider, never from here.

use agent_core::words::{
    IMAGE_TYPES, Image, ImageDetail, ImageFault, LONGEST_IMAGE_PATH, LONGEST_IMAGE_URL, MOST_IMAGES, Message,
};
use serde_json::{Value, json};

use http_edge::openapi::schema_parts::always;
use http_edge::variant_b::error::Problem;

/// The types of parts that are images: that of chat completions, and that of responses.
pub(crate) const KINDS: [&str; 2] = ["image_url", "input_image"];

/// A detail that only the newest models know, and that clients of OpenAI may send to any. It is read as
/// `high`, the closest look that all of them know.
const ORIGINAL: &str = "original";

/// The image that a part of the type `kind` is, one of [`KINDS`].
pub(crate) fn read(part: &Value, kind: &str, param: &str) -> Result<Image, Problem> {
    let at = format!("{param}.image_url");
    let field = |name: &str| part.get(name).filter(|value| !value.is_null());
    if field("file_id").is_some() {
        let why = "No files are kept here: send the image as a data: URL, or its https: URL.";
        return Err(Problem::unsupported_value(format!("{param}.file_id"), why));
    }
    let image = field("image_url").ok_or_else(|| Problem::missing(&at))?;
    if kind == "input_image" {
        let url = image.as_str().ok_or_else(|| Problem::wrong_type(&at, "a string"))?;
        return new(url, field("detail"), &at, &format!("{param}.detail"));
    }
    let Value::Object(fields) = image else { return Err(Problem::wrong_type(&at, "an object")) };
    let (at_url, at_detail) = (format!("{at}.url"), format!("{at}.detail"));
    let url = fields.get("url").filter(|url| !url.is_null()).ok_or_else(|| Problem::missing(&at_url))?;
    let url = url.as_str().ok_or_else(|| Problem::wrong_type(&at_url, "a string"))?;
    new(url, fields.get("detail").filter(|detail| !detail.is_null()), &at_url, &at_detail)
}

fn new(url: &str, detail: Option<&Value>, at_url: &str, at_detail: &str) -> Result<Image, Problem> {
    let detail = match detail {
        None => None,
        Some(Value::String(detail)) if detail == ORIGINAL => Some(ImageDetail::High),
        Some(Value::String(detail)) => {
            let known = ImageDetail::ALL.into_iter().find(|known| known.as_str() == detail);
            let wrong = || Problem::invalid(at_detail, "it must be 'auto', 'low', 'high' or 'original'.");
            Some(known.ok_or_else(wrong)?)
        }
        Some(_) => return Err(Problem::wrong_type(at_detail, "a string")),
    };
    Image::new(url, detail).map_err(|fault: ImageFault| Problem::invalid(at_url, &fault.to_string()))
}

/// Refuses a conversation with too many images.
pub(crate) fn check_count(messages: &[Message], param: &str) -> Result<(), Problem> {
    let images: usize = messages.iter().map(Message::images).sum();
    if images > MOST_IMAGES {
        return Err(Problem::invalid(param, &format!("it may have at most {MOST_IMAGES} images.")));
    }
    Ok(())
}

/// A part of chat completions that is an image.
pub(crate) fn chat_part() -> Value {
    part(
        "image_url",
        &json!({
            "type": "object", "required": ["url"], "description": "Where the image is.",
            "properties": { "url": url(), "detail": detail() },
        }),
    )
}

pub(crate) fn response_part() -> Value {
    let mut schema = part("input_image", &url());
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("detail".to_owned(), detail());
    }
    schema
}

fn part(kind: &str, image_url: &Value) -> Value {
    json!({
        "type": "object", "required": ["type", "image_url"], "description": "An image.",
        "properties": {
            "type": always(kind, "An image."), "image_url": image_url,
        },
    })
}

/// What [`Image::new`] takes.
fn url() -> Value {
    let types: Vec<_> = IMAGE_TYPES.iter().filter_map(|name| name.strip_prefix("image/")).collect();
    let base64 = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{4}|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{2}==)";
    let data = format!("data:image/({});base64,{base64}", types.join("|"));
    let path = format!("[/?][!-~]{{0,{}}}", LONGEST_IMAGE_PATH - 1);
    let address = format!("https://[A-Za-z0-9][A-Za-z0-9.-]{{0,252}}(:[0-9]{{1,5}})?({path})?");
    json!({
        "type": "string", "pattern": format!("^({data}|{address})$"), "maxLength": LONGEST_IMAGE_URL,
        "description": "The image itself as a `data:` URL, or an `https:` URL, which the model's provider fetches.",
        "examples": ["https://example.com/cat.png"],
    })
}

fn detail() -> Value {
    let known = ImageDetail::ALL.map(ImageDetail::as_str);
    json!({
        "type": ["string", "null"], "enum": [known[0], known[1], known[2], ORIGINAL, null], "examples": ["auto"],
        "description": "How closely the model is to look, where its provider knows the difference.",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIXEL: &str = "data:image/png;base64,AAAA";

    #[test]
    fn an_image_is_read_in_both_forms() {
        let plain = Image::new(PIXEL, None).unwrap();
        let low = Image::new("https://example.com/a.png", Some(ImageDetail::Low)).unwrap();
        let high = Image::new("https://example.com/a.png", Some(ImageDetail::High)).unwrap();
        for (part, read_as) in [
            (json!({"type": "image_url", "image_url": {"url": PIXEL}}), &plain),
            (json!({"type": "image_url", "image_url": {"url": PIXEL, "detail": null}}), &plain),
            (json!({"type": "input_image", "image_url": PIXEL, "detail": null, "file_id": null}), &plain),
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png", "detail": "low"}}),
                &low,
            ),
            (json!({"type": "input_image", "image_url": "https://example.com/a.png", "detail": "low"}), &low),
            (
                json!({"type": "input_image", "image_url": "https://example.com/a.png", "detail": "original"}),
                &high,
            ),
        ] {
            assert_eq!(read(&part, part["type"].as_str().unwrap(), "p").as_ref(), Ok(read_as), "{part}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_image_is_named_by_its_place() {
        let chat = |image: Value| json!({"type": "image_url", "image_url": image});
        let response = |image: Value| json!({"type": "input_image", "image_url": image});
        let missing = "missing_required_parameter";
        for (part, code, param) in [
            (json!({"type": "image_url"}), missing, "p.image_url"),
            (chat(json!(PIXEL)), "invalid_type", "p.image_url"),
            (chat(json!({})), missing, "p.image_url.url"),
            (chat(json!({"url": 1})), "invalid_type", "p.image_url.url"),
            (chat(json!({"url": "http://example.com/a.png"})), "invalid_value", "p.image_url.url"),
            (chat(json!({"url": "file:///etc/passwd"})), "invalid_value", "p.image_url.url"),
            (chat(json!({"url": "https://me:secret@example.com/a.png"})), "invalid_value", "p.image_url.url"),
            (chat(json!({"url": PIXEL, "detail": "huge"})), "invalid_value", "p.image_url.detail"),
            (chat(json!({"url": PIXEL, "detail": 1})), "invalid_type", "p.image_url.detail"),
            (json!({"type": "input_image", "image_url": null}), missing, "p.image_url"),
            (response(json!({"url": PIXEL})), "invalid_type", "p.image_url"),
            (response(json!("data:image/tiff;base64,AAAA")), "invalid_value", "p.image_url"),
            (
                json!({"type": "input_image", "image_url": PIXEL, "detail": "huge"}),
                "invalid_value",
                "p.detail",
            ),
            (json!({"type": "input_image", "file_id": "file-1"}), "unsupported_value", "p.file_id"),
        ] {
            let error = &read(&part, part["type"].as_str().unwrap(), "p").unwrap_err().body()["error"];
            assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{part}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn the_document_allows_what_is_read_and_nothing_else() {
        let schema = url();
        let path = "x".repeat(LONGEST_IMAGE_PATH - 1);
        let host = "a".repeat(253);
        for url in [
            PIXEL,
            "data:image/jpeg;base64,AAAAAA==",
            "data:image/gif;base64,AAA=",
            "data:image/webp;base64,+/+/",
            "data:image/png;base64,",
            "data:image/png;base64,AAA",
            "data:image/png;base64,A===",
            "data:image/png;base64,AAAA\n",
            "data:image/svg+xml;base64,AAAA",
            "data:image/png,AAAA",
            "https://example.com/a.png?b=c#d",
            "https://example.com:443?b",
            &format!("https://{host}/{path}"),
            &format!("https://{host}/{path}x"),
            &format!("https://a{host}/"),
            "https://example.com:/a",
            "https://me@example.com/a",
            "https://example.com/a b",
            "https://example.com/ä",
            "https://-example.com",
            "http://example.com/a.png",
            "file:///a.png",
            "",
        ] {
            let is_read = Image::new(url, None).is_ok();
            assert_eq!(jsonschema::is_valid(&schema, &json!(url)), is_read, "{url:.80}");
        }
    }
}
