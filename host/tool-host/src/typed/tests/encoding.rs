//! Single values, and what is said of those that do not fit.

use serde_json::{Value, json};
use wasmtime::component::Val;

use crate::typed::named::Named;
use crate::typed::wit_type::{Case, Field, Integer, WitType};
use crate::typed::{decode, encode, numbers};

fn option(ty: WitType) -> WitType {
    WitType::Option(Box::new(ty))
}

fn encoded(ty: &WitType, json: &Value) -> Val {
    encode::value(ty, json).unwrap()
}

fn wrong(ty: &WitType, json: &Value) -> String {
    encode::value(ty, json).unwrap_err().to_string()
}

#[test]
fn integers_of_64_bits_lose_nothing() {
    let (u64, s64) = (WitType::Integer(Integer::U64), WitType::Integer(Integer::S64));
    for (json, number) in [
        (json!(u64::MAX), u64::MAX),
        (json!("18446744073709551615"), u64::MAX),
        (json!(9_007_199_254_740_993_u64), 9_007_199_254_740_993),
        (json!("007"), 7),
        (json!(5.0), 5),
        (json!(9_007_199_254_740_992.0), 1 << 53),
    ] {
        assert_eq!(encoded(&u64, &json), Val::U64(number), "{json}");
    }
    assert_eq!(encoded(&s64, &json!("-9223372036854775808")), Val::S64(i64::MIN));
    assert_eq!(encoded(&s64, &json!(i64::MIN)), Val::S64(i64::MIN));
    for (val, json) in [
        (Val::U64(1 << 53), json!(9_007_199_254_740_992_u64)),
        (Val::U64((1 << 53) + 1), json!("9007199254740993")),
        (Val::U64(u64::MAX), json!("18446744073709551615")),
    ] {
        assert_eq!(decode::value(&u64, &val).unwrap(), json);
    }
    assert_eq!(decode::value(&s64, &Val::S64(-(1 << 53))).unwrap(), json!(-9_007_199_254_740_992_i64));
    assert_eq!(decode::value(&s64, &Val::S64(i64::MIN)).unwrap(), json!("-9223372036854775808"));

    assert_eq!(wrong(&u64, &json!("18446744073709551616")), "is out of the range of u64");
    assert_eq!(wrong(&u64, &json!(-1)), "is out of the range of u64");
    let inexact = "is too large to be read exactly: write all its digits, as a string if need be";
    assert_eq!(wrong(&u64, &json!(1e19)), inexact);
    assert_eq!(wrong(&u64, &serde_json::from_str("18446744073709551616").unwrap()), inexact);
    assert_eq!(wrong(&u64, &json!(0.5)), "is not a whole number");
    assert_eq!(wrong(&s64, &json!(true)), "expected an integer, or one as a decimal string, found a boolean");
    for text in ["", "-", "+5", " 5", "0x10", "1e3", "5.0", "٣", &"1".repeat(21)] {
        assert_eq!(wrong(&s64, &json!(text)), "is not an integer in decimal digits", "{text:?}");
    }
    for (wide, text) in [(&u64, "-0"), (&u64, "-1"), (&s64, "00000000000000000001")] {
        assert_eq!(
            wrong(wide, &json!(text)),
            "is not an integer in decimal digits",
            "its schema refuses {text}"
        );
    }
}

