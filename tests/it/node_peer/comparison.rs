//! Compares two answers header by header and field by field. What may differ is not said here.

use std::collections::BTreeMap;

use acceptance::Answer;
use serde_json::Value;

use super::differences::{Difference, show};

/// Fails unless every difference between the two answers has a row that explains it, and every row of
/// `chosen` explains one: a difference that is gone must not stay in the table.
pub(super) fn compare(exchange: &str, node: &Answer, ours: &Answer, chosen: &[Difference]) {
    let (of_node, of_ours) = (fields(node, chosen), fields(ours, chosen));
    let names = of_node.keys().chain(of_ours.keys().filter(|name| !of_node.contains_key(*name)));
    let mut explaining = Vec::new();
    for field in names {
        let (node_has, ours_has) = (of_node.get(field), of_ours.get(field));
        if node_has == ours_has {
            continue;
        }
        let rows = chosen.iter().chain(&Difference::EVERYWHERE);
        let row = rows
            .copied()
            .find(|row| row.explains(field, node_has.map(String::as_str), ours_has.map(String::as_str)));
        let row = row.unwrap_or_else(|| {
            panic!(
                "{exchange}: {field} is {node_has:?} on Node and {ours_has:?} here, and no row of the table \
                 says why\n--- Node ---\n{}--- here ---\n{}",
                show(node),
                show(ours)
            )
        });
        explaining.push(row);
    }
    for row in chosen {
        assert!(
            explaining.contains(row),
            "{exchange}: {row:?} is not to be found any more\n--- Node ---\n{}--- here ---\n{}",
            show(node),
            show(ours)
        );
    }
}

/// Everything about an answer, one field each: `status`, `header name`, and `body` or, when it is JSON, what
/// is in it: `body.error[0].path[1]`.
fn fields(answer: &Answer, chosen: &[Difference]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::from([("status".to_owned(), answer.status.to_string())]);
    for name in answer.headers.keys() {
        let values =
            answer.headers.get_all(name).iter().map(|value| value.to_str().expect("headers are text"));
        fields.insert(format!("header {name}"), values.collect::<Vec<_>>().join(", "));
    }
    // The length follows from the body, so two bodies that may differ may differ in length.
    let length = fields.remove("header content-length");
    if !chosen.iter().any(|row| row.frees_length()) {
        assert_eq!(length, Some(answer.body.len().to_string()), "{}", show(answer));
    }
    match serde_json::from_str(&answer.body) {
        Ok(body) if answer.header("content-type").contains("json") => flatten("body", &body, &mut fields),
        _ => drop(fields.insert("body".to_owned(), answer.body.clone())),
    }
    fields
}

fn flatten(name: &str, value: &Value, fields: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(member, value)| flatten(&format!("{name}.{member}"), value, fields));
        }
        Value::Array(parts) if !parts.is_empty() => {
            parts.iter().enumerate().for_each(|(n, value)| flatten(&format!("{name}[{n}]"), value, fields));
        }
        _ => drop(fields.insert(name.to_owned(), value.to_string())),
    }
}

/// The comparison itself has to be worth something.
mod tests {
    use acceptance::Answer;
    use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn answer(status: u16, headers: &[(&str, &str)], body: &str) -> Answer {
        let length = ("content-length".to_owned(), body.len().to_string());
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let headers: HeaderMap = headers
            .chain([length])
            .map(|(name, value)| (HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap()))
            .collect();
        Answer { status, headers, body: body.to_owned() }
    }

    const JSON: [(&str, &str); 1] = [("content-type", "application/json; charset=utf-8")];

    #[test]
    fn equal_answers_are_equal_whatever_the_order_of_their_members() {
        let node = answer(200, &JSON, r#"{"a":1,"b":[{}]}"#);
        compare("x", &node, &answer(200, &JSON, r#"{"b":[{}],"a":1}"#), &[]);
    }

    #[test]
    #[should_panic(expected = "body.a.b[1] is Some(\"2\") on Node and Some(\"3\") here")]
    fn a_field_that_differs_is_found_wherever_it_is() {
        let node = answer(200, &JSON, r#"{"a":{"b":[1,2]}}"#);
        compare("x", &node, &answer(200, &JSON, r#"{"a":{"b":[1,3]}}"#), &[]);
    }

    #[test]
    #[should_panic(expected = "body.cached is Some(\"false\") on Node and None here")]
    fn a_field_that_is_missing_is_found() {
        compare("x", &answer(200, &JSON, r#"{"cached":false}"#), &answer(200, &JSON, "{}"), &[]);
    }

    #[test]
    #[should_panic(expected = "header retry-after")]
    fn a_header_that_differs_is_found() {
        let with = answer(429, &[("retry-after", "1")], "");
        compare("x", &with, &answer(429, &[("retry-after", "60")], ""), &[]);
    }

    #[test]
    #[should_panic(expected = "status is Some(\"500\") on Node and Some(\"400\") here")]
    fn a_row_that_was_not_chosen_explains_nothing() {
        compare("x", &answer(500, &[], ""), &answer(400, &[], ""), &[Difference::TooLarge]);
    }

    #[test]
    #[should_panic(expected = "MalformedJson is not to be found any more")]
    fn a_row_that_explains_nothing_is_found() {
        compare("x", &answer(400, &[], ""), &answer(400, &[], ""), &[Difference::MalformedJson]);
    }
}
