//! What is said of a field: what it takes, what it is without a value, and how the document shows it.

use serde_json::{Map, Value, json};

use super::issue::{Issue, Step};

/// A field of a body, or a parameter.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    pub name: &'static str,
    about: &'static str,
    pub kind: Kind,
    /// Bounds of a number, or of how many characters (Unicode code points) a text has. Both may be reached.
    pub least: Option<u32>,
    pub most: Option<u32>,
    pub pattern: Option<&'static Pattern>,
    pub is_required: bool,
    /// What an absent one is taken for.
    pub default: Option<fn() -> Value>,
    example: Option<fn() -> Value>,
    /// Whether `null` is as good as nothing, for the document.
    is_nullable: bool,
    /// Whether a parameter without a text is as good as none, as forms send it.
    pub empty_is_absent: bool,
}

/// What a field takes.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Whatever it is.
    Any,
    Truth,
    Text,
    /// One of these words. Of another one so many characters are quoted.
    Word {
        words: fn() -> Vec<&'static str>,
        most_quoted: usize,
    },
    Number,
    /// A number above 0.
    PositiveNumber,
    WholeNumber,
    /// Digits of a query string.
    Digits,
    List {
        most: usize,
        item: &'static Kind,
    },
    Object(&'static Object),
}

/// What a text has to be beside its length.
#[derive(Debug)]
pub struct Pattern {
    pub is: fn(&str) -> bool,
    /// What is said of a text that is not.
    pub fault: &'static str,
    /// The pattern as keywords of JSON Schema.
    pub keywords: fn() -> Value,
}

/// An object with fields.
#[derive(Debug, Clone, Copy)]
pub struct Object {
    /// What the document calls it.
    pub name: &'static str,
    pub about: &'static str,
    pub fields: &'static [Field],
    /// Whether any other key is an issue.
    pub is_closed: bool,
    /// Whether what is no object is taken for an empty one.
    pub is_lenient: bool,
    /// Options that it has not and other routes have.
    pub refused: &'static [Elsewhere],
    pub example: Option<fn() -> Value>,
}

/// An option of other routes.
#[derive(Debug)]
pub struct Elsewhere {
    pub name: &'static str,
    /// Which routes these are, as the subject of a sentence and its verb.
    pub takers: &'static str,
}

impl Object {
    /// Other keys are ignored.
    pub const OPEN: Self = Self {
        name: "",
        about: "",
        fields: &[],
        is_closed: false,
        is_lenient: false,
        refused: &[],
        example: None,
    };

    /// Other keys are issues.
    pub const CLOSED: Self = Self { is_closed: true, ..Self::OPEN };

    /// Other keys are ignored, and so is what is no object.
    pub const LENIENT: Self = Self { is_lenient: true, ..Self::OPEN };

    /// An issue that there may be with it, for the document: a number that is none, a field that is missing,
    /// or a text of another form.
    pub fn likely_issue(&self) -> Issue {
        let of = |is_it: fn(&&Field) -> bool| {
            self.fields.iter().find(is_it).map(|field| (field, vec![Step::Name(field.name)]))
        };
        let is_number =
            |field: &&Field| matches!(field.kind, Kind::Number | Kind::WholeNumber | Kind::Digits);
        if let Some((field, path)) = of(is_number) {
            return Issue::received(field.kind.expected(), "nan", path);
        }
        if let Some((field, path)) = of(|field| field.is_required) {
            return Issue::wrong_type(field.kind.expected(), None, path);
        }
        match of(|field| field.pattern.is_some()) {
            Some((Field { pattern: Some(pattern), .. }, path)) => Issue::custom(pattern.fault, path),
            _ => Issue::wrong_type("object", None, vec![]),
        }
    }

    pub fn schema(&self) -> Value {
        let properties: Map<_, _> =
            self.fields.iter().map(|field| (field.name.to_owned(), field.described())).collect();
        let required = self.fields.iter().filter(|field| field.is_required).map(|field| field.name);
        let refused =
            self.refused.iter().map(|option| json!({ "type": "object", "required": [option.name] }));
        let (required, refused): (Vec<_>, Vec<_>) = (required.collect(), refused.collect());
        said([
            ("type", (!self.is_lenient).then(|| "object".into())),
            ("description", (!self.about.is_empty()).then(|| self.about.into())),
            ("additionalProperties", self.is_closed.then_some(Value::Bool(false))),
            ("properties", (!(self.is_closed && properties.is_empty())).then(|| properties.into())),
            ("required", (!required.is_empty()).then(|| required.into())),
            ("not", (!refused.is_empty()).then(|| json!({ "anyOf": refused }))),
            ("examples", self.example.map(|example| json!([example()]))),
        ])
        .into()
    }
}