#[test]
fn rules_see_a_text_of_digits_as_the_number_that_it_is() {
    let u64 = || WitType::Integer(Integer::U64);
    let s64 = || WitType::Integer(Integer::S64);
    let (boxed, text) = (|| Box::new(WitType::Integer(Integer::U64)), || Box::new(WitType::String));
    let field = |name: &str, ty| Field { name: name.to_owned(), ty };
    let case = |name: &str, ty| Case { name: name.to_owned(), ty };
    let record = WitType::Record(vec![field("euros", u64()), field("note", WitType::String)]);
    let variant = WitType::Variant([case("at-least", Some(u64())), case("all", None)].into_iter().collect());
    for (ty, json, seen) in [
        (u64(), json!("9000"), json!(9000)),
        (u64(), json!("18446744073709551615"), json!(u64::MAX)),
        (s64(), json!("-007"), json!(-7)),
        (s64(), json!(5), json!(5)),
        // No call of it is ever made.
        (u64(), json!("18446744073709551616"), json!("18446744073709551616")),
        (WitType::Integer(Integer::U32), json!("5"), json!("5")),
        (WitType::String, json!("9000"), json!("9000")),
        (WitType::List(boxed(), None), json!(["1", 2, null]), json!([1, 2, null])),
        (record, json!({ "euros": "5", "note": "5" }), json!({ "euros": 5, "note": "5" })),
        (WitType::Map(text(), boxed()), json!({ "a": "1" }), json!({ "a": 1 })),
        (WitType::Map(boxed(), text()), json!([["1", "2"], "3"]), json!([[1, "2"], "3"])),
        (WitType::Tuple(vec![s64(), WitType::String]), json!(["-1", "2"]), json!([-1, "2"])),
        (variant.clone(), json!({ "at-least": "5" }), json!({ "at-least": 5 })),
        (variant, json!("all"), json!("all")),
        (option(u64()), json!("5"), json!(5)),
        (option(option(u64())), json!({ "some": "5" }), json!({ "some": 5 })),
        (WitType::Result { ok: Some(boxed()), err: None }, json!({ "ok": "5" }), json!({ "ok": 5 })),
    ] {
        let mut read = json.clone();
        numbers::value(&ty, &mut read);
        assert_eq!(read, seen, "{json}");
    }
}

#[test]
fn small_integers_are_integers_of_their_range() {
    let u8 = WitType::Integer(Integer::U8);
    assert_eq!(encoded(&u8, &json!(255)), Val::U8(255));
    assert_eq!(wrong(&u8, &json!(256)), "is out of the range of u8");
    assert_eq!(wrong(&u8, &json!("5")), "expected an integer, found a string");
    assert_eq!(wrong(&WitType::Integer(Integer::S8), &json!(-129)), "is out of the range of s8");
}

#[test]
fn floats_that_json_has_no_word_for_are_refused_by_name_both_ways() {
    for name in ["NaN", "nan", "Infinity", "-inf"] {
        let text = wrong(&WitType::Float64, &json!(name));
        assert_eq!(text, "expected a number: NaN and infinities cannot be passed", "{name}");
    }
    assert_eq!(wrong(&WitType::Float64, &json!("5")), "expected a number, found a string");
    assert_eq!(
        wrong(&WitType::Float32, &json!(1e39)),
        "is too large for an f32: infinities cannot be passed"
    );
    // The largest that rounds down to the largest f32, and the next.
    let largest = f64::from(f32::MAX) + 2_f64.powi(102);
    assert_eq!(encoded(&WitType::Float32, &json!(largest)), Val::Float32(f32::MAX));
    let halfway = f64::from(f32::MAX) + 2_f64.powi(103);
    assert!(wrong(&WitType::Float32, &json!(-halfway)).contains("too large"), "{halfway}");

    let refused = |ty, val| decode::value(&ty, &val).unwrap_err().to_string();
    assert_eq!(refused(WitType::Float64, Val::Float64(f64::NAN)), "is NaN, which JSON cannot carry");
    assert_eq!(
        refused(WitType::Float32, Val::Float32(f32::INFINITY)),
        "is infinity, which JSON cannot carry"
    );
    let list = WitType::List(Box::new(WitType::Float64), None);
    let values = Val::List(vec![Val::Float64(1.0), Val::Float64(f64::NEG_INFINITY)]);
    assert_eq!(refused(list, values), "/1: is -infinity, which JSON cannot carry");
}

#[test]
fn a_short_float_is_written_shortly() {
    assert_eq!(decode::value(&WitType::Float32, &Val::Float32(0.1)).unwrap().to_string(), "0.1");
    assert_eq!(decode::value(&WitType::Float64, &Val::Float64(0.1)).unwrap().to_string(), "0.1");
}

#[test]
fn characters_are_one_character() {
    assert_eq!(encoded(&WitType::Char, &json!("😀")), Val::Char('😀'));
    assert_eq!(wrong(&WitType::Char, &json!("")), "expected a string of one character, found an empty one");
    assert_eq!(wrong(&WitType::Char, &json!("ab")), "expected a string of one character, found a longer one");
}

