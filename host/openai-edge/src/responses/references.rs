//! References to items of kept responses (`item_reference`). A client that has the service keep what was
//! said, as the Vercel AI SDK does, sends the ids of the items that it was given in place of the items.
//!
//! The id of an item names its response, so all references to one response share one read.

use std::collections::{HashMap, HashSet};

use agent_core::words::is_conversation_id;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use serde_json::Value;

use super::super::input::approvals;
use super::super::input::conversation::check_length;
use super::super::input::parameters::Fields;
use super::current_response::current;
use http_edge::VariantB;
use http_edge::variant_b::auth::Caller;
use http_edge::variant_b::error::{Error, Problem};

/// Most bytes of the responses that one request refers to, as they are kept. A chat of any length refers to
/// one response a turn, so their number says nothing.
const MOST_BYTES: usize = 4 << 20;

/// How many responses are read at the same time.
const READS: usize = 8;

/// Items of the output of kept responses, by their ids. Each can be taken once, so that a request comes to no
/// more than what was kept.
type Items = HashMap<String, Option<Value>>;

/// What is read of a kept response.
#[derive(Deserialize)]
struct Shown {
    output: Vec<Value>,
}

/// Puts the items themselves in place of the references in `input`.
pub(crate) async fn resolve(fields: &mut Fields, variant: &VariantB, caller: &Caller) -> Result<(), Error> {
    let Some(Value::Array(input)) = fields.get_mut("input") else { return Ok(()) };
    check_length(input.len(), "input")?;
    for item in input.iter_mut().filter(|item| is_reference(item)) {
        if let Some(request) = item.get("id").and_then(Value::as_str).and_then(approvals::referred) {
            *item = request;
        }
    }
    let mut items = read(variant, caller, responses(input)?).await?;
    for item in input.iter_mut().filter(|item| is_reference(item)) {
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
        let kept = items.get_mut(id).ok_or_else(|| Problem::unknown_item(id))?;
        *item = kept.take().ok_or_else(|| Problem::duplicate_item(id))?;
    }
    Ok(())
}

/// The responses that are referred to, each with the first item that does.
fn responses(input: &[Value]) -> Result<Vec<(String, String)>, Problem> {
    let mut seen = HashSet::new();
    let mut responses = vec![];
    for (index, item) in input.iter().enumerate().filter(|(_, item)| is_reference(item)) {
        let id = item.get("id").and_then(Value::as_str);
        let id = id.ok_or_else(|| Problem::missing(&format!("input[{index}].id")))?;
        let response = response_of(id).ok_or_else(|| Problem::unknown_item(id))?;
        if seen.insert(response.clone()) {
            responses.push((response, id.to_owned()));
        }
    }
    Ok(responses)
}

/// The items of the responses. The first response that is not kept ends it, so that ids that were made up
/// cost a few reads at most.
async fn read(variant: &VariantB, caller: &Caller, responses: Vec<(String, String)>) -> Result<Items, Error> {
    let (mut items, mut bytes) = (Items::new(), 0);
    let read = |(response, item): (String, String)| async move {
        let kept = current(variant, caller.id(), &response).await?;
        let shown = kept.map(|kept| kept.shown);
        Ok::<_, Error>(shown.ok_or_else(|| Problem::unknown_item(&item))?)
    };
    let mut texts = stream::iter(responses.into_iter().map(read)).buffered(READS);
    while let Some(shown) = texts.try_next().await? {
        bytes += shown.len();
        if bytes > MOST_BYTES {
            return Err(Problem::invalid("input", &too_large()).into());
        }
        let by_id = |item: Value| Some((item.get("id")?.as_str()?.to_owned(), Some(item)));
        items.extend(output_of(&shown).into_iter().filter_map(by_id));
    }
    Ok(items)
}

/// The items of the output of a response, as it is kept.
pub(crate) fn output_of(shown: &str) -> Vec<Value> {
    serde_json::from_str(shown).map(|Shown { output }| output).unwrap_or_default()
}

fn too_large() -> String {
    format!(
        "the responses that it refers to have more than {MOST_BYTES} bytes together: leave earlier items out, or \
         go on with `previous_response_id`."
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

/// The response in which there is an item of that id: ids are `<kind>_<response>_<place>`
/// ([`super::super::items`]).
fn response_of(item: &str) -> Option<String> {
    let (_kind, rest) = item.split_once('_')?;
    let (response, _place) = rest.rsplit_once('_')?;
    let id = format!("resp_{response}");
    is_conversation_id(&id).then_some(id)
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
