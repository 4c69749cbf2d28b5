//! The bodies of the requests under `/api/` that ask the agent
//! (host/docs/interface/errors-and-limits.md#limits).

#[cfg(test)]
pub(super) mod tests;

use agent_core::words::{LONGEST_CONVERSATION_ID, Message, Options, is_conversation_id};
use serde_json::{Value, json};

use super::error::Error;
use crate::body::Payload;
use crate::dependencies::Settings;
use crate::json;
use crate::request::history::{CHOSEN_TOOLS, HISTORY};
use crate::request::output_schema::{self, OUTPUT_SCHEMA};
use crate::request::{
    self, Elsewhere, Field, FromJson, Issue, Kind, Object, Pattern, Request, Step, request,
};

/// The options that not every route has: where a request of another route has one, it is refused. A run
/// without its conversation would not know what was said in it, nor be kept.
const OF_OTHER_ROUTES: &[Elsewhere] = &[
    elsewhere("maxTokens"),
    elsewhere("temperature"),
    elsewhere("tools"),
    elsewhere("history"),
    elsewhere("outputSchema"),
    elsewhere("conversationId"),
];

const fn elsewhere(name: &'static str) -> Elsewhere {
    Elsewhere { name, takers: "POST /api/agent and POST /api/agent/async take" }
}

/// The priority that the dedicated cluster is for (host/docs/interface/endpoints.md#gateway-request).
const HIGH: &str = "high";

/// Reads a body within its limits.
pub(super) async fn read<T: Request>(payload: Payload, settings: &Settings) -> Result<T, Error> {
    Ok(request::read(read_json(payload, settings).await?)?)
}

/// The same of one that is not described by a type.
pub async fn read_json(payload: Payload, settings: &Settings) -> Result<Value, Error> {
    Ok(json::parse(&payload.read(settings).await?)?)
}

const QUERY: Field = Field::text("query")
    .least(1)
    .most(1_000)
    .required()
    .about("The user's text. Characters are Unicode code points.")
    .example(|| json!("What is 6 * 7?"));

/// The query of the other routes: the interface bounds that of `/api/agent` alone
/// (host/docs/interface/errors-and-limits.md#limits).
const LONG_QUERY: Field = Field::text("query")
    .least(1)
    .required()
    .about("The user's text. The body's limit bounds it.")
    .example(|| json!("What is 6 * 7?"));

/// The id of a kept conversation.
pub const CONVERSATION_ID: Field = Field::text("conversationId")
    .least(1)
    .most(LONGEST_CONVERSATION_ID as u32)
    .like(&Pattern {
        is: is_conversation_id,
        fault: "Invalid conversation id",
        keywords: || json!({ "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$" }),
    })
    .example(|| json!("trip-to-rome"));

const CONVERSATION_OF_RUN: Field = CONVERSATION_ID.about(
    "The kept conversation that the run is part of, in the namespace of the caller; the first run with an id begins it. \
     What was said in it stands in front of the run, before `history`, and the run is appended when it ends well. One \
     run at a time is part of a conversation: another one is refused with 409, a job waits.",
);

request! {
    /// What the agent is asked.
    pub(super) struct AgentRequest = Object::OPEN;

    query: String = QUERY;
    options: AgentOptions = Field::new("options", AgentOptions::KIND);
}

request! {
    /// Wishes for this run.
    pub(super) struct AgentOptions = Object::OPEN;

    /// Most tokens that the model may write in one reply. A fraction is cut off.
    max_tokens: Option<u32> = Field::new("maxTokens", Kind::Number).least(100).most(10_000).example(|| json!(1000));

    /// How freely the model chooses its words.
    temperature: Option<f64> = Field::new("temperature", Kind::Number).least(0).most(2).example(|| json!(0));

    /// Names of the only tools that the run has. Without it the run has all that the caller may use.
    tools: Option<Vec<String>> = CHOSEN_TOOLS;

    history: Option<Vec<Message>> = HISTORY;
    output_schema: Option<Value> = OUTPUT_SCHEMA;
    conversation_id: Option<String> = CONVERSATION_OF_RUN;
}

impl AgentOptions {
    /// What they say about the run itself.
    pub(super) fn of_run(self) -> Options {
        let Self { max_tokens, temperature, tools, history, output_schema, conversation_id: _ } = self;
        let (history, rules) = (history.unwrap_or_default(), output_schema::rules(output_schema));
        Options { max_tokens, temperature, tools, history, functions: vec![], rules, call: None }
    }
}

