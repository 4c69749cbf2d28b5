//! What the user of a client is asked about a call that waits, and what their answer decides: an approval by
//! a choice, a question by the schema of its answer as far as forms have that.

use std::time::{Duration, SystemTime};

use agent_core::terminal_text;
use agent_core::words::{ShownCall, Verdict, Wait, WaitKind};
use json_schema::MemoryBudget;
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, ElicitationSchemaBuilder, EnumSchema, ErrorData,
    InputRequest, InputRequests, PrimitiveSchemaDefinition,
};
use run_service::runs::moment;
use run_service::waits::JobWait;
use serde_json::{Value, json};

/// Most bytes of arguments in a form. All of them are shown under the wait's own address.
const SHOWN_BYTES: usize = 4_096;

/// Longest reason of a rejection, as the API takes it.
const REASON_CHARS: usize = 1_000;

/// The member of a form that has the whole answer.
const ANSWER: &str = "answer";

/// How the answer to a question is given in a form, whose members are texts, numbers, choices and no more.
enum AnswerForm {
    /// The answer is an object of such members: they are those of the form.
    Members(ElicitationSchema),
    /// The answer is such a member.
    Member(PrimitiveSchemaDefinition),
    /// The answer has another form: it is written as JSON.
    Json,
}

impl AnswerForm {
    fn of(wait: &Wait) -> Self {
        let schema = wait.answer.clone().unwrap_or_else(|| json!({ "type": "string" }));
        // One that allows anything has no member that a form could have.
        if schema.get("properties").is_some()
            && let Ok(members) = serde_json::from_value(schema.clone())
        {
            return Self::Members(members);
        }
        serde_json::from_value(schema).map_or(Self::Json, Self::Member)
    }

    fn schema(self, wait: &Wait) -> ElicitationSchema {
        let form = ElicitationSchemaBuilder::new();
        match self {
            Self::Members(members) => members,
            Self::Member(member) => form.required_property(ANSWER, member).build_unchecked(),
            Self::Json => {
                let schema = wait.answer.as_ref().map(Value::to_string).unwrap_or_default();
                let about = format!("JSON that meets this schema: {}", beginning(&schema, &wait.id));
                form.required_string_with(ANSWER, |text| text.description(about)).build_unchecked()
            }
        }
    }

    /// The answer that a form has.
    fn read(self, content: &Value) -> Option<Value> {
        match self {
            Self::Members(_) => content.is_object().then(|| content.clone()),
            Self::Member(_) => content.get(ANSWER).cloned(),
            Self::Json => MemoryBudget::default().read(content.get(ANSWER)?.as_str()?.as_bytes()).ok(),
        }
    }
}

/// What the client's user is asked, under the id of the wait.
pub(crate) fn questions(wait: &JobWait) -> InputRequests {
    let of = &wait.open.wait;
    let shown = &of.shown;
    let (message, requested_schema) = if of.kind == WaitKind::Question {
        (asks(shown), AnswerForm::of(of).schema(of))
    } else {
        let arguments = terminal_text::shown_json(&shown.arguments.to_string());
        let message = format!(
            "May {} be called with these arguments? {}\nIt runs {}.",
            shown.tool,
            beginning(&arguments, &wait.id),
            shown.component,
        );
        (message, decision())
    };
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    [(wait.id.clone(), InputRequest::Elicitation(ElicitRequest::new(params)))].into()
}

/// A component's question, with what could steer a terminal or cannot be seen written out.
fn asks(shown: &ShownCall) -> String {
    let question = shown.arguments["question"].as_str().unwrap_or_default();
    let lines: Vec<_> = question.split('\n').map(|line| terminal_text::shown(line, usize::MAX)).collect();
    format!("{} asks: {}", shown.tool, lines.join("\n"))
}

/// As much of a text as a person is shown.
fn beginning(text: &str, wait: &str) -> String {
    let (beginning, more) = text.split_at(text.floor_char_boundary(SHOWN_BYTES));
    match more.len() {
        0 => beginning.to_owned(),
        more => format!("{beginning}… and {more} bytes more, all of them at /api/agent/waits/{wait}"),
    }
}

fn decision() -> ElicitationSchema {
    let decisions = EnumSchema::builder(vec!["approve".to_owned(), "reject".to_owned()]).build();
    let reason_chars = u32::try_from(REASON_CHARS).unwrap_or(u32::MAX);
    ElicitationSchema::builder()
        .required_enum_schema("decision", decisions)
        .optional_string_with("reason", |reason| {
            reason.max_length(reason_chars).description("Why it is rejected, which the caller is told.")
        })
        .build_unchecked()
}

