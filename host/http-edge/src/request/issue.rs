//! What is wrong with a request, one issue at a time, as zod 3 says it
//! (host/docs/interface/node-clients.md#validation-issues).
//!
//! Keys and messages are those of zod 3. `origin`, which zod 4 has instead of `type`, stands beside it, so
//! that clients of either find what they read.

use std::borrow::Cow;
use std::fmt;

use agent_core::nearest_word::nearest_word;
use serde::Serialize;
use serde_json::Value;

/// A part of the way to a value, from the outside in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Step {
    Name(&'static str),
    Index(usize),
}

/// Most characters that are quoted of what a client sent: more than any key or word that there is has.
pub const MOST_QUOTED: usize = 64;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Issue {
    InvalidType {
        expected: &'static str,
        received: &'static str,
        path: Vec<Step>,
        message: Cow<'static, str>,
    },
    TooSmall {
        minimum: u32,
        #[serde(flatten)]
        of: BoundKind,
        message: String,
        path: Vec<Step>,
    },
    TooBig {
        maximum: u32,
        #[serde(flatten)]
        of: BoundKind,
        message: String,
        path: Vec<Step>,
    },
    InvalidEnumValue {
        received: String,
        options: Vec<&'static str>,
        path: Vec<Step>,
        message: String,
    },
    UnrecognizedKeys {
        keys: [String; 1],
        path: Vec<Step>,
        message: String,
    },
    Custom {
        message: Cow<'static, str>,
        path: Vec<Step>,
    },
}

/// What a bound is one of. All of ours may be reached themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundKind {
    r#type: &'static str,
    origin: &'static str,
    inclusive: bool,
    exact: bool,
}

impl BoundKind {
    fn a(kind: &'static str) -> Self {
        Self { r#type: kind, origin: kind, inclusive: true, exact: false }
    }
}

impl Issue {
    /// A key of the object at `path` that is none of `known`.
    pub fn unknown_key(key: &str, known: &[&str], path: Vec<Step>) -> Self {
        let mut quoted: String = key.chars().take(MOST_QUOTED).collect();
        if quoted.len() < key.len() {
            quoted.push('…');
        }
        let meant = match nearest_word(key, known) {
            Some(meant) => format!("did you mean '{meant}'? "),
            None => String::new(),
        };
        let known: Vec<_> = known.iter().map(|key| format!("'{key}'")).collect();
        let allowed = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!("Unrecognized key '{quoted}': {meant}allowed: {allowed}");
        Self::UnrecognizedKeys { keys: [quoted], path, message }
    }

    /// An option of a run that only `POST /api/agent` takes.
    pub fn option_elsewhere(name: &str, takers: &str, path: Vec<Step>) -> Self {
        let message = format!("Unrecognized key '{name}': only {takers} this option");
        Self::UnrecognizedKeys { keys: [name.to_owned()], path, message }
    }

    /// What none of the other issues says.
    pub fn custom(message: impl Into<Cow<'static, str>>, path: Vec<Step>) -> Self {
        Self::Custom { message: message.into(), path }
    }

    /// A cursor that no list has given.
    pub fn bad_cursor() -> Self {
        Self::custom("Invalid cursor", vec![Step::Name("cursor")])
    }

    /// A value of the wrong kind; none at all if there is no such field.
    pub fn wrong_type(expected: &'static str, received: Option<&Value>, path: Vec<Step>) -> Self {
        match received {
            None => Self::InvalidType { expected, received: "undefined", path, message: "Required".into() },
            Some(value) => Self::received(expected, kind_of(value), path),
        }
    }

    pub fn received(expected: &'static str, received: &'static str, path: Vec<Step>) -> Self {
        let message = format!("Expected {expected}, received {received}").into();
        Self::InvalidType { expected, received, path, message }
    }

    pub fn too_short(minimum: u32, path: Vec<Step>) -> Self {
        let message = format!("String must contain at least {minimum} character(s)");
        Self::TooSmall { minimum, of: BoundKind::a("string"), message, path }
    }

    pub fn too_long(maximum: u32, path: Vec<Step>) -> Self {
        let message = format!("String must contain at most {maximum} character(s)");
        Self::TooBig { maximum, of: BoundKind::a("string"), message, path }
    }

    pub fn too_many(maximum: u32, path: Vec<Step>) -> Self {
        let message = format!("Array must contain at most {maximum} element(s)");
        Self::TooBig { maximum, of: BoundKind::a("array"), message, path }
    }

    pub fn too_low(minimum: u32, path: Vec<Step>) -> Self {
        let message = format!("Number must be greater than or equal to {minimum}");
        Self::TooSmall { minimum, of: BoundKind::a("number"), message, path }
    }

    pub fn too_high(maximum: u32, path: Vec<Step>) -> Self {
        let message = format!("Number must be less than or equal to {maximum}");
        Self::TooBig { maximum, of: BoundKind::a("number"), message, path }
    }

    pub fn not_one_of(options: Vec<&'static str>, received: String, path: Vec<Step>) -> Self {
        let quoted: Vec<_> = options.iter().map(|option| format!("'{option}'")).collect();
        let message = format!("Invalid enum value. Expected {}, received '{received}'", quoted.join(" | "));
        Self::InvalidEnumValue { received, options, path, message }
    }

    pub fn path(&self) -> &[Step] {
        match self {
            Self::InvalidType { path, .. }
            | Self::TooSmall { path, .. }
            | Self::TooBig { path, .. }
            | Self::InvalidEnumValue { path, .. }
            | Self::UnrecognizedKeys { path, .. }
            | Self::Custom { path, .. } => path,
        }
    }

    /// A sentence without its full stop.
    pub fn message(&self) -> &str {
        match self {
            Self::InvalidType { message, .. } | Self::Custom { message, .. } => message,
            Self::TooSmall { message, .. }
            | Self::TooBig { message, .. }
            | Self::InvalidEnumValue { message, .. }
            | Self::UnrecognizedKeys { message, .. } => message,
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

/// Everything that is wrong, in the order of the fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Issues(pub Vec<Issue>);

impl Issues {
    /// There is one at least.
    pub fn first(self) -> Issue {
        self.0.into_iter().next().unwrap_or_else(|| Issue::wrong_type("object", None, vec![]))
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
            path => write!(f, " `{}`", dotted(path)),
        })
    }
}

/// Names and places with dots between them.
pub fn dotted(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Name(name) => (*name).to_owned(),
        Step::Index(index) => index.to_string(),
    });
    steps.collect::<Vec<_>>().join(".")
}
