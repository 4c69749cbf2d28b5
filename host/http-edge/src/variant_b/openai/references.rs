//! References to items of kept responses (`item_reference`). A client that has the service keep what was
//! said, as the Vercel AI SDK does, sends the ids of the items that it was given in place of the items.
//!
//! The id of an item names its response, so all references to one response share one read.

use std::collections::HashMap;

use agent_core::words::is_conversation_id;
use serde_json::Value;

use super::super::auth::Caller;
use super::super::conversations::unavailable;
use super::super::error::Error;
use super::super::error::Problem;
use super::conversation::check_length;
use super::parameters::Fields;
use crate::dependencies::VariantB;

/// Most responses that one request may refer to: each is read and may have 256 KiB.
const MOST_RESPONSES: usize = 16;

/// Items of the output of kept responses, by their ids. Each can be taken once, so that a request comes to no
/// more than what was kept.
type Items = HashMap<String, Option<Value>>;

/// Puts the items themselves in place of the references in `input`.
pub(super) async fn resolve(fields: &mut Fields, variant: &VariantB, caller: &Caller) -> Result<(), Error> {
    let Some(Value::Array(input)) = fields.get_mut("input") else { return Ok(()) };
    check_length(input.len(), "input")?;
    let mut items = Items::new();
    let mut read: Vec<String> = vec![];
    for (index, item) in input.iter_mut().enumerate() {
        if !is_reference(item) {
            continue;
        }
        let param = format!("input[{index}].id");
        let id = item.get("id").and_then(Value::as_str).ok_or_else(|| Problem::missing(&param))?;
        let response = response_of(id).ok_or_else(|| Problem::unknown_item(id))?;
        if !read.contains(&response) {
            if read.len() == MOST_RESPONSES {
                return Err(Problem::invalid("input", &too_many()).into());
            }
            items.extend(output(variant, caller, &response).await?);
            read.push(response);
        }
        let kept = items.get_mut(id).ok_or_else(|| Problem::unknown_item(id))?;
        *item = kept.take().ok_or_else(|| Problem::duplicate_item(id))?;
    }
    Ok(())
}

fn too_many() -> String {
    format!(
        "it may refer to items of at most {MOST_RESPONSES} responses: send earlier items themselves, or go on \
         with `previous_response_id`."
    )
}

/// The type may be left out: no other item has an id and nothing that it says.
fn is_reference(item: &Value) -> bool {
    match item.get("type") {
        Some(Value::String(kind)) => kind == "item_reference",
        Some(Value::Null) | None => {
            item.get("id").is_some() && item.get("role").is_none() && item.get("content").is_none()
        }
        Some(_) => false,
    }
}

/// The response in which there is an item of that id: ids are `<kind>_<response>_<place>` ([`super::items`]).
fn response_of(item: &str) -> Option<String> {
    let (_kind, rest) = item.split_once('_')?;
    let (response, _place) = rest.rsplit_once('_')?;
    let id = format!("resp_{response}");
    is_conversation_id(&id).then_some(id)
}

/// The items of a kept response; none when there is no such response of this caller's.
async fn output(variant: &VariantB, caller: &Caller, response: &str) -> Result<Items, Error> {
    let kept = variant.conversations.response(caller.id(), response).await.map_err(unavailable)?;
    let shown = kept.and_then(|kept| kept.shown).unwrap_or_default();
    let mut shown: Value = serde_json::from_str(&shown).unwrap_or_default();
    let output = shown.get_mut("output").map(Value::take).unwrap_or_default();
    let items = if let Value::Array(items) = output { items } else { vec![] };
    let by_id = |item: Value| Some((item.get("id")?.as_str()?.to_owned(), Some(item)));
    Ok(items.into_iter().filter_map(by_id).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_items_id_names_its_response() {
        for (item, response) in [
            ("msg_01a2_0", Some("resp_01a2")),
            ("mcp_01a2_12", Some("resp_01a2")),
            ("fc_a_b_1", Some("resp_a_b")),
            ("msg_1", None),
            ("rs", None),
            ("", None),
            ("msg_../x_0", None),
        ] {
            assert_eq!(response_of(item).as_deref(), response, "{item}");
        }
    }

    #[test]
    fn only_what_says_nothing_itself_is_a_reference() {
        for (item, expected) in [
            (json!({"type": "item_reference", "id": "msg_1_0"}), true),
            (json!({"id": "msg_1_0"}), true),
            (json!({"type": null, "id": "msg_1_0"}), true),
            (json!({"id": "msg_1_0", "role": "user", "content": "hi"}), false),
            (json!({"type": "message", "id": "msg_1_0"}), false),
            (json!({"type": {}, "id": "msg_1_0"}), false),
            (json!("hi"), false),
        ] {
            assert_eq!(is_reference(&item), expected, "{item}");
        }
    }
}