/// Refuses a schema that no output can be held against.
pub(super) async fn check_output_schema(options: &Options) -> Result<(), Error> {
    let path = vec![Step::Name("options"), Step::Name(OUTPUT_SCHEMA.name)];
    let checked = output_schema::check(&options.rules).await;
    checked.map_err(|fault| Error::Schema(Issue::custom(fault, path).into()))
}

request! {
    /// What the agent is asked.
    pub(super) struct QueryRequest = Object::OPEN;

    query: String = LONG_QUERY;
    options: NoRunOptions = Field::new("options", NoRunOptions::KIND).example(|| json!({}));
}

request! {
    /// Wishes for the run. Only `POST /api/agent` and `POST /api/agent/async` take `maxTokens`,
    /// `temperature`, `tools`, `history`, `outputSchema` and `conversationId`.
    pub(super) struct NoRunOptions = Object { refused: OF_OTHER_ROUTES, ..Object::LENIENT };
}

request! {
    /// What somebody decides about a wait.
    pub(super) struct DecisionRequest = Object::CLOSED;

    /// `approve` the call as it was shown, `reject` it, `edit` its arguments, or `answer` what is waited for.
    decision: Choice = Field::new(
        "decision",
        Kind::Word { words: || vec!["approve", "reject", "edit", "answer"], most_quoted: usize::MAX },
    )
    .required()
    .example(|| json!("approve"));

    /// Why it is rejected: the model is told.
    reason: Option<String> = Field::text("reason").least(1).most(1_000).example(|| json!("too dear"));

    /// The arguments that an edited call is made with, a JSON object that the tool allows.
    arguments: Option<Value> = Field::new("arguments", Kind::Object(&Object::OPEN)).example(|| json!({ "euros": 10 }));

    /// The answer to a question, any JSON that its schema allows.
    answer: Option<Value> = Field::new("answer", Kind::Any).example(|| json!("the blue one"));
}

/// What may be decided about a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    Approve,
    Reject,
    Edit,
    Answer,
}

impl FromJson for Choice {
    fn from_json(value: Option<Value>) -> Option<Self> {
        match value?.as_str()? {
            "approve" => Some(Self::Approve),
            "reject" => Some(Self::Reject),
            "edit" => Some(Self::Edit),
            "answer" => Some(Self::Answer),
            _ => None,
        }
    }
}

request! {
    /// An event that runs wait for.
    pub(super) struct EventRequest = Object::CLOSED;

    /// Which one it is, as the run named it.
    key: String = Field::text("key").least(1).most(256).required().example(|| json!("invoice-17"));

    /// What the runs are answered, any JSON.
    data: Option<Value> = Field::new("data", Kind::Any).example(|| json!({ "euros": 60 }));

    /// Whose runs, for administrators; one's own by default.
    user_id: Option<String> = Field::text("userId").least(1).most(256).example(|| json!("ada"));
}

request! {
    /// What the agent is asked.
    pub(super) struct JobRequest = Object::OPEN;

    query: String = LONG_QUERY;

    /// Where the end of the job is sent (Standard Webhooks), if the service has a secret to sign it with.
    webhook_url: Option<String> = Field::text(WEBHOOK_URL)
        .most(2_048)
        .like(URI)
        .example(|| json!("https://example.com/hook"));

    options: AgentOptions =
        Field::new("options", OF_JOB).example(|| json!({ "conversationId": "trip-to-rome" }));
}

/// The options of a request. What is no object is taken for none, as it was before jobs had any.
const OF_JOB: Kind = Kind::Object(&Object {
    name: "JobOptions",
    about: "Wishes for the job's run. Refused but for `conversationId` where Node workers may share the queue (`NODE_WORKERS`).",
    is_lenient: true,
    ..*AgentOptions::OBJECT
});

pub(super) const WEBHOOK_URL: &str = "webhookUrl";

/// Which addresses may be sent to is for the sender of webhooks to know.
const URI: &Pattern = &Pattern { is: |_| true, fault: "", keywords: || json!({ "format": "uri" }) };

request! {
    /// What the agent is asked, and how urgent that is.
    pub(super) struct GatewayRequest = Object::OPEN;

    query: String = LONG_QUERY;
    options: NoRunOptions = Field::new("options", NoRunOptions::KIND).example(|| json!({}));

    /// `high` for the dedicated cluster, if there is one. Anything else is worked here.
    priority: Option<Value> = Field::new("priority", Kind::Any).example(|| json!(HIGH));
}

impl GatewayRequest {
    pub(super) fn is_urgent(&self) -> bool {
        self.priority.as_ref().is_some_and(|priority| priority == HIGH)
    }
}
