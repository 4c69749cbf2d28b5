//! What is wrong with a request, one issue at a time, as zod 3 says it
//! (host/docs/interface/node-clients.md#validation-issues).
//!
//! Keys and messages are those of zod 3. `origin`, which zod 4 has instead of `type`, stands beside it, so that
//! clients of either find what they read.

use std::borrow::Cow;
use std::fmt;

use agent_core::nearest_word::nearest_word;
use agent_core::words::{LONGEST_HISTORY_MESSAGE, MOST_HISTORY_MESSAGES};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::history::{self, Fault};

/// Where a field stands, from the outside in.
pub(super) type Path = &'static [&'static str];

/// Where an issue is: in a field, or in one element of the list in that field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Location {
    field: Path,
    index: Option<usize>,
    /// A field of that element.
    member: Option<&'static str>,
}

impl Location {
    pub(super) const fn element(field: Path, index: usize) -> Self {
        Self { field, index: Some(index), member: None }
    }

    const fn member(field: Path, index: usize, member: &'static str) -> Self {
        Self { field, index: Some(index), member: Some(member) }
    }
}

impl From<Path> for Location {
    fn from(field: Path) -> Self {
        Self { field, index: None, member: None }
    }
}

/// A list of names, with the index as a number.
impl Serialize for Location {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Part {
            Name(&'static str),
            Index(usize),
        }
        let names = self.field.iter().map(|name| Part::Name(name));
        let element = self.index.map(Part::Index).into_iter().chain(self.member.map(Part::Name));
        serializer.collect_seq(names.chain(element))
    }
}

/// Where a caller says what it wishes for a run.
const OPTIONS: Path = &["options"];

/// Where a caller chooses the tools of a run.
pub(super) const CHOSEN_TOOLS: Path = &["options", "tools"];

/// Where a caller says what was said before.
pub(super) const HISTORY: Path = &["options", "history"];

/// Where a caller names the kept conversation that the run is part of.
pub(super) const CONVERSATION_ID: Path = &["options", "conversationId"];

/// Where the end of a job is to be sent.
pub(super) const WEBHOOK_URL: Path = &["webhookUrl"];

/// Most characters that are quoted of what a client sent: more than any key or word that there is has.
const MOST_QUOTED: usize = 64;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub(super) enum Issue {
    InvalidType {
        expected: &'static str,
        received: &'static str,
        path: Location,
        message: Cow<'static, str>,
    },
    TooSmall {
        minimum: u32,
        #[serde(flatten)]
        of: BoundKind,
        message: String,
        path: Location,
    },
    TooBig {
        maximum: u32,
        #[serde(flatten)]
        of: BoundKind,
        message: String,
        path: Location,
    },
    InvalidEnumValue {
        received: String,
        options: Vec<&'static str>,
        path: Location,
        message: String,
    },
    UnrecognizedKeys {
        keys: [String; 1],
        path: Location,
        message: String,
    },
    Custom {
        message: &'static str,
        path: Location,
    },
}