#[test]
fn bytes_are_base64_with_and_without_padding() {
    let bytes = WitType::Bytes(None);
    let val = Val::List(vec![Val::U8(0), Val::U8(255)]);
    assert_eq!(encoded(&bytes, &json!("AP8=")), val);
    assert_eq!(encoded(&bytes, &json!("AP8")), val);
    assert_eq!(decode::value(&bytes, &val).unwrap(), json!("AP8="));
    assert!(wrong(&bytes, &json!("A?")).starts_with("is not base64: "));
    assert_eq!(wrong(&bytes, &json!([0, 255])), "expected bytes as a base64 string, found an array");
    assert_eq!(wrong(&WitType::Bytes(Some(3)), &json!("AP8=")), "has 2 bytes and must have 3");
}

#[test]
fn options_may_be_absent_or_null_and_nested_ones_can_be_told_apart() {
    let point = WitType::Record(vec![
        Field { name: "x".to_owned(), ty: WitType::Bool },
        Field { name: "label".to_owned(), ty: option(WitType::String) },
    ]);
    let without = Val::Record(vec![("x".into(), Val::Bool(true)), ("label".into(), Val::Option(None))]);
    assert_eq!(encoded(&point, &json!({ "x": true })), without);
    assert_eq!(encoded(&point, &json!({ "x": true, "label": null })), without);
    assert_eq!(decode::value(&point, &without).unwrap(), json!({ "x": true }));
    assert_eq!(wrong(&point, &json!({})), r#"misses the member "x""#);
    assert_eq!(
        wrong(&point, &json!({ "x": true, "X": 1 })),
        r#"has the unknown member "X"; it may have "x", "label""#
    );
    assert_eq!(wrong(&point, &json!({ "x": 1 })), "/x: expected a boolean, found a number");

    let twice = option(option(WitType::Bool));
    let some = |val| Val::Option(Some(Box::new(val)));
    for (json, val) in [
        (json!(null), Val::Option(None)),
        (json!({ "some": null }), some(Val::Option(None))),
        (json!({ "some": true }), some(some(Val::Bool(true)))),
    ] {
        assert_eq!(encoded(&twice, &json), val);
        assert_eq!(decode::value(&twice, &val).unwrap(), json);
    }
    let wanted = r#"null or an object with the one member "some""#;
    assert_eq!(wrong(&twice, &json!(true)), format!("expected {wanted}, found a boolean"));
    assert_eq!(wrong(&twice, &json!({ "some": true, "x": 1 })), format!("expected {wanted}"));
    assert_eq!(wrong(&twice, &json!({ "some": 1 })), "/some: expected a boolean, found a number");
}

#[test]
fn a_case_without_a_value_is_its_name() {
    let shape = WitType::Variant(Named::from(vec![
        Case { name: "nothing".to_owned(), ty: None },
        Case { name: "circle".to_owned(), ty: Some(WitType::Float64) },
    ]));
    let circle = Val::Variant("circle".into(), Some(Box::new(Val::Float64(2.0))));
    assert_eq!(encoded(&shape, &json!("nothing")), Val::Variant("nothing".into(), None));
    assert_eq!(encoded(&shape, &json!({ "circle": 2 })), circle);
    assert_eq!(decode::value(&shape, &circle).unwrap(), json!({ "circle": 2.0 }));
    assert_eq!(
        wrong(&shape, &json!({ "nothing": null })),
        r#"its case "nothing" has no value: write "nothing""#
    );
    assert_eq!(wrong(&shape, &json!("circle")), r#"its case "circle" needs a value: write {"circle": …}"#);
    assert_eq!(
        wrong(&shape, &json!("square")),
        r#"has the unknown case "square"; it may be one of "nothing", "circle""#
    );
    let wanted = "a case: its name, or an object with its name and value";
    assert_eq!(wrong(&shape, &json!({})), format!("expected {wanted}, found an empty object"));
    assert_eq!(
        wrong(&shape, &json!({ "circle": 1, "x": 1 })),
        format!("expected {wanted}, found several members")
    );
    assert_eq!(wrong(&shape, &json!(5)), format!("expected {wanted}, found a number"));
    assert_eq!(wrong(&shape, &json!({ "circle": "wide" })), "/circle: expected a number, found a string");

    let result = WitType::Result { ok: None, err: Some(Box::new(WitType::String)) };
    let failed = Val::Result(Err(Some(Box::new(Val::String("no".into())))));
    assert_eq!(encoded(&result, &json!("ok")), Val::Result(Ok(None)));
    assert_eq!(encoded(&result, &json!({ "err": "no" })), failed);
    assert_eq!(decode::value(&result, &failed).unwrap(), json!({ "err": "no" }));
    assert_eq!(
        wrong(&result, &json!("fine")),
        r#"has the unknown case "fine"; it may be one of "ok", "err""#
    );
}

#[test]
fn flags_are_a_set_in_the_order_of_the_type() {
    let flags = WitType::Flags(["read", "write", "run"].map(str::to_owned).into_iter().collect());
    let set = Val::Flags(vec!["read".into(), "run".into()]);
    assert_eq!(encoded(&flags, &json!(["run", "read", "run"])), set);
    assert_eq!(decode::value(&flags, &set).unwrap(), json!(["read", "run"]));
    assert_eq!(wrong(&flags, &json!(["walk"])), r#"/0: is "walk", not one of "read", "write", "run""#);
    assert_eq!(wrong(&flags, &json!({ "read": true })), "expected an array of names, found an object");
}

#[test]
fn a_strangers_names_are_bounded_and_shown_in_a_mismatch() {
    let names: Named<_> = (0..40).map(|number| format!("n{number}")).collect();
    let text = wrong(&WitType::Enum(names), &json!(format!("\u{202e}{}", "x".repeat(10_000))));
    assert!(
        text.contains(r"\u{202e}xx") && text.ends_with(r#""n15", 24 more"#) && text.len() < 400,
        "{text}"
    );

    let map = WitType::Map(Box::new(WitType::String), Box::new(WitType::Bool));
    assert_eq!(wrong(&map, &json!({ "a/b~\n": 1 })), r"/a~1b~0\n: expected a boolean, found a number");
}

#[test]
fn a_value_that_its_type_does_not_have_is_a_mismatch() {
    let unfit = "is not a value of the type that the component declares";
    let refused = |ty: &WitType, val: &Val| decode::value(ty, val).unwrap_err().to_string();
    let record = WitType::Record(vec![Field { name: "x".to_owned(), ty: WitType::Bool }]);
    assert_eq!(refused(&record, &Val::Record(vec![])), unfit);
    assert_eq!(refused(&record, &Val::Record(vec![("y".into(), Val::Bool(true))])), unfit);
    assert_eq!(refused(&record, &Val::Record(vec![("x".into(), Val::U8(1))])), format!("/x: {unfit}"));
    assert_eq!(refused(&WitType::Tuple(vec![WitType::Bool]), &Val::Tuple(vec![])), unfit);
    assert_eq!(refused(&WitType::Enum(Named::from(vec![])), &Val::Enum("x".into())), unfit);
    assert_eq!(refused(&WitType::Flags(Named::from(vec![])), &Val::Flags(vec!["x".into()])), unfit);
    assert_eq!(refused(&WitType::Bytes(None), &Val::List(vec![Val::Bool(true)])), unfit);
    assert_eq!(refused(&WitType::Integer(Integer::U8), &Val::Bool(true)), unfit);
    let variant = WitType::Variant(Named::from(vec![Case { name: "a".to_owned(), ty: None }]));
    assert_eq!(
        refused(&variant, &Val::Variant("b".into(), None)),
        r#"has the case "b", which its type does not have"#
    );
    assert_eq!(
        refused(&variant, &Val::Variant("a".into(), Some(Box::new(Val::Bool(true))))),
        format!("/a: {unfit}")
    );
}

#[test]
fn of_several_entries_with_one_key_the_last_counts() {
    let map = WitType::Map(Box::new(WitType::String), Box::new(WitType::Bool));
    let entry = |value| (Val::String("a".into()), Val::Bool(value));
    let val = Val::Map(vec![entry(false), entry(true)]);
    assert_eq!(decode::value(&map, &val).unwrap(), json!({ "a": true }));

    let numbered = WitType::Map(Box::new(WitType::Integer(Integer::U8)), Box::new(WitType::Bool));
    assert_eq!(encoded(&numbered, &json!([[1, true]])), Val::Map(vec![(Val::U8(1), Val::Bool(true))]));
    assert_eq!(wrong(&numbered, &json!([[1]])), "/0: expected a pair of a key and a value");
    assert_eq!(wrong(&numbered, &json!([[1, 2]])), "/0/1: expected a boolean, found a number");
    assert_eq!(
        wrong(&numbered, &json!({ "1": true })),
        "expected an array of pairs of a key and a value, found an object"
    );
}
