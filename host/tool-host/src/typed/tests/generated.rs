//! Random types, random values of them, and the component text that has such a type.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wasmtime::component::Val;

use crate::typed::named::Named;
use crate::typed::wit_type::{Case, Field, Integer, WitType};

/// Numbers to make a value of, one after another and then zeros.
#[derive(Debug, Clone)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        // Small numbers choose cases and lengths, edges try integers, any others are any others.
        let number = prop_oneof![0_u64..4, Just(u64::MAX), Just(1 << 63), Just((1 << 53) + 1), any::<u64>()];
        proptest::collection::vec(number, 0..64).prop_map(Self)
    }

    fn next(&mut self) -> u64 {
        self.0.pop().unwrap_or_default()
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }
}

/// A few labels, among them such as mean something to the mapping.
fn label(index: usize) -> String {
    let known = ["ok", "err", "some", "value", "a-b", "x"];
    known.get(index).map_or_else(|| format!("n{index}"), |&name| name.to_owned())
}

fn labels(count: impl Into<proptest::collection::SizeRange>) -> impl Strategy<Value = Named<String>> {
    proptest::collection::vec(Just(()), count).prop_map(|items| (0..items.len()).map(label).collect())
}

fn integer() -> impl Strategy<Value = WitType> {
    use Integer::{S8, S16, S32, S64, U8, U16, U32, U64};
    proptest::sample::select(vec![U8, U16, U32, U64, S8, S16, S32, S64]).prop_map(WitType::Integer)
}

/// Any type that can be a key of a map.
fn key() -> impl Strategy<Value = WitType> {
    prop_oneof![Just(WitType::String), integer(), Just(WitType::Char), Just(WitType::Bool)]
}

fn leaf() -> impl Strategy<Value = WitType> {
    prop_oneof![
        Just(WitType::Bool),
        integer(),
        Just(WitType::Float32),
        Just(WitType::Float64),
        Just(WitType::Char),
        Just(WitType::String),
        proptest::option::of(1_u32..4).prop_map(WitType::Bytes),
        labels(1..5).prop_map(WitType::Enum),
        labels(1..5).prop_map(WitType::Flags),
    ]
}

/// A list, unless it is one of bytes.
fn list(element: WitType, length: Option<u32>) -> WitType {
    match element {
        WitType::Integer(Integer::U8) => WitType::Bytes(length),
        element => WitType::List(Box::new(element), length),
    }
}

/// Any type that can be passed.
pub(super) fn any_type() -> impl Strategy<Value = WitType> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        let arm = proptest::option::of(inner.clone().prop_map(Box::new));
        let many = || proptest::collection::vec(inner.clone(), 1..5);
        let cases = proptest::collection::vec(proptest::option::of(inner.clone()), 1..5);
        prop_oneof![
            (inner.clone(), proptest::option::of(1_u32..4))
                .prop_map(|(element, length)| list(element, length)),
            (key(), inner.clone()).prop_map(|(key, value)| WitType::Map(Box::new(key), Box::new(value))),
            many().prop_map(|types| {
                let fields = types.into_iter().enumerate();
                WitType::Record(fields.map(|(index, ty)| Field { name: label(index), ty }).collect())
            }),
            many().prop_map(WitType::Tuple),
            cases.prop_map(|types| {
                let cases = types.into_iter().enumerate();
                WitType::Variant(cases.map(|(index, ty)| Case { name: label(index), ty }).collect())
            }),
            inner.clone().prop_map(|ty| WitType::Option(Box::new(ty))),
            (arm.clone(), arm).prop_map(|(ok, err)| WitType::Result { ok, err }),
        ]
    })
}

fn char(bits: &mut Bits) -> char {
    u32::try_from(bits.next() % 0x11_0000).ok().and_then(char::from_u32).unwrap_or('ß')
}

