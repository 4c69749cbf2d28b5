//! What is said of a field: what it takes, what it is without a value, and how the document shows it.

use serde_json::{Map, Value, json};

use super::issue::{Issue, Step};

/// A field of a body, or a parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    about: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
    /// What an absent one is taken for.
    pub(crate) default: Option<fn() -> Value>,
    example: Option<fn() -> Value>,
    /// Whether a parameter without a text is as good as none, as forms send it.
    pub(crate) empty_is_absent: bool,
}

/// What a field takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Whatever it is.
    Any,
    Truth,
    Text(Text),
    /// One of these words. Of another one so many characters are quoted.
    Word {
        words: fn() -> Vec<&'static str>,
        most_quoted: usize,
    },
    Number(Number),
    /// Digits of a query string.
    Digits,
    List {
        most: usize,
        item: &'static Kind,
    },
    Object(&'static Object),
}

/// A text. Characters are Unicode code points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    pub(crate) least: Option<u32>,
    pub(crate) most: Option<u32>,
    pub(crate) pattern: Option<&'static Pattern>,
    format: Option<&'static str>,
}

/// What a text has to be beside its length.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) is: fn(&str) -> bool,
    /// What is said of a text that is not.
    pub(crate) fault: &'static str,
    /// The same as keywords of JSON Schema.
    pub(crate) keywords: fn() -> Value,
}

/// A number. Both bounds may be reached, unless it has to be more than 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number {
    pub(crate) least: u32,
    pub(crate) most: u32,
    pub(crate) is_whole: bool,
    pub(crate) is_positive: bool,
}

/// An object with fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object {
    /// What the document calls it.
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) fields: &'static [Field],
    /// Whether any other key is an issue.
    pub(crate) is_closed: bool,
    /// Whether what is no object is taken for an empty one.
    pub(crate) is_lenient: bool,
    /// Options of `POST /api/agent` that it has not.
    pub(crate) refused: &'static [&'static str],
    pub(crate) example: Option<fn() -> Value>,
}

impl Object {
    /// Other keys are ignored.
    pub(crate) const OPEN: Self = Self {
        name: "",
        about: "",
        fields: &[],
        is_closed: false,
        is_lenient: false,
        refused: &[],
        example: None,
    };

    /// Other keys are issues.
    pub(crate) const CLOSED: Self = Self { is_closed: true, ..Self::OPEN };

    /// Other keys are ignored, and so is what is no object.
    pub(crate) const LENIENT: Self = Self { is_lenient: true, ..Self::OPEN };

    /// An issue that there may be with it, for the document: a number that is none, a field that is missing, or a text of
    /// another form.
    pub(crate) fn likely_issue(&self) -> Issue {
        let at = |field: &Field| vec![Step::Name(field.name)];
        let mut fields = self.fields.iter();
        let number = fields.find(|field| matches!(field.kind, Kind::Number(_) | Kind::Digits));
        if let Some(field) = number {
            return Issue::received(field.kind.expected(), "nan", at(field));
        }
        if let Some(field) = self.fields.iter().find(|field| field.is_required) {
            return Issue::wrong_type(field.kind.expected(), None, at(field));
        }
        let of_pattern = self.fields.iter().find_map(|field| match field.kind {
            Kind::Text(Text { pattern: Some(pattern), .. }) => Some(Issue::custom(pattern.fault, at(field))),
            _ => None,
        });
        of_pattern.unwrap_or_else(|| Issue::wrong_type("object", None, vec![]))
    }

    pub(crate) fn schema(&self) -> Value {
        let properties: Map<_, _> =
            self.fields.iter().map(|field| (field.name.to_owned(), field.described())).collect();
        let required = self.fields.iter().filter(|field| field.is_required).map(|field| field.name);
        let refused = self.refused.iter().map(|name| json!({ "type": "object", "required": [name] }));
        let (required, refused): (Vec<_>, Vec<_>) = (required.collect(), refused.collect());
        with([
            ("type", (!self.is_lenient).then(|| "object".into())),
            ("description", (!self.about.is_empty()).then(|| self.about.into())),
            ("additionalProperties", self.is_closed.then_some(Value::Bool(false))),
            ("properties", (!(self.is_closed && properties.is_empty())).then(|| properties.into())),
            ("required", (!required.is_empty()).then(|| required.into())),
            ("not", (!refused.is_empty()).then(|| json!({ "anyOf": refused }))),
            ("examples", self.example.map(|example| json!([example()]))),
        ])
    }
}

