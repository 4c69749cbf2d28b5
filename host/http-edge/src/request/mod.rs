//! What a request may say, described once: [`request!`] makes a type with its fields' names, bounds, defaults
//! and examples. From the type derive its reader ([`read`], [`read_query`]), the issues with what does not
//! fit it, and its schema in the document.
//!
//! - `field`: what is said of one field. `check`: holds a value against that. `issue`: what is wrong, as zod
//!   3 says it.
//! - `value`: values into the types of fields. `path_id`: the id in a path.
//! - `history`: what was said before a request. `output_schema`: the form that it wants its answer in.
//!
//! All issues are collected, in the order of the fields (host/docs/interface/decisions-http.md#validation).
//! Keys that nobody asked for are ignored, unless the type says otherwise.

mod check;
mod field;
pub(crate) mod history;
mod issue;
pub(crate) mod output_schema;
pub mod path_id;
mod value;

use std::borrow::Cow;

use serde_json::{Map, Value};

pub use field::{Elsewhere, Field, Kind, Object, Pattern};
pub use issue::{Issue, Issues, MOST_QUOTED, Step, dotted};
pub use value::{FromJson, take};

/// A body, an object in one, or the parameters of a query string.
pub trait Request: FromJson {
    /// What is said of it.
    const OBJECT: &'static Object;

    /// The same for a field that holds one.
    const KIND: Kind = Kind::Object(Self::OBJECT);
}

/// Declares a type of request. Comments are the descriptions in the document.
#[macro_export]
macro_rules! declare_request {
    (
        $(#[doc = $about:literal])+
        $visibility:vis struct $name:ident = $manner:expr;
        $($(#[doc = $said:literal])* $field:ident: $type:ty = $described:expr;)*
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, PartialEq)]
        $visibility struct $name {
            $($(#[doc = $said])* $visibility $field: $type,)*
        }

        impl $crate::request::Request for $name {
            const OBJECT: &'static $crate::request::Object = &$crate::request::Object {
                name: stringify!($name),
                about: concat!($($about),+).trim_ascii_start(),
                fields: &[$($described.about(concat!($($said),*).trim_ascii_start())),*],
                ..$manner
            };
        }

        impl $crate::request::FromJson for $name {
            #[allow(unused_mut, unused_variables, reason = "a request may have no fields")]
            fn from_json(value: Option<serde_json::Value>) -> Option<Self> {
                let mut value = value;
                let mut fields = <Self as $crate::request::Request>::OBJECT.fields.iter();
                Some(Self { $($field: $crate::request::take(fields.next()?, value.as_mut())?,)* })
            }
        }
    };
}
pub use declare_request as request;

/// Reads a body that is JSON.
pub fn read<T: Request>(body: Value) -> Result<T, Issues> {
    check::check(T::OBJECT, &body, false)?;
    take_checked(body)
}

/// Reads the value of one field.
pub fn read_field<T: FromJson>(field: &Field, value: &Value) -> Result<T, Issue> {
    check::check_field(field, value)?;
    let path = vec![Step::Name(field.name)];
    T::from_json(Some(value.clone()))
        .ok_or_else(|| Issue::wrong_type(field.kind.expected(), Some(value), path))
}

/// What has been checked can be taken: a test holds the two against each other.
fn take_checked<T: Request>(value: Value) -> Result<T, Issues> {
    T::from_json(Some(value)).ok_or_else(|| Issue::wrong_type("object", None, vec![]).into())
}

/// Reads a query string. Of a parameter that is given twice the first counts.
pub fn read_query<T: Request>(query: Option<&str>) -> Result<T, Issues> {
    let given = T::OBJECT.fields.iter().filter_map(|field| {
        let text = find(query, field.name).filter(|text| !(field.empty_is_absent && text.is_empty()))?;
        Some((field.name.to_owned(), field.kind.of_text(text.into_owned())))
    });
    let given = Value::Object(given.collect::<Map<_, _>>());
    check::check(T::OBJECT, &given, true)?;
    take_checked(given)
}

fn find<'a>(query: Option<&'a str>, name: &str) -> Option<Cow<'a, str>> {
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
}