fn integer_of(kind: Integer, number: u64) -> Val {
    match kind {
        Integer::U8 => Val::U8(number as u8),
        Integer::U16 => Val::U16(number as u16),
        Integer::U32 => Val::U32(number as u32),
        Integer::U64 => Val::U64(number),
        Integer::S8 => Val::S8(number as i8),
        Integer::S16 => Val::S16(number as i16),
        Integer::S32 => Val::S32(number as i32),
        Integer::S64 => Val::S64(number as i64),
    }
}

/// A value of a type. Its maps have each key once.
pub(super) fn value_of(ty: &WitType, bits: &mut Bits) -> Val {
    let boxed = |ty: &WitType, bits: &mut Bits| Some(Box::new(value_of(ty, bits)));
    match ty {
        WitType::Bool => Val::Bool(bits.below(2) == 1),
        WitType::Integer(kind) => integer_of(*kind, bits.next()),
        WitType::Float32 => Val::Float32(
            Some(f32::from_bits(bits.next() as u32)).filter(|float| float.is_finite()).unwrap_or(-0.0),
        ),
        WitType::Float64 => {
            Val::Float64(Some(f64::from_bits(bits.next())).filter(|float| float.is_finite()).unwrap_or(-0.0))
        }
        WitType::Char => Val::Char(char(bits)),
        WitType::String => Val::String((0..bits.below(4)).map(|_| char(bits)).collect()),
        WitType::Bytes(length) => items(*length, &WitType::Integer(Integer::U8), bits),
        WitType::List(element, length) => items(*length, element, bits),
        WitType::Map(key, entry) => {
            let count = bits.below(4);
            let entries = (0..count).map(|_| {
                let key = value_of(key, bits);
                // As JSON has it: in the order of their names.
                let name = if let Val::String(name) = &key { name.clone() } else { format!("{key:?}") };
                (name, (key, value_of(entry, bits)))
            });
            Val::Map(entries.collect::<BTreeMap<_, _>>().into_values().collect())
        }
        WitType::Record(fields) => {
            Val::Record(fields.iter().map(|field| (field.name.clone(), value_of(&field.ty, bits))).collect())
        }
        WitType::Tuple(types) => Val::Tuple(types.iter().map(|ty| value_of(ty, bits)).collect()),
        WitType::Variant(cases) => {
            let case = &cases[bits.below(cases.len())];
            Val::Variant(case.name.clone(), case.ty.as_ref().and_then(|ty| boxed(ty, bits)))
        }
        WitType::Enum(names) => Val::Enum(names[bits.below(names.len())].clone()),
        WitType::Option(inner) => Val::Option(if bits.below(2) == 1 { boxed(inner, bits) } else { None }),
        WitType::Result { ok, err } => Val::Result(if bits.below(2) == 1 {
            Ok(ok.as_ref().and_then(|ty| boxed(ty, bits)))
        } else {
            Err(err.as_ref().and_then(|ty| boxed(ty, bits)))
        }),
        WitType::Flags(names) => Val::Flags(names.iter().filter(|_| bits.below(2) == 1).cloned().collect()),
    }
}

fn items(length: Option<u32>, element: &WitType, bits: &mut Bits) -> Val {
    let count = length.map_or_else(|| bits.below(4), |length| length as usize);
    let values = (0..count).map(|_| value_of(element, bits)).collect();
    if length.is_some() { Val::FixedLengthList(values) } else { Val::List(values) }
}

/// The text of a component whose function `identity` returns its parameter `value`.
///
/// With `padding` of more than sixteen numbers, parameters are passed in memory, and so is what is returned.
/// The two lie there alike, so the function only has to return the pointer it was given.
pub(super) fn identity_component(ty: &WitType) -> String {
    let mut text = Declarations::default();
    let value = text.declare(ty);
    let padding = text.add(&format!("(tuple {})", "u64 ".repeat(17)));
    let whole = text.named(&format!(r#"(record (field "value" {value}) (field "padding" {padding}))"#));
    format!(
        r#"(component {lines}
            (core module $code
                (memory (export "memory") 4)
                (global $next (mut i32) (i32.const 16))
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                    (global.set $next (i32.and (i32.add (global.get $next) (i32.const 15)) (i32.const -16)))
                    (local.set $at (global.get $next))
                    (global.set $next (i32.add (global.get $next) (local.get 3)))
                    (local.get $at))
                (func (export "identity") (param i32) (result i32) (local.get 0)))
            (core instance $i (instantiate $code))
            (func (export "identity") (param "value" {whole}) (result {whole})
                (canon lift (core func $i "identity") (memory $i "memory") (realloc (func $i "realloc")))))"#,
        lines = text.lines
    )
}