impl Field {
    pub(crate) const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            about: "",
            kind,
            is_required: false,
            default: None,
            example: None,
            empty_is_absent: false,
        }
    }

    pub(crate) const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// The description, unless there is one.
    pub(crate) const fn about(self, about: &'static str) -> Self {
        Self { about: if self.about.is_empty() { about } else { self.about }, ..self }
    }

    pub(crate) const fn example(self, example: fn() -> Value) -> Self {
        Self { example: Some(example), ..self }
    }

    /// What an absent one is taken for, which is the example as well.
    pub(crate) const fn default(self, default: fn() -> Value) -> Self {
        Self { default: Some(default), example: Some(default), ..self }
    }

    pub(crate) const fn empty_is_absent(self) -> Self {
        Self { empty_is_absent: true, ..self }
    }

    /// What the document says beside the schema of a parameter.
    pub(crate) fn description(&self) -> &'static str {
        self.about
    }

    /// The schema without its description.
    pub(crate) fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        let more = with([
            ("default", self.default.map(|default| default())),
            ("examples", self.example.map(|example| json!([example()]))),
        ]);
        extend(&mut schema, more);
        schema
    }

    /// The schema with its description.
    pub(crate) fn described(&self) -> Value {
        let mut schema = self.schema();
        let about = with([("description", (!self.about.is_empty()).then(|| self.about.into()))]);
        extend(&mut schema, about);
        schema
    }
}

impl Text {
    pub(crate) const ANY: Self = Self { least: None, most: None, pattern: None, format: None };

    pub(crate) const fn at_least(self, least: u32) -> Self {
        Self { least: Some(least), ..self }
    }

    pub(crate) const fn at_most(self, most: u32) -> Self {
        Self { most: Some(most), ..self }
    }

    pub(crate) const fn like(self, pattern: &'static Pattern) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    /// For the document only.
    pub(crate) const fn format(self, format: &'static str) -> Self {
        Self { format: Some(format), ..self }
    }

    pub(crate) const fn field(self, name: &'static str) -> Field {
        Field::new(name, Kind::Text(self))
    }
}

impl Number {
    pub(crate) const fn between(least: u32, most: u32) -> Self {
        Self { least, most, is_whole: false, is_positive: false }
    }

    pub(crate) const fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    pub(crate) const fn positive(self) -> Self {
        Self { is_positive: true, ..self }
    }

    pub(crate) const fn field(self, name: &'static str) -> Field {
        Field::new(name, Kind::Number(self))
    }
}

impl Kind {
    /// What is said to belong there instead of a value of another type.
    pub(crate) fn expected(&self) -> &'static str {
        match self {
            Self::Truth => "boolean",
            Self::Text(_) | Self::Word { .. } => "string",
            Self::Number(_) => "number",
            Self::Digits => "integer",
            Self::List { .. } => "array",
            Self::Any | Self::Object(_) => "object",
        }
    }

    /// The value that a text of a query string stands for. One that stands for none stays a text.
    pub(crate) fn of_text(&self, text: String) -> Value {
        let number = match self {
            Self::Number(_) => text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::from),
            Self::Digits if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().filter(|number: &i64| *number >= 0).map(Value::from)
            }
            _ => None,
        };
        number.unwrap_or(Value::String(text))
    }

    fn schema(&self) -> Value {
        match self {
            Self::Any => json!({}),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Text(text) => text.schema(),
            Self::Word { words, .. } => json!({ "type": "string", "enum": words() }),
            Self::Number(number) => number.schema(),
            Self::Digits => json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX }),
            Self::List { most, item } => {
                json!({ "type": "array", "maxItems": most, "items": item.schema() })
            }
            Self::Object(object) => object.schema(),
        }
    }
}

impl Text {
    fn schema(&self) -> Value {
        let mut schema = with([
            ("type", Some("string".into())),
            ("minLength", self.least.map(Value::from)),
            ("maxLength", self.most.map(Value::from)),
            ("format", self.format.map(Value::from)),
        ]);
        extend(&mut schema, self.pattern.map(|pattern| (pattern.keywords)()).unwrap_or_default());
        schema
    }
}

impl Number {
    fn schema(&self) -> Value {
        let least = if self.is_positive { "exclusiveMinimum" } else { "minimum" };
        let kind = if self.is_whole { "integer" } else { "number" };
        json!({ "type": kind, least: self.least, "maximum": self.most })
    }
}

/// The keywords that there is something to say by.
fn with<const N: usize>(keywords: [(&str, Option<Value>); N]) -> Value {
    let said = keywords.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(said.collect())
}

fn extend(schema: &mut Value, more: Value) {
    if let (Value::Object(schema), Value::Object(more)) = (schema, more) {
        schema.extend(more);
    }
}
