//! WIT types as a value of our own: read once from a loaded component within a budget, then walked by the
//! schema, the encoder and the decoder.
//!
//! Types are a directed graph in the component and a tree here. A small file can hold a graph whose tree has
//! more nodes than there are atoms, so each node and each name is paid for before it is made.

use json_schema::text_sanitizer::printable;
use wasmtime::component::Type;

use super::named::{HasName, Named};

/// How deep types may be nested in a parameter or a result. Each level is at most four of the schema's JSON,
/// and JSON is read to a depth of 128.
pub(super) const DEPTH: u32 = 16;

/// Most types, fields, cases and names that all functions of a component may come to.
pub(super) const MOST_PARTS: u32 = 4_096;

/// Longest name of a parameter, field or case, in bytes: what providers allow a member of the arguments.
pub(super) const LABEL_BYTES: usize = 64;

/// A type that JSON can carry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum WitType {
    Bool,
    Integer(Integer),
    Float32,
    Float64,
    Char,
    String,
    /// `list<u8>`, or `list<u8, N>`.
    Bytes(Option<u32>),
    /// `list<T>`, or `list<T, N>`.
    List(Box<WitType>, Option<u32>),
    Map(Box<WitType>, Box<WitType>),
    Record(Vec<Field>),
    Tuple(Vec<WitType>),
    Variant(Named<Case>),
    Enum(Named<String>),
    Option(Box<WitType>),
    Result {
        ok: Option<Box<WitType>>,
        err: Option<Box<WitType>>,
    },
    Flags(Named<String>),
}

impl WitType {
    pub(super) fn has_flags(&self) -> bool {
        let boxed = |part: &Option<Box<Self>>| part.as_ref().is_some_and(|part| part.has_flags());
        match self {
            Self::Flags(_) => true,
            Self::List(part, _) | Self::Option(part) => part.has_flags(),
            Self::Map(key, value) => key.has_flags() || value.has_flags(),
            Self::Record(fields) => fields.iter().any(|field| field.ty.has_flags()),
            Self::Tuple(parts) => parts.iter().any(Self::has_flags),
            Self::Variant(cases) => cases.iter().any(|case| case.ty.as_ref().is_some_and(Self::has_flags)),
            Self::Result { ok, err } => boxed(ok) || boxed(err),
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Integer {
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
}

/// A field of a record, or a parameter.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) ty: WitType,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) ty: Option<WitType>,
}

impl HasName for Case {
    fn name(&self) -> &str {
        &self.name
    }
}

impl WitType {
    /// Whether JSON's null is one of its values, so that an option around it needs another form for `some`.
    pub(super) fn is_nullable(&self) -> bool {
        matches!(self, Self::Option(_))
    }
}

/// Why a type cannot be read, and where.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// From the inside out.
    place: Vec<String>,
}

/// What is wrong with a type.
#[derive(Debug, Clone, Copy)]
pub(super) enum FaultKind {
    Unsupported(&'static str),
    TooDeep,
    TooManyParts,
    LongLabel,
}

impl Fault {
    fn new(kind: FaultKind) -> Self {
        Self { kind, place: Vec::new() }
    }

    fn unsupported<T>(what: &'static str) -> Result<T, Self> {
        Err(Self::new(FaultKind::Unsupported(what)))
    }

    /// The fault as seen from one level up.
    pub(super) fn within(mut self, place: impl Into<String>) -> Self {
        self.place.push(place.into());
        self
    }

    /// Where it is: "the field `a` of the parameter `b`".
    pub(super) fn place(&self) -> String {
        self.place.join(" of ")
    }
}

/// Reads types and pays for them.
#[derive(Debug)]
pub(super) struct TypeReader {
    parts_left: u32,
}

impl Default for TypeReader {
    fn default() -> Self {
        Self { parts_left: MOST_PARTS }
    }
}

impl TypeReader {
    pub(super) fn field(&mut self, kind: &str, name: &str, ty: &Type, depth: u32) -> Result<Field, Fault> {
        let read = |reader: &mut Self| Ok(Field { name: reader.label(name)?, ty: reader.read(ty, depth)? });
        read(self).map_err(|fault: Fault| fault.within(named(kind, name)))
    }

