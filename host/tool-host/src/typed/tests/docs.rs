//! What a component says of itself, and how little it can do with that.

use serde_json::{Value, json};
use wit_parser::Resolve;

use super::{Loaded, MEMORY, function};
use crate::load::contract::tests::leb128;

/// The component with a custom section `package-docs` at its end, as tools add it to a finished component.
pub(super) fn with_docs(component: &[u8], section: &[u8]) -> Vec<u8> {
    let name = b"package-docs";
    let content = [&leb128(name.len()), &name[..], section].concat();
    [component, &[0], &leb128(content.len()), &content].concat()
}

/// The section that WIT tools write for a package.
pub(super) fn section_of(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap();
    let encoded = wit_component::encode(&resolve, package).unwrap();
    let sections =
        wasmparser::Parser::new(0).parse_all(&encoded).filter_map(|payload| match payload.unwrap() {
            wasmparser::Payload::CustomSection(section) if section.name() == "package-docs" => {
                Some(section.data().to_vec())
            }
            _ => None,
        });
    sections.last().unwrap()
}

const WIT: &str = r"package acme:shop@1.0.0;

interface shapes {
    /// Where someone lives.
    record place {
        /// With the house's number.
        street: string,
        town: string,
    }
    enum speed {
        /// By foot.
        slow,
        fast,
    }
}

/// Parcels.
interface parcels {
    use shapes.{place, speed};
    /// Sends a parcel.
    /// Takes days.
    send: func(to: place, how: speed, origin: option<place>);
    track: func();
}

world shop {
    export parcels;
    /// Doors.
    export doors: interface {
        /// Opens a door.
        open: func();
    }
    /// Rings the bell.
    export ring: func();
}
";

/// What a linker makes of that world: types are imported, and named where they are exported.
fn component() -> Vec<u8> {
    let text = format!(
        r#"(component {MEMORY}
            (import "acme:shop/shapes@1.0.0" (instance $shapes
                (type $p (record (field "street" string) (field "town" string)))
                (export "place" (type (eq $p)))
                (type $s (enum "slow" "fast"))
                (export "speed" (type (eq $s)))))
            (alias export $shapes "place" (type $place))
            (alias export $shapes "speed" (type $speed))
            {send} {none}
            (instance $parcels (export "send" (func $send)) (export "track" (func $none)))
            (export "acme:shop/parcels@1.0.0" (instance $parcels))
            (instance $doors (export "open" (func $none)))
            (export "doors" (instance $doors))
            (export "ring" (func $none)))"#,
        send =
            function("send", r#"(param "to" $place) (param "how" $speed) (param "origin" (option $place))"#),
        none = function("none", ""),
    );
    wat::parse_str(text).unwrap()
}

fn loaded(section: &[u8]) -> Loaded {
    Loaded::read(&with_docs(&component(), section)).unwrap()
}

/// A section of the current version.
fn section(json: &Value) -> Vec<u8> {
    [&[1], json.to_string().as_bytes()].concat()
}

#[test]
fn docs_of_functions_types_and_fields_are_descriptions() {
    let loaded = loaded(&section_of(WIT));
    assert_eq!(loaded.tool("parcels_send").description, "Sends a parcel.\nTakes days.");
    assert_eq!(loaded.tool("parcels_track").description, "Calls `track` of `acme:shop/parcels`. Parcels.");
    assert_eq!(loaded.tool("doors_open").description, "Opens a door.");
    assert_eq!(loaded.tool("ring").description, "Rings the bell.");
    let place = json!({
        "type": "object",
        "description": "Where someone lives.",
        "properties": {
            "street": { "type": "string", "description": "With the house's number." },
            "town": { "type": "string" },
        },
        "required": ["street", "town"],
        "additionalProperties": false,
    });
    let properties = &loaded.tool("parcels_send").input_schema["properties"];
    assert_eq!(properties["to"], place);
    assert_eq!(properties["origin"]["description"], "Where someone lives.");
    assert_eq!(
        properties["how"],
        json!({ "type": "string", "enum": ["slow", "fast"], "description": "slow: By foot." })
    );
}

#[test]
fn without_docs_a_tool_says_which_function_it_is() {
    let loaded = Loaded::read(&component()).unwrap();
    assert_eq!(loaded.tool("parcels_send").description, "Calls `send` of `acme:shop/parcels`.");
    assert_eq!(loaded.tool("doors_open").description, "Calls `open` of `doors`.");
    assert_eq!(loaded.tool("ring").description, "Calls `ring`.");
    assert!(!loaded.tool("parcels_send").input_schema.to_string().contains("description"));
}

