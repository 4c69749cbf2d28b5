//! What is said of one route: what it takes, what it answers, and what it refuses.

use std::collections::BTreeMap;

use http::header::{CACHE_CONTROL, CONTENT_LOCATION, ETAG};
use http::{HeaderName, StatusCode};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::described_answer::DescribedAnswer;
use super::error_schemas;
use super::parameter::Parameter;
use super::refused::{Refused, RefusedBody};
use super::schema_parts::reference;
use super::schemas::Schemas;
use crate::request::{Field, Request};

/// What routes are grouped by. The document has them in this order.
pub mod tags {
    pub const AGENT: &str = "Agent";
    pub const JOBS: &str = "Jobs";
    pub const OPENAI: &str = "OpenAI";
    pub const CACHE: &str = "Cache";
    pub const TOOLS: &str = "Tools";
    pub const OPERATIONS: &str = "Operations";
    pub const MCP: &str = "MCP";
    pub const HEALTH: &str = "Health";
    pub const SERVICE: &str = "Service";
}

const JSON: &str = "application/json";
const HTML: &str = "text/html";

/// A route as clients read of it.
#[derive(Debug, Clone)]
pub struct Operation {
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, DescribedAnswer>,
    /// An answer of whatever other status.
    any_answer: Option<&'static str>,
    /// The roles that a token has to have; none when no token is needed.
    roles: Option<&'static [&'static str]>,
    schemas: Schemas,
}

impl Operation {
    /// `id` is what generated clients call it.
    pub fn new(id: &'static str, tag: &'static str, summary: &'static str) -> Self {
        Self {
            id,
            tag,
            summary,
            description: "",
            parameters: vec![],
            body: None,
            answers: BTreeMap::new(),
            any_answer: None,
            roles: None,
            schemas: Schemas::default(),
        }
    }