/// What a user has decided; nothing where they have left it open.
pub(crate) fn verdict(wait: &Wait, response: &Value) -> Result<Option<Verdict>, ErrorData> {
    let content = &response["content"];
    let is_accepted = match response["action"].as_str() {
        Some("cancel") => return Ok(None),
        Some("decline") => return Ok(Some(Verdict::Reject { reason: None })),
        action => action == Some("accept"),
    };
    if wait.kind == WaitKind::Question {
        let answer = AnswerForm::of(wait).read(content).filter(|_| is_accepted);
        let unread = || ErrorData::invalid_params("`content` has to be what the form asks for", None);
        return answer.map(|answer| Some(Verdict::Answer { answer })).ok_or_else(unread);
    }
    let reason = content["reason"].as_str().filter(|reason| !reason.is_empty());
    if reason.is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        let why = format!("`content.reason` may have {REASON_CHARS} characters");
        return Err(ErrorData::invalid_params(why, None));
    }
    match content["decision"].as_str().filter(|_| is_accepted) {
        Some("approve") => Ok(Some(Verdict::Approve)),
        Some("reject") => Ok(Some(Verdict::Reject { reason: reason.map(str::to_owned) })),
        _ => Err(ErrorData::invalid_params("`content.decision` has to be `approve` or `reject`", None)),
    }
}

/// What a call waits for, in a sentence.
pub(crate) fn waits_for(wait: &JobWait) -> String {
    let Wait { id, kind, shown, expires_at, .. } = &wait.open.wait;
    let until = moment(SystemTime::UNIX_EPOCH + Duration::from_millis(*expires_at));
    let what = match kind {
        WaitKind::Question => "an answer to a question of",
        _ => "an approval of",
    };
    format!("It waits until {until} for {what} {} (/api/agent/waits/{id}).", shown.tool)
}

/// A question whose answer has that schema.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn question(schema: Option<Value>) -> Wait {
    use agent_core::words::{Deciders, OnExpiry, ToolHints, Usage};
    Wait {
        id: "1:1.0.0".into(),
        index: 0,
        within: None,
        kind: WaitKind::Question,
        shown: ShownCall {
            tool: "order".into(),
            arguments: json!({ "question": "Which?" }),
            component: "c".into(),
            policy: String::new(),
            hints: ToolHints::default(),
        },
        answer: schema,
        deciders: Deciders::default(),
        began_at: 0,
        expires_at: 1,
        on_expiry: OnExpiry::Reject,
        usage: Usage::default(),
        child: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_forms_by_the_schema_of_their_answers() {
        let object =
            json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let nested = json!({ "type": "object", "properties": { "n": { "type": "object" } } });
        for (schema, member, said, answer) in [
            (None, "answer", json!({ "answer": "blue" }), json!("blue")),
            (Some(json!({ "type": "integer" })), "answer", json!({ "answer": 3 }), json!(3)),
            (Some(object), "n", json!({ "n": 3 }), json!({ "n": 3 })),
            (Some(nested), "answer", json!({ "answer": r#"{"n": {}}"# }), json!({ "n": {} })),
            (Some(json!({})), "answer", json!({ "answer": "[1]" }), json!([1])),
        ] {
            let wait = question(schema);
            let form = AnswerForm::of(&wait).schema(&wait);
            assert_eq!(form.properties.keys().collect::<Vec<_>>(), [member], "{form:?}");
            assert_eq!(form.required, Some(vec![member.to_owned()]), "{form:?}");
            let response = json!({ "action": "accept", "content": said });
            assert_eq!(verdict(&wait, &response).unwrap(), Some(Verdict::Answer { answer }));
        }
    }

    #[test]
    fn a_question_hides_nothing_and_keeps_its_lines() {
        let mut wait = question(None);
        wait.shown.arguments = json!({ "question": "Which?\nbob\u{202e}eve\u{1b}[2J" });
        assert_eq!(asks(&wait.shown), "order asks: Which?\nbob\\u{202e}eve\\u{1b}[2J");
    }

    #[test]
    fn what_is_no_answer_is_refused_and_a_question_may_be_left_open_or_declined() {
        let wait = question(Some(json!({})));
        for content in [json!({}), json!({ "answer": 3 }), json!({ "answer": "[1" }), json!(null)] {
            let refused = verdict(&wait, &json!({ "action": "accept", "content": content })).unwrap_err();
            assert!(refused.message.contains("what the form asks for"), "{refused}");
        }
        assert_eq!(verdict(&wait, &json!({ "action": "cancel" })).unwrap(), None);
        let declined = verdict(&wait, &json!({ "action": "decline" })).unwrap();
        assert_eq!(declined, Some(Verdict::Reject { reason: None }));
        assert!(verdict(&wait, &json!({ "action": "what" })).is_err());
    }
}