impl Field {
    pub const fn new(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            about: "",
            kind,
            least: None,
            most: None,
            pattern: None,
            is_required: false,
            default: None,
            example: None,
            is_nullable: false,
            empty_is_absent: false,
        }
    }

    pub const fn text(name: &'static str) -> Self {
        Self::new(name, Kind::Text)
    }

    pub const fn least(self, least: u32) -> Self {
        Self { least: Some(least), ..self }
    }

    pub const fn most(self, most: u32) -> Self {
        Self { most: Some(most), ..self }
    }

    pub const fn like(self, pattern: &'static Pattern) -> Self {
        Self { pattern: Some(pattern), ..self }
    }

    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    /// The description, unless there is one.
    pub const fn about(self, about: &'static str) -> Self {
        Self { about: if self.about.is_empty() { about } else { self.about }, ..self }
    }

    pub const fn example(self, example: fn() -> Value) -> Self {
        Self { example: Some(example), ..self }
    }

    /// What an absent one is taken for, which is the example as well.
    pub const fn default(self, default: fn() -> Value) -> Self {
        Self { default: Some(default), example: Some(default), ..self }
    }

    pub const fn nullable(self) -> Self {
        Self { is_nullable: true, ..self }
    }

    pub const fn empty_is_absent(self) -> Self {
        Self { empty_is_absent: true, ..self }
    }

    /// What the document says beside the schema of a parameter.
    pub fn description(&self) -> &'static str {
        self.about
    }

    /// The schema without its description.
    pub fn schema(&self) -> Value {
        let mut schema = self.kind.schema();
        let (least, most) = match self.kind {
            Kind::Text => ("minLength", "maxLength"),
            Kind::PositiveNumber => ("exclusiveMinimum", "maximum"),
            _ => ("minimum", "maximum"),
        };
        schema.extend(said([
            (least, self.least.map(Value::from)),
            (most, self.most.map(Value::from)),
            ("default", self.default.map(|default| default())),
            ("examples", self.example.map(|example| json!([example()]))),
        ]));
        if let Some(Value::Object(keywords)) = self.pattern.map(|pattern| (pattern.keywords)()) {
            schema.extend(keywords);
        }
        if let (true, Some(kind)) = (self.is_nullable, schema.get_mut("type")) {
            *kind = json!([kind, "null"]);
        }
        schema.into()
    }

    /// The schema with its description.
    pub fn described(&self) -> Value {
        let mut schema = self.schema();
        if let (false, Value::Object(schema)) = (self.about.is_empty(), &mut schema) {
            schema.insert("description".to_owned(), self.about.into());
        }
        schema
    }
}

impl Kind {
    /// What is said to belong there instead of a value of another type.
    pub fn expected(&self) -> &'static str {
        match self {
            Self::Truth => "boolean",
            Self::Text | Self::Word { .. } => "string",
            Self::Number | Self::PositiveNumber | Self::WholeNumber => "number",
            Self::Digits => "integer",
            Self::List { .. } => "array",
            Self::Any | Self::Object(_) => "object",
        }
    }

    /// The value that a text of a query string stands for. One that stands for none stays a text.
    pub fn of_text(&self, text: String) -> Value {
        let number = match self {
            Self::Number | Self::WholeNumber => {
                text.parse().ok().filter(|number: &f64| number.is_finite()).map(Value::from)
            }
            Self::Digits if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().ok().filter(|number: &i64| *number >= 0).map(Value::from)
            }
            _ => None,
        };
        number.unwrap_or(Value::String(text))
    }

    fn schema(&self) -> Map<String, Value> {
        let schema = match self {
            Self::Any => json!({}),
            Self::Truth => json!({ "type": "boolean" }),
            Self::Text => json!({ "type": "string" }),
            Self::Word { words, .. } => json!({ "type": "string", "enum": words() }),
            Self::Number | Self::PositiveNumber => json!({ "type": "number" }),
            Self::WholeNumber => json!({ "type": "integer" }),
            Self::Digits => json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX }),
            Self::List { most, item } => {
                json!({ "type": "array", "maxItems": most, "items": item.schema() })
            }
            Self::Object(object) => object.schema(),
        };
        if let Value::Object(schema) = schema { schema } else { Map::new() }
    }
}

/// The keywords that there is something to say by.
fn said<const N: usize>(keywords: [(&str, Option<Value>); N]) -> Map<String, Value> {
    keywords.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