    /// A type that stands `depth` levels below a parameter or result.
    pub(super) fn read(&mut self, ty: &Type, depth: u32) -> Result<WitType, Fault> {
        self.pay()?;
        if depth >= DEPTH {
            return Err(Fault::new(FaultKind::TooDeep));
        }
        Ok(match ty {
            Type::Bool => WitType::Bool,
            Type::U8 => WitType::Integer(Integer::U8),
            Type::U16 => WitType::Integer(Integer::U16),
            Type::U32 => WitType::Integer(Integer::U32),
            Type::U64 => WitType::Integer(Integer::U64),
            Type::S8 => WitType::Integer(Integer::S8),
            Type::S16 => WitType::Integer(Integer::S16),
            Type::S32 => WitType::Integer(Integer::S32),
            Type::S64 => WitType::Integer(Integer::S64),
            Type::Float32 => WitType::Float32,
            Type::Float64 => WitType::Float64,
            Type::Char => WitType::Char,
            Type::String => WitType::String,
            Type::Own(_) | Type::Borrow(_) => return Fault::unsupported("a resource"),
            Type::Future(_) => return Fault::unsupported("a future"),
            Type::Stream(_) => return Fault::unsupported("a stream"),
            Type::ErrorContext => return Fault::unsupported("an error context"),
            compound => self.compound(compound, depth + 1)?,
        })
    }

    fn compound(&mut self, ty: &Type, depth: u32) -> Result<WitType, Fault> {
        Ok(match ty {
            Type::List(list) => self.list(&list.ty(), None, depth)?,
            Type::FixedLengthList(list) => self.list(&list.ty(), Some(list.len()), depth)?,
            Type::Map(map) => {
                let key = self.read(&map.key(), depth).map_err(|fault| fault.within("the key"))?;
                let value = self.read(&map.value(), depth).map_err(|fault| fault.within("the value"))?;
                WitType::Map(Box::new(key), Box::new(value))
            }
            Type::Record(record) => {
                let fields = record.fields();
                WitType::Record(
                    fields
                        .map(|field| self.field("field", field.name, &field.ty, depth))
                        .collect::<Result<_, _>>()?,
                )
            }
            Type::Tuple(tuple) => {
                let items = tuple.types().enumerate();
                let read = items.map(|(position, ty)| {
                    self.read(&ty, depth).map_err(|fault| fault.within(format!("item {position}")))
                });
                WitType::Tuple(read.collect::<Result<_, _>>()?)
            }
            Type::Variant(variant) => {
                let cases = variant.cases().map(|case| self.case(case.name, case.ty.as_ref(), depth));
                WitType::Variant(cases.collect::<Result<_, _>>()?)
            }
            Type::Enum(names) => WitType::Enum(self.labels(names.names())?),
            Type::Flags(names) => WitType::Flags(self.labels(names.names())?),
            Type::Option(option) => WitType::Option(Box::new(self.read(&option.ty(), depth)?)),
            Type::Result(result) => WitType::Result {
                ok: self.arm("ok", result.ok().as_ref(), depth)?,
                err: self.arm("err", result.err().as_ref(), depth)?,
            },
            // The rest is read before it comes here.
            _ => return Fault::unsupported("an unknown type"),
        })
    }

    fn list(&mut self, element: &Type, length: Option<u32>, depth: u32) -> Result<WitType, Fault> {
        match self.read(element, depth).map_err(|fault| fault.within("the element"))? {
            WitType::Integer(Integer::U8) => Ok(WitType::Bytes(length)),
            element => Ok(WitType::List(Box::new(element), length)),
        }
    }

    fn case(&mut self, name: &str, ty: Option<&Type>, depth: u32) -> Result<Case, Fault> {
        let read = |reader: &mut Self| {
            let ty = ty.map(|ty| reader.read(ty, depth)).transpose()?;
            Ok(Case { name: reader.label(name)?, ty })
        };
        read(self).map_err(|fault: Fault| fault.within(named("case", name)))
    }

    fn arm(&mut self, name: &str, ty: Option<&Type>, depth: u32) -> Result<Option<Box<WitType>>, Fault> {
        let read = ty.map(|ty| self.read(ty, depth).map(Box::new)).transpose();
        read.map_err(|fault| fault.within(named("case", name)))
    }

    fn labels<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> Result<Named<String>, Fault> {
        names.map(|name| self.label(name)).collect()
    }

    fn label(&mut self, name: &str) -> Result<String, Fault> {
        self.pay()?;
        if name.len() > LABEL_BYTES {
            return Err(Fault::new(FaultKind::LongLabel));
        }
        Ok(name.to_owned())
    }

    fn pay(&mut self) -> Result<(), Fault> {
        let left = self.parts_left.checked_sub(1).ok_or_else(|| Fault::new(FaultKind::TooManyParts))?;
        self.parts_left = left;
        Ok(())
    }
}

fn named(kind: &str, name: &str) -> String {
    format!("the {kind} `{}`", printable(name, LABEL_BYTES))
}