/// Declared types. Those with names of their own have to be exported before a function may have them.
#[derive(Debug, Default)]
struct Declarations {
    lines: String,
    count: usize,
}

impl Declarations {
    fn add(&mut self, ty: &str) -> String {
        self.count += 1;
        self.lines.push_str(&format!("(type $t{} {ty})\n", self.count));
        format!("$t{}", self.count)
    }

    fn named(&mut self, ty: &str) -> String {
        let ty = self.add(ty);
        let name = format!("$e{}", self.count);
        self.lines.push_str(&format!("(export {name} \"e{}\" (type {ty}))\n", self.count));
        name
    }

    fn all<'a>(
        &mut self,
        keyword: &str,
        types: impl IntoIterator<Item = (Option<&'a str>, Option<&'a WitType>)>,
    ) -> String {
        let parts: String = types
            .into_iter()
            .map(|(name, ty)| {
                let ty = ty.map(|ty| self.declare(ty)).unwrap_or_default();
                match name {
                    Some(name) => format!(" ({keyword} \"{name}\" {ty})"),
                    None => format!(" {ty}"),
                }
            })
            .collect();
        parts
    }

    fn declare(&mut self, ty: &WitType) -> String {
        let quoted = |names: &[String]| names.iter().map(|name| format!(" \"{name}\"")).collect::<String>();
        let sized = |length: &Option<u32>| length.map(|length| format!(" {length}")).unwrap_or_default();
        match ty {
            WitType::Bool => "bool".to_owned(),
            WitType::Integer(kind) => format!("{kind:?}").to_lowercase(),
            WitType::Float32 => "f32".to_owned(),
            WitType::Float64 => "f64".to_owned(),
            WitType::Char => "char".to_owned(),
            WitType::String => "string".to_owned(),
            WitType::Bytes(length) => self.add(&format!("(list u8{})", sized(length))),
            WitType::List(element, length) => {
                let element = self.declare(element);
                self.add(&format!("(list {element}{})", sized(length)))
            }
            WitType::Map(key, value) => {
                let (key, value) = (self.declare(key), self.declare(value));
                self.add(&format!("(map {key} {value})"))
            }
            WitType::Record(fields) => {
                let fields =
                    self.all("field", fields.iter().map(|field| (Some(&*field.name), Some(&field.ty))));
                self.named(&format!("(record{fields})"))
            }
            WitType::Tuple(types) => {
                let items = self.all("", types.iter().map(|ty| (None, Some(ty))));
                self.add(&format!("(tuple{items})"))
            }
            WitType::Variant(cases) => {
                let cases = self.all("case", cases.iter().map(|case| (Some(&*case.name), case.ty.as_ref())));
                self.named(&format!("(variant{cases})"))
            }
            WitType::Enum(names) => self.named(&format!("(enum{})", quoted(names))),
            WitType::Flags(names) => self.named(&format!("(flags{})", quoted(names))),
            WitType::Option(inner) => {
                let inner = self.declare(inner);
                self.add(&format!("(option {inner})"))
            }
            WitType::Result { ok, err } => {
                let ok = ok.as_ref().map(|ok| self.declare(ok)).unwrap_or_default();
                let err =
                    err.as_ref().map(|err| format!("(error {})", self.declare(err))).unwrap_or_default();
                self.add(&format!("(result {ok} {err})"))
            }
        }
    }
}
