//! JSON of strangers, and the schemas that say what it may be. Nothing here waits, and nothing reads or
//! writes files.
//!
//! - [`MemoryBudget`]: the one reader of their JSON, within a budget of memory.
//! - [`syntax`]: the keywords of JSON Schema and how each is read, references and `allOf` included.
//! - [`Schema`]: values held against their JSON Schemas, within a budget of steps ([`Fuel`]).
//! - `text_sanitizer`: their words, cut to size, and what cannot be seen in them made visible.
//!
//! A megabyte of text can be a hundred megabytes of values: `{"":0},` is seven bytes, and the map that it
//! makes takes 640. A [`MemoryBudget`] counts what the values take while it makes them, and stops before they
//! take more than they may. Long strings, such as images, take what their text takes and nothing of the
//! budget.
//!
//! Reading JSON of strangers without it needs a reason: `tests/it/architecture/readers.rs` lists the places.

mod brief;
mod memory_budget;
mod metered;
mod number;
pub mod syntax;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text_sanitizer;
mod validation;

pub use memory_budget::MemoryBudget;
pub use metered::{ENTRY_BYTES, FIRST_ENTRY_BYTES};
pub use number::Exact;
pub use validation::{Exhausted, Fuel, Misfit, Schema, SchemaBudget};

/// How the names begin below which `serde_json` does not read what it would elsewhere: at best a string as
/// the JSON in it. A value with one could be written and not be read again.
pub const PRIVATE_NAMES: &str = "$serde_json::private::";

/// Why a text was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The text is not JSON, or not of the type that was asked for, or has one of the [`PRIVATE_NAMES`].
    #[error(transparent)]
    Json(serde_json::Error),
    /// The values would take more memory than they may.
    #[error("its values would take more than {most} bytes of memory")]
    TooLarge {
        /// The whole budget.
        most: usize,
    },
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    const MIB: usize = 1 << 20;

    fn read(text: &[u8]) -> Result<Value, ReadError> {
        MemoryBudget::default().read(text)
    }

    fn read_as<T: DeserializeOwned>(text: &[u8]) -> Result<T, ReadError> {
        MemoryBudget::default().read_as(text)
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::Array),
                btree_map(".{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(value in any_value()) {
            let text = value.to_string();
            prop_assert_eq!(read(text.as_bytes()).unwrap(), value.clone());
            prop_assert_eq!(read_as::<Value>(text.as_bytes()).unwrap(), value);
        }
    }

    #[test]
    fn a_value_that_would_take_too_much_memory_is_refused_while_it_is_read() {
        let objects = format!("[{}{{}}]", r#"{"":0},"#.repeat(MIB));
        let error = read(objects.as_bytes()).unwrap_err();
        assert!(matches!(error, ReadError::TooLarge { .. }), "{error}");
        let nested =
            format!("[{}0]", format!("{}0{},", r#"{"":"#.repeat(100), "}".repeat(100)).repeat(1_000));
        assert!(matches!(read(nested.as_bytes()), Err(ReadError::TooLarge { .. })));
        let numbers = format!("[{}0]", "0,".repeat(MIB / 8));
        assert!(read(numbers.as_bytes()).is_ok());
    }

    #[test]
    fn a_long_string_takes_what_its_text_takes() {
        let image = json!({ "url": "a".repeat(20 * MIB) }).to_string();
        assert!(read(image.as_bytes()).is_ok());
    }

    #[test]
    fn a_name_that_serde_json_has_for_itself_is_refused_wherever_it_stands() {
        for text in [
            r#"{"$serde_json::private::RawValue":0}"#,
            r#"[{"a":1,"$serde_json::\u0070rivate::RawValue":"[1]"}]"#,
            r#"{"$serde_json::private::Number":"1"}"#,
        ] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(matches!(error, ReadError::Json(_)), "{text}: {error}");
        }
        let text = br#"["$serde_json::private::RawValue"]"#;
        assert_eq!(read(text).unwrap(), json!(["$serde_json::private::RawValue"]));
    }

    #[test]
    fn what_is_not_json_is_told_as_serde_json_tells_it() {
        for text in ["", "[1", "1 2", "nul", &"[".repeat(1_000)] {
            let expected = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            let error = read(text.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
            assert!(matches!(error, ReadError::Json(_)));
        }
        assert!(matches!(read(b"\"\xFF\""), Err(ReadError::Json(_))));
    }

    #[test]
    fn half_a_surrogate_pair_and_bytes_of_no_text_are_replaced_where_that_is_asked_for() {
        let loosely = |text: &[u8]| MemoryBudget::default().read_loosely(text);
        let rows: [(&[u8], &str); 7] = [
            (br#""a\ud83d""#, "a\u{fffd}"),
            (br#""\uDE00\ud83d""#, "\u{fffd}\u{fffd}"),
            (br#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\ud83d\n\ude00\\""#, "\u{fffd}\n\u{fffd}\\"),
            (br#""\\ud83d\ud83d""#, "\\ud83d\u{fffd}"),
            (b"\"a\xFFb\xC3\"", "a\u{fffd}b\u{fffd}"),
            (br#""\ud83d\ude00\u0041""#, "\u{1f600}A"),
        ];
        for (text, value) in rows {
            assert_eq!(loosely(text).unwrap(), json!(value), "{}", text.escape_ascii());
        }
        assert_eq!(loosely(br#"{"\ud83d":[1]}"#).unwrap(), json!({ "\u{fffd}": [1] }));
        let broken: [&[u8]; 5] =
            [br#""\ud83""#, br#""\ud83d"#, br#"\ud83d"#, br#""\ud83d\"#, b"\xFF\xFE{\0}\0"];
        for text in broken {
            assert!(matches!(loosely(text), Err(ReadError::Json(_))), "{}", text.escape_ascii());
        }
        assert!(matches!(read(br#""a\ud83d""#), Err(ReadError::Json(_))));
        // What is read twice is counted once.
        let text = format!(r#"[{}"\ud83d"]"#, "0,".repeat(100));
        assert!(MemoryBudget::new(12_000).read_loosely(text.as_bytes()).is_ok());
        assert!(MemoryBudget::new(5_000).read_loosely(text.as_bytes()).is_err());
    }

    #[test]
    fn a_type_is_read_by_way_of_the_value() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Call {
            name: String,
            input: Option<Value>,
        }
        let call = read_as::<Call>(br#"{"name":"a","input":{"b":1.5},"more":[]}"#).unwrap();
        assert_eq!(call, Call { name: "a".into(), input: Some(json!({ "b": 1.5 })) });
        let ReadError::Json(error) = read_as::<Call>(b"{}").unwrap_err() else { panic!("it has no name") };
        assert!(error.is_data());
    }

    #[test]
    fn of_members_of_one_name_the_last_counts() {
        assert_eq!(read(br#"{"a":1,"a":2}"#).unwrap(), json!({ "a": 2 }));
    }

    #[test]
    fn several_texts_share_a_budget() {
        let mut budget = MemoryBudget::new(10_000);
        let one = br#"[{"a":1}]"#;
        let read = (0..100).take_while(|_| budget.read(one).is_ok()).count();
        assert_eq!(read, 10_000 / (640 + 4 * size_of::<Value>()));
        assert!(budget.read(b"1").is_ok(), "what costs nothing is still read");
    }
}