#[test]
fn a_section_that_cannot_be_read_is_no_section() {
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let long =
        json!({ "worlds": { "shop": { "func_exports": { "ring": { "docs": "x".repeat(300_000) } } } } });
    let odd = json!({ "worlds": [1], "interfaces": { "parcels": { "docs": { "a": 1 }, "funcs": 5, "types": null } } });
    for bytes in [
        b"".to_vec(),
        vec![7, b'{', b'}'],
        vec![1],
        b"\x01{\"worlds\":".to_vec(),
        b"\x01\xff\xfe".to_vec(),
        [&[1], nested.as_bytes()].concat(),
        section(&long),
        section(&odd),
    ] {
        let loaded = loaded(&bytes);
        assert_eq!(loaded.tool("ring").description, "Calls `ring`.", "{:?}", bytes.get(..20));
        assert_eq!(loaded.tool("parcels_track").description, "Calls `track` of `acme:shop/parcels`.");
    }
}

#[test]
fn what_cannot_be_seen_is_taken_out_and_what_is_long_is_cut() {
    let docs = |text: String| {
        section(&json!({ "worlds": { "shop": { "func_exports": { "ring": { "docs": text } } } } }))
    };
    let description = |text: String| loaded(&docs(text)).tool("ring").description.clone();
    assert_eq!(description("Rings.\u{e0041}\u{200b}\u{7}\n".to_owned()), "Rings.");
    assert_eq!(description("\u{200b}".to_owned()), "Calls `ring`.");
    let cut = description("ü".repeat(5000));
    assert!(cut.len() <= (2 << 10) + 3 && cut.ends_with("ü…"), "{}", cut.len());
}

#[test]
fn docs_of_the_first_version_are_read_too() {
    let old = json!({ "worlds": { "shop": { "funcs": { "ring": "Rings." } } }, "interfaces": { "parcels": { "funcs": { "send": "Sends." } } } });
    let loaded = loaded(&[&[0], old.to_string().as_bytes()].concat());
    assert_eq!(loaded.tool("ring").description, "Rings.");
    assert_eq!(loaded.tool("parcels_send").description, "Sends.");
}

#[test]
fn what_worlds_or_equal_types_disagree_on_is_said_of_none() {
    let world = |text: &str| json!({ "func_exports": { "ring": { "docs": text } } });
    let worlds = json!({ "worlds": { "a": world("Rings."), "b": world("Explodes.") } });
    assert_eq!(loaded(&section(&worlds)).tool("ring").description, "Calls `ring`.");

    let component = format!(
        r#"(component {MEMORY}
            (type $a (record (field "degrees" f64))) (import "celsius" (type $celsius (eq $a)))
            (type $b (record (field "degrees" f64))) (import "kelvin" (type $kelvin (eq $b)))
            {} (export "heat" (func $f)))"#,
        function("f", r#"(param "c" $celsius) (param "k" $kelvin)"#)
    );
    let types = json!({ "worlds": { "w": { "types": { "celsius": { "docs": "From ice." }, "kelvin": { "docs": "From nothing." } } } } });
    let bytes = with_docs(&wat::parse_str(&component).unwrap(), &section(&types));
    let schema = &Loaded::read(&bytes).unwrap().tools[0].input_schema;
    assert!(!schema.to_string().contains("From"), "{schema}");
}

#[test]
fn docs_of_what_is_composed_into_a_component_are_not_its_own() {
    let docs =
        section(&json!({ "worlds": { "shop": { "func_exports": { "ring": { "docs": "Explodes." } } } } }));
    let inner = with_docs(&wat::parse_str("(component)").unwrap(), &docs);
    // Section 4 is a component within a component.
    let bytes = [&component()[..], &[4], &leb128(inner.len()), &inner].concat();
    assert_eq!(Loaded::read(&bytes).unwrap().tool("ring").description, "Calls `ring`.");
}

#[test]
fn docs_that_make_a_schema_too_long_are_left_out_rather_than_the_tool() {
    let fields: Vec<_> = (0..60).map(|number| format!("f{number}")).collect();
    let declared: String = fields.iter().map(|name| format!(r#"(field "{name}" bool)"#)).collect();
    let component = format!(
        r#"(component {MEMORY} (type $r (record {declared})) (import "switches" (type $e (eq $r)))
            {} (export "f" (func $f)))"#,
        function("f", r#"(param "p" $e)"#)
    );
    let items: serde_json::Map<_, _> =
        fields.iter().map(|name| (name.clone(), json!("x".repeat(500)))).collect();
    let docs = json!({ "worlds": { "w": { "types": { "switches": { "items": items } } } } });
    let bytes = with_docs(&wat::parse_str(&component).unwrap(), &section(&docs));
    let schema = Loaded::read(&bytes).unwrap().tools[0].input_schema.to_string();
    assert!(!schema.contains("description") && schema.contains("f59"), "{schema}");
}