    /// Says more of it, in Markdown.
    pub fn about(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    pub fn parameter(mut self, Parameter(parameter): Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// The caller's name for the request.
    pub fn request_id(self) -> Self {
        let schema = json!({ "type": "string", "examples": ["order-4711"] });
        let description = "A name for the request, in its answer and in every log line: 1 to 128 letters, digits, \
                           `.`, `_`, `:` and `-`. Without it, or with another one, one is made.";
        self.parameter(Parameter::header("X-Request-Id", description, schema))
    }

    /// With `Accept: text/event-stream` the answer is a stream of events.
    pub fn begins_stream(self) -> Self {
        let schema = json!({ "type": "string", "examples": ["cancel"] });
        let description = "What becomes of a streamed run whose reader leaves: `cancel` or `continue`. Without it, or with \
                           anything else, it goes on.";
        self.parameter(Parameter::header("Agent-On-Disconnect", description, schema)).answers_stream()
    }

    /// The answer is a stream of OpenAI's if the body asks for one.
    pub fn streams(self, description: &str) -> Self {
        let schema = json!({ "type": "string", "examples": ["continue"] });
        let left = "What becomes of a streamed run whose reader leaves: `cancel` or `continue`. Without it, or with anything \
                    else, it is cancelled.";
        self.parameter(Parameter::header("Agent-On-Disconnect", left, schema))
            .answers_text("text/event-stream", description)
            .header(StatusCode::OK, &CONTENT_LOCATION)
    }

    /// The answer is a stream of events, from any event on.
    pub fn resumes_stream(self) -> Self {
        let schema = json!({ "type": "string", "examples": ["3"] });
        let description = "The last event that was read: those behind it follow. Without it, all do.";
        self.parameter(Parameter::header("Last-Event-ID", description, schema))
            .answers_stream()
            .answers_nothing(StatusCode::NO_CONTENT, "The run has ended and nothing follows that event")
    }

    /// Its answer is a text that does not change while the process runs: clients may ask whether their copy
    /// is the newest.
    pub fn answers_static_text(self) -> Self {
        let schema = json!({ "type": "string", "examples": ["*"] });
        let description = "The `ETag` of a copy that the client has.";
        self.parameter(Parameter::header("If-None-Match", description, schema))
            .answers_nothing(StatusCode::NOT_MODIFIED, "The copy is the newest")
            .header(StatusCode::NOT_MODIFIED, &ETAG)
            .header(StatusCode::NOT_MODIFIED, &CACHE_CONTROL)
            .header(StatusCode::OK, &ETAG)
            .header(StatusCode::OK, &CACHE_CONTROL)
    }

    fn answers_stream(self) -> Self {
        self.answers_text("text/event-stream", "Events: host/docs/api/streams.md specifies them")
            .header(StatusCode::OK, &CONTENT_LOCATION)
    }

    /// It is carried out once under an idempotency key.
    pub fn once(self, refused: impl IntoIterator<Item: Into<Refused>>) -> Self {
        let schema = json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!#-\\[\\]-~]+$", "examples": ["8e03978e-40d5-43dd-bc93-6e2a7bea36ca"] });
        let description = "A key under which the request is carried out once: whoever repeats it within 24 hours gets the same \
                           answer. It may stand in double quotes.";
        self.parameter(Parameter::header("Idempotency-Key", description, schema)).refuses(refused)
    }

    /// A part of the path.
    pub fn path(self, field: Field) -> Self {
        self.parameter(Parameter::of("path", &field).required())
    }

    /// The parameters of a query string, and what may be wrong with them.
    pub fn query<T: Request>(mut self) -> Self {
        for field in T::OBJECT.fields {
            let parameter = Parameter::of("query", field);
            let Parameter(parameter) = if field.is_required { parameter.required() } else { parameter };
            self.parameters.push(parameter);
        }
        self.refuses([Refused::issue(T::OBJECT)])
    }

    /// A body of JSON, which has to be there.
    pub fn body<T: Request>(self) -> Self {
        self.json_body(T::OBJECT.name, T::OBJECT.schema(), true)
    }

    /// A body of JSON. Without one it is `{}`.
    pub fn optional_body<T: Request>(self) -> Self {
        self.json_body(T::OBJECT.name, T::OBJECT.schema(), false)
    }

    /// A body of JSON of the form of that name, which has to be there.
    pub fn json_body(mut self, name: &str, schema: Value, required: bool) -> Self {
        let reference = self.schemas.add_json(name, schema);
        self.body = Some(json!({ "required": required, "content": { JSON: { "schema": reference } } }));
        self
    }

    /// A body of bytes, of one of these media types.
    pub fn bytes(mut self, description: &str, media: &[&str]) -> Self {
        // Generators of clients want a schema.
        let bytes = json!({ "schema": { "type": "string", "format": "binary" } });
        let content: Map<_, _> = media.iter().map(|media| ((*media).to_owned(), bytes.clone())).collect();
        self.body = Some(json!({ "required": true, "description": description, "content": content }));
        self
    }

    /// An answer of JSON.
    pub fn answers<T: ToSchema>(mut self, status: StatusCode, description: &str) -> Self {
        let reference = self.schemas.add::<T>();
        self.answer(status, description).content.entry(JSON).or_default().schemas.push(reference);
        self
    }

    /// An answer of `{"data": […]}`.
    pub fn answers_list<T: ToSchema>(mut self, status: StatusCode, description: &str) -> Self {
        let reference = self.schemas.add::<T>();
        let list = json!({
            "type": "object", "required": ["data"],
            "properties": { "data": { "type": "array", "description": description, "items": reference } },
        });
        self.answer(status, description).content.entry(JSON).or_default().schemas.push(list);
        self
    }

    /// An answer of text, of that media type.
    pub fn answers_text(mut self, media: &'static str, description: &str) -> Self {
        let content = self.answer(StatusCode::OK, description).content.entry(media).or_default();
        content.schemas.push(json!({ "type": "string" }));
        self
    }

    /// An answer of JSON of any form.
    pub fn answers_object(mut self, description: &str) -> Self {
        let content = self.answer(StatusCode::OK, description).content.entry(JSON).or_default();
        content.schemas.push(json!({ "type": "object" }));
        self
    }

    /// An answer of JSON of the form of that name, which [`Self::defines`] says.
    pub fn answers_named(mut self, name: &str, description: &str) -> Self {
        let content = self.answer(StatusCode::OK, description).content.entry(JSON).or_default();
        content.schemas.push(reference(name));
        self
    }

    /// Forms by their names, also those that no answer of JSON has: of a stream's events.
    pub fn defines<const N: usize>(mut self, forms: [(&str, Value); N]) -> Self {
        for (name, schema) in forms {
            self.schemas.add_json(name, schema);
        }
        self
    }

    /// An answer without a body.
    pub fn answers_nothing(mut self, status: StatusCode, description: &str) -> Self {
        self.answer(status, description);
        self
    }

    /// Answers of any status, of which nothing is known.
    pub fn answers_anything(self, description: &'static str) -> Self {
        Self { any_answer: Some(description), ..self }
    }

    /// Answers of that status have this header.
    pub fn header(mut self, status: StatusCode, header: &HeaderName) -> Self {
        self.answers.entry(status.as_u16()).or_default().headers.insert(header.as_str().to_owned());
        self
    }

    /// All answers that are described by now have these headers.
    pub fn headers(mut self, headers: &[HeaderName]) -> Self {
        for answer in self.answers.values_mut() {
            answer.headers.extend(headers.iter().map(|header| header.as_str().to_owned()));
        }
        self
    }

    /// What it refuses.
    pub fn refuses(mut self, all: impl IntoIterator<Item: Into<Refused>>) -> Self {
        for refused in all {
            self.refuse(refused.into());
        }
        self
    }

    /// It wants a bearer token, with these roles.
    pub fn wants_token(self, roles: &'static [&'static str]) -> Self {
        // What is said of a route goes before what is said of all that stand beside it.
        Self { roles: self.roles.or(Some(roles)), ..self }
    }

    fn refuse(&mut self, Refused { status, body, headers }: Refused) {
        let (media, name, schema, text, example) = match body {
            RefusedBody::Empty => (None, "", Value::Null, String::new(), Value::Null),
            RefusedBody::Page(text) => {
                (Some(HTML), "", json!({ "type": "string" }), text.to_owned(), json!(text))
            }
            RefusedBody::Text(text) => {
                let example = json!({ "error": text });
                (Some(JSON), "Error", error_schemas::error(), text, example)
            }
            RefusedBody::Issues(issues) => {
                let text = "The request does not match its schema".to_owned();
                self.schemas.add_json("Issue", error_schemas::issue());
                (Some(JSON), "ValidationError", error_schemas::validation(), text, json!({ "error": issues }))
            }
            RefusedBody::OpenAi(body) => {
                let text =
                    body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default().to_owned();
                (Some(JSON), "OpenAiError", error_schemas::openai_error(), text, body)
            }
        };
        let reference = if name.is_empty() { schema } else { self.schemas.add_json(name, schema) };
        let reason = status.canonical_reason().unwrap_or_default();
        let answer = self.answer(status, if text.is_empty() { reason } else { &text });
        answer.headers.extend(headers.iter().map(|header| header.as_str().to_owned()));
        if let Some(media) = media {
            let content = answer.content.entry(media).or_default();
            if !content.schemas.contains(&reference) {
                // Generated clients take the first that has the right fields, and many do not look at their
                // types: a text would take a list as well.
                let place = if name == "ValidationError" { 0 } else { content.schemas.len() };
                content.schemas.insert(place, reference);
            }
            content.examples.insert(text, json!({ "value": example }));
        }
    }

    fn answer(&mut self, status: StatusCode, description: &str) -> &mut DescribedAnswer {
        let answer = self.answers.entry(status.as_u16()).or_default();
        answer.descriptions.insert(description.to_owned());
        answer
    }

    pub(super) fn tag(&self) -> &'static str {
        self.tag
    }

