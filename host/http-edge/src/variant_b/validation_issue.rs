//! What is wrong with a request, one issue at a time, as zod 3 says it (wire 1.2).
//!
//! Keys and messages are those of zod 3. `origin`, which zod 4 has instead of `type`, stands beside it, so that
//! clients of either find what they read.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// Where a field stands, from the outside in.
pub(super) type Path = &'static [&'static str];

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub(super) enum Issue {
    InvalidType {
        expected: &'static str,
        received: &'static str,
        path: Path,
        message: Cow<'static, str>,
    },
    TooSmall {
        minimum: u32,
        #[serde(flatten)]
        of: Of,
        message: String,
        path: Path,
    },
    TooBig {
        maximum: u32,
        #[serde(flatten)]
        of: Of,
        message: String,
        path: Path,
    },
    InvalidEnumValue {
        received: String,
        options: Vec<&'static str>,
        path: Path,
        message: String,
    },
    Custom {
        message: &'static str,
        path: Path,
    },
}

/// What a bound is one of. All of ours may be reached themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Of {
    r#type: &'static str,
    origin: &'static str,
    inclusive: bool,
    exact: bool,
}

impl Of {
    fn a(kind: &'static str) -> Self {
        Self { r#type: kind, origin: kind, inclusive: true, exact: false }
    }
}

impl Issue {
    /// A cursor that no list of jobs has given.
    pub(super) const BAD_CURSOR: &[Self] = &[Self::Custom { message: "Invalid cursor", path: &["cursor"] }];

    /// A value of the wrong kind; none at all if there is no such field.
    pub(super) fn wrong_type(expected: &'static str, received: Option<&Value>, path: Path) -> Self {
        match received {
            None => Self::required(expected, path),
            Some(value) => Self::received(expected, kind_of(value), path),
        }
    }

    pub(super) fn required(expected: &'static str, path: Path) -> Self {
        Self::InvalidType { expected, received: "undefined", path, message: "Required".into() }
    }

    pub(super) fn received(expected: &'static str, received: &'static str, path: Path) -> Self {
        let message = format!("Expected {expected}, received {received}").into();
        Self::InvalidType { expected, received, path, message }
    }

    pub(super) fn too_short(minimum: u32, path: Path) -> Self {
        let message = format!("String must contain at least {minimum} character(s)");
        Self::TooSmall { minimum, of: Of::a("string"), message, path }
    }

    pub(super) fn too_long(maximum: u32, path: Path) -> Self {
        let message = format!("String must contain at most {maximum} character(s)");
        Self::TooBig { maximum, of: Of::a("string"), message, path }
    }

    /// A number outside of its range, which includes both ends.
    pub(super) fn out_of_range(number: f64, [minimum, maximum]: [u32; 2], path: Path) -> Option<Self> {
        let of = Of::a("number");
        if number < f64::from(minimum) {
            let message = format!("Number must be greater than or equal to {minimum}");
            return Some(Self::TooSmall { minimum, of, message, path });
        }
        let message = format!("Number must be less than or equal to {maximum}");
        (number > f64::from(maximum)).then_some(Self::TooBig { maximum, of, message, path })
    }

    pub(super) fn not_one_of(options: Vec<&'static str>, received: String, path: Path) -> Self {
        let quoted: Vec<_> = options.iter().map(|option| format!("'{option}'")).collect();
        let message = format!("Invalid enum value. Expected {}, received '{received}'", quoted.join(" | "));
        Self::InvalidEnumValue { received, options, path, message }
    }

    fn path(&self) -> Path {
        match self {
            Self::InvalidType { path, .. }
            | Self::TooSmall { path, .. }
            | Self::TooBig { path, .. }
            | Self::InvalidEnumValue { path, .. }
            | Self::Custom { path, .. } => path,
        }
    }
}

/// JSON's kinds of values by their names in zod.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Everything that is wrong, in the order of the schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub(super) struct Issues(pub(super) Vec<Issue>);

impl Issues {
    /// The value of a field that is as it should be; otherwise what is wrong with it is noted.
    pub(super) fn check<T>(&mut self, field: Result<T, Issue>) -> Option<T> {
        field.map_err(|issue| self.0.push(issue)).ok()
    }
}

impl From<Issue> for Issues {
    fn from(issue: Issue) -> Self {
        Self(vec![issue])
    }
}

/// For the log: which fields, and not what they hold.
impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request does not match its schema in:")?;
        self.0.iter().try_for_each(|issue| match issue.path() {
            [] => f.write_str(" the whole body"),
            path => write!(f, " `{}`", path.join(".")),
        })
    }
}
