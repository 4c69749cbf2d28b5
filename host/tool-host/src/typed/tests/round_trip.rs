//! Any value of any type, through JSON and back.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::generated::{Bits, any_type, identity_component, value_of};
use super::{Loaded, is_valid};
use crate::typed::decode;
use crate::typed::samples::identity;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_value_comes_back_from_json_as_it_was(ty in any_type(), bits in Bits::any()) {
        let tool = identity(ty.clone());
        let val = value_of(&ty, &mut bits.clone());
        let json = decode::value(&ty, &val).unwrap();
        let text = json.to_string();
        prop_assert_eq!(&serde_json::from_str::<Value>(&text).unwrap(), &json, "{}", text);
        prop_assert!(is_valid(&tool.output_schema, &json), "{json} {}", tool.output_schema);
        let arguments = json!({ "value": json });
        prop_assert!(is_valid(&tool.input_schema, &arguments), "{arguments} {}", tool.input_schema);
        prop_assert_eq!(tool.encode(&arguments).unwrap(), vec![val]);
    }

    #[test]
    fn what_is_encoded_is_what_the_schema_takes(ty in any_type(), bits in Bits::any(), twist in any::<u64>()) {
        let tool = identity(ty.clone());
        let mut json = decode::value(&ty, &value_of(&ty, &mut bits.clone())).unwrap();
        spoil(&mut json, twist);
        let arguments = json!({ "value": json });
        match tool.encode(&arguments) {
            Ok(_) => prop_assert!(is_valid(&tool.input_schema, &arguments), "{arguments} {}", tool.input_schema),
            Err(mismatch) => {
                // Names that cannot be shown as they are, are shown escaped.
                let is_found = mismatch.path.contains('\\') || arguments.pointer(&mismatch.path).is_some();
                prop_assert!(is_found, "{mismatch} in {arguments}");
                // What the schema cannot say in full.
                let beyond_schema =
                    ["base64", "bytes and must", "out of the range", "too large"].iter().any(|text| mismatch.problem.contains(text));
                prop_assert!(
                    beyond_schema || !is_valid(&tool.input_schema, &arguments),
                    "{mismatch} but {arguments} {}", tool.input_schema
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn a_component_gets_what_was_written_and_its_answer_is_read_as_it_gave_it(ty in any_type(), bits in Bits::any()) {
        let loaded = Loaded::text(&identity_component(&ty)).unwrap();
        let json = decode::value(&ty, &value_of(&ty, &mut bits.clone())).unwrap();
        let padding = json!(vec![0; 17]);
        let mut expected = json!({ "value": json, "padding": padding });
        let arguments = json!({ "value": expected });
        let answer = loaded.call("identity", &arguments).unwrap().unwrap();
        if expected["value"].is_null() {
            expected.as_object_mut().unwrap().remove("value");
        }
        prop_assert_eq!(answer, expected);
    }
}

/// Changes one part of a value, some way down.
fn spoil(json: &mut Value, twist: u64) {
    let index = |count: usize| usize::try_from(twist % count as u64).unwrap();
    match json {
        Value::Array(items) if !items.is_empty() && !twist.is_multiple_of(5) => {
            let at = index(items.len());
            spoil(&mut items[at], twist / 7);
        }
        Value::Object(members) if !members.is_empty() && !twist.is_multiple_of(5) => {
            let at = index(members.len());
            spoil(members.values_mut().nth(at).unwrap(), twist / 7);
        }
        Value::Array(items) if twist.is_multiple_of(2) => items.push(Value::Null),
        Value::Object(members) if twist.is_multiple_of(2) => {
            members.insert("unknown".to_owned(), Value::Null);
        }
        other => {
            let others = [
                Value::Null,
                json!(true),
                json!(-1),
                json!(5.0),
                json!(0.5),
                json!(300),
                json!(1e300),
                json!("18446744073709551616"),
                json!("7"),
                json!("AAEC"),
                json!("ok"),
                json!(["ok"]),
                json!({ "ok": 1 }),
                json!({ "some": null }),
                Value::Object(Map::new()),
                json!([]),
            ];
            *other = others[index(others.len())].clone();
        }
    }
}