    pub(super) fn summary(&self) -> &'static str {
        self.summary
    }

    /// The roles that a token has to have; none when no token is needed.
    pub(super) fn roles(&self) -> Option<&'static [&'static str]> {
        self.roles
    }

    /// The parameters of the query string that have to be there.
    pub(super) fn required_parameters(&self) -> impl Iterator<Item = &str> {
        let required = |parameter: &&Value| {
            parameter.get("in").is_some_and(|place| place == "query") && parameter.get("required").is_some()
        };
        self.parameters.iter().filter(required).filter_map(|parameter| parameter.get("name")?.as_str())
    }

    /// What the body is to look like: `{"query": "…"}`.
    pub(super) fn body_sketch(&self) -> Option<String> {
        let reference = self.body.as_ref()?.pointer("/content/application~1json/schema/$ref")?;
        let schema = self.schemas.get(reference.as_str()?.rsplit('/').next()?)?;
        let field = |name: &str| match schema.pointer(&format!("/properties/{name}/type")) {
            Some(kind) if kind == "array" => format!("\"{name}\": […]"),
            _ => format!("\"{name}\": \"…\""),
        };
        let required = schema.get("required")?.as_array()?.iter().filter_map(Value::as_str);
        Some(format!("{{{}}}", required.map(field).collect::<Vec<_>>().join(", ")))
    }

    pub(super) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    pub(super) fn to_json(&self) -> Value {
        let mut json = json!({ "operationId": self.id, "tags": [self.tag], "summary": self.summary });
        let mut set = |name: &str, value: Value| json[name] = value;
        if !self.description.is_empty() {
            set("description", self.description.into());
        }
        if !self.parameters.is_empty() {
            set("parameters", self.parameters.clone().into());
        }
        if let Some(body) = &self.body {
            set("requestBody", body.clone());
        }
        if let Some(roles) = self.roles {
            set("security", json!([{ "bearer": roles }]));
        }
        let mut answers: Map<_, _> =
            self.answers.iter().map(|(status, answer)| (status.to_string(), answer.to_json())).collect();
        if let Some(description) = self.any_answer {
            answers.insert("default".to_owned(), json!({ "description": description }));
        }
        set("responses", answers.into());
        json
    }
}