/// What a bound is one of. All of ours may be reached themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct BoundKind {
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
    /// A cursor that no list of jobs has given.
    pub(super) const BAD_CURSOR: &[Self] = &[Self::Custom {
        message: "Invalid cursor",
        path: Location { field: &["cursor"], index: None, member: None },
    }];

    /// A name in `options.tools` that is no tool of the caller's: whether it is somebody else's is not said.
    pub(super) fn unknown_tool(index: usize) -> Self {
        Self::Custom { message: "Unknown tool", path: Location::element(CHOSEN_TOOLS, index) }
    }

    /// A key of the object at `path` that is none of `known`.
    pub(super) fn unknown_key(key: &str, known: &[&str], path: Path) -> Self {
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
        Self::UnrecognizedKeys { keys: [quoted], path: path.into(), message }
    }

    /// An option of a run that only `POST /api/agent` takes.
    pub(super) fn option_of_a_request(name: &str) -> Self {
        let message = format!("Unrecognized key '{name}': only POST /api/agent takes this option");
        Self::UnrecognizedKeys { keys: [name.to_owned()], path: OPTIONS.into(), message }
    }

    /// An option of runs that can be part of a conversation.
    pub(super) fn option_of_a_conversation(name: &str) -> Self {
        let takers = "only POST /api/agent and POST /api/agent/async take this option";
        let message = format!("Unrecognized key '{name}': {takers}");
        Self::UnrecognizedKeys { keys: [name.to_owned()], path: OPTIONS.into(), message }
    }

    /// What none of the other issues says.
    pub(super) fn custom(message: &'static str, path: Path) -> Self {
        Self::Custom { message, path: path.into() }
    }

    /// A value of the wrong kind; none at all if there is no such field.
    pub(super) fn wrong_type(
        expected: &'static str,
        received: Option<&Value>,
        path: impl Into<Location>,
    ) -> Self {
        match received {
            None => Self::missing(expected, path.into()),
            Some(value) => Self::received(expected, kind_of(value), path),
        }
    }

    pub(super) fn required(expected: &'static str, path: Path) -> Self {
        Self::missing(expected, path.into())
    }

    fn missing(expected: &'static str, path: Location) -> Self {
        Self::InvalidType { expected, received: "undefined", path, message: "Required".into() }
    }

    pub(super) fn received(
        expected: &'static str,
        received: &'static str,
        path: impl Into<Location>,
    ) -> Self {
        let message = format!("Expected {expected}, received {received}").into();
        Self::InvalidType { expected, received, path: path.into(), message }
    }

    pub(super) fn too_short(minimum: u32, path: impl Into<Location>) -> Self {
        let message = format!("String must contain at least {minimum} character(s)");
        Self::TooSmall { minimum, of: BoundKind::a("string"), message, path: path.into() }
    }

    pub(super) fn too_long(maximum: u32, path: impl Into<Location>) -> Self {
        let message = format!("String must contain at most {maximum} character(s)");
        Self::TooBig { maximum, of: BoundKind::a("string"), message, path: path.into() }
    }

    /// A list with more elements than it may have.
    pub(super) fn too_many(maximum: u32, path: Path) -> Self {
        let message = format!("Array must contain at most {maximum} element(s)");
        Self::TooBig { maximum, of: BoundKind::a("array"), message, path: path.into() }
    }

    /// A number outside of its range, which includes both ends.
    pub(super) fn out_of_range(number: f64, [minimum, maximum]: [u32; 2], path: Path) -> Option<Self> {
        let (of, path) = (BoundKind::a("number"), Location::from(path));
        if number < f64::from(minimum) {
            let message = format!("Number must be greater than or equal to {minimum}");
            return Some(Self::TooSmall { minimum, of, message, path });
        }
        let message = format!("Number must be less than or equal to {maximum}");
        (number > f64::from(maximum)).then_some(Self::TooBig { maximum, of, message, path })
    }

    /// What is wrong with a history.
    pub(super) fn of_history(wrong: &history::Wrong<'_>) -> Self {
        let path = match (wrong.index, wrong.field) {
            (Some(index), Some(field)) => Location::member(HISTORY, index, field),
            (Some(index), None) => Location::element(HISTORY, index),
            (None, _) => HISTORY.into(),
        };
        match wrong.fault {
            Fault::Type { expected, received } => Self::wrong_type(expected, received, path),
            Fault::Role(received) => {
                let shown = received.chars().take(MOST_QUOTED).collect();
                Self::not_one_of_at(history::ROLES.to_vec(), shown, path)
            }
            Fault::Empty => Self::too_short(1, path),
            Fault::TooLong => Self::too_long(LONGEST_HISTORY_MESSAGE as u32, path),
            Fault::TooMany => Self::too_many(MOST_HISTORY_MESSAGES as u32, HISTORY),
        }
    }

    pub(super) fn not_one_of(options: Vec<&'static str>, received: String, path: Path) -> Self {
        Self::not_one_of_at(options, received, path.into())
    }

    fn not_one_of_at(options: Vec<&'static str>, received: String, path: Location) -> Self {
        let quoted: Vec<_> = options.iter().map(|option| format!("'{option}'")).collect();
        let message = format!("Invalid enum value. Expected {}, received '{received}'", quoted.join(" | "));
        Self::InvalidEnumValue { received, options, path, message }
    }

    fn path(&self) -> Location {
        match self {
            Self::InvalidType { path, .. }
            | Self::TooSmall { path, .. }
            | Self::TooBig { path, .. }
            | Self::InvalidEnumValue { path, .. }
            | Self::UnrecognizedKeys { path, .. }
            | Self::Custom { path, .. } => *path,
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
            Location { field: [], .. } => f.write_str(" the whole body"),
            Location { field, index: None, .. } => write!(f, " `{}`", field.join(".")),
            Location { field, index: Some(index), member: None } => {
                write!(f, " `{}.{index}`", field.join("."))
            }
            Location { field, index: Some(index), member: Some(member) } => {
                write!(f, " `{}.{index}.{member}`", field.join("."))
            }
        })
    }
}
