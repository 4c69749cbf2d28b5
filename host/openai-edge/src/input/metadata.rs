//! What a client attaches to a conversation: a few names with a text each.

use std::collections::BTreeMap;

use serde_json::Value;

use http_edge::variant_b::error::Problem;

/// Most pairs, as OpenAI has it.
const MOST_PAIRS: usize = 16;

/// Longest name, in characters.
const LONGEST_NAME: usize = 64;

/// Longest text of a pair, in characters.
const LONGEST_VALUE: usize = 512;

/// The metadata of a request; none when there are none.
pub(crate) fn read(metadata: Option<&Value>) -> Result<BTreeMap<String, String>, Problem> {
    let pairs = match metadata {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(pairs)) => pairs,
        Some(_) => return Err(Problem::wrong_type("metadata", "an object")),
    };
    if pairs.len() > MOST_PAIRS {
        return Err(Problem::invalid("metadata", &format!("it may have at most {MOST_PAIRS} pairs.")));
    }
    let pair = |(name, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| Problem::wrong_type("metadata", "an object of strings"))?;
        if name.chars().count() > LONGEST_NAME || value.chars().count() > LONGEST_VALUE {
            let why = format!(
                "names may have at most {LONGEST_NAME} characters, and values at most {LONGEST_VALUE}."
            );
            return Err(Problem::invalid("metadata", &why));
        }
        Ok((name.clone(), value.to_owned()))
    };
    pairs.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn metadata_are_a_few_short_texts() {
        let pairs = |count: usize| (0..count).map(|n| (n.to_string(), json!("x"))).collect::<Value>();
        for (metadata, count) in [(json!(null), 0), (json!({"a": "b"}), 1), (pairs(MOST_PAIRS), MOST_PAIRS)] {
            assert_eq!(read(Some(&metadata)).unwrap().len(), count, "{metadata}");
        }
        let (long_name, long_value) = ("é".repeat(LONGEST_NAME), "é".repeat(LONGEST_VALUE));
        assert!(read(Some(&json!({ long_name.as_str(): long_value }))).is_ok());
        for wrong in [
            json!([]),
            json!({"a": 1}),
            pairs(MOST_PAIRS + 1),
            json!({ format!("{long_name}x"): "" }),
            json!({ "a": format!("{long_value}x") }),
        ] {
            assert_eq!(read(Some(&wrong)).unwrap_err().body()["error"]["param"], "metadata", "{wrong}");
        }
    }
}
