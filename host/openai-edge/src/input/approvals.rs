//! Approval requests and their answers, as OpenAI's clients know them: a call that waits is an item
//! `mcp_approval_request` of a response, and `mcp_approval_response` is the answer to it in a later input.
//!
//! The id of a request says what is decided: the wait, the digest of what was shown, and up to which event of
//! the run its response has shown the run. So nothing has to be kept for an answer, as with
//! `/api/agent/waits`.

use std::collections::BTreeSet;
use std::fmt;

use agent_core::words::{Verdict, Wait};
use serde_json::{Value, json};

use super::parameters::Fields;
use http_edge::variant_b::error::Problem;

/// What begins the id of every request.
const PREFIX: &str = "mcpr_";

/// What begins every digest, and is left out of ids.
const ALGORITHM: &str = "sha256:";

/// Longest reason, in characters, as `/api/agent/waits` has it.
const LONGEST_REASON: usize = 1_000;

/// The type of a request and that of an answer.
pub(crate) const REQUEST: &str = "mcp_approval_request";
pub(crate) const RESPONSE: &str = "mcp_approval_response";

/// The id of an approval request: `mcpr_<wait>_<events>_<digest>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApprovalId {
    /// [`Wait::id`] of what is decided.
    pub(crate) wait: String,
    /// How many events of the run its response has shown.
    pub(crate) events: usize,
    /// [`ShownCall::digest`](agent_core::words::ShownCall::digest) of what was shown.
    pub(crate) digest: String,
}

impl ApprovalId {
    pub(crate) fn of(wait: &Wait, events: usize) -> Self {
        Self { wait: wait.id.clone(), events, digest: wait.shown.digest() }
    }

    /// Reads what [`Display`](fmt::Display) writes; nothing of any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PREFIX)?.rsplitn(3, '_');
        let (digest, events, wait) = (parts.next()?, parts.next()?, parts.next()?);
        Wait::job_of(wait)?;
        Some(Self {
            wait: wait.to_owned(),
            events: events.parse().ok()?,
            digest: format!("{ALGORITHM}{digest}"),
        })
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wait, events, digest } = self;
        write!(f, "{PREFIX}{wait}_{events}_{}", digest.strip_prefix(ALGORITHM).unwrap_or(digest))
    }
}

/// The approval requests among items.
pub(crate) fn requests(items: &[Value]) -> impl Iterator<Item = ApprovalId> {
    let requests = items.iter().filter(|item| kind(item) == REQUEST);
    requests.filter_map(|item| ApprovalId::parse(item.get("id")?.as_str()?))
}

/// What stands in place of a reference to an approval request, whose id says all of it.
pub(crate) fn referred(id: &str) -> Option<Value> {
    id.starts_with(PREFIX).then(|| json!({ "type": REQUEST, "id": id }))
}

/// The answer of a client to an approval request.
#[derive(Debug, PartialEq)]
pub(crate) struct ApprovalAnswer {
    pub(crate) id: ApprovalId,
    /// The id as the client sent it.
    pub(crate) text: String,
    /// Where it stands in the request.
    pub(crate) param: String,
    pub(crate) verdict: Verdict,
}

/// The answers that the input of a request ends with. Those before something that the agent said are part of
/// the history: what came of them stands behind them. With `is_continued` everything in the input is new.
pub(crate) fn answers(fields: &Fields, is_continued: bool) -> Result<Vec<ApprovalAnswer>, Problem> {
    let Some(Value::Array(input)) = fields.get("input") else { return Ok(Vec::new()) };
    let begin = input.iter().rposition(|item| !is_of_client(item)).map_or(0, |place| place + 1);
    let newest = || input.iter().enumerate().skip(begin);
    let Some(first) = newest().find(|(_, item)| kind(item) == RESPONSE).map(|(place, _)| place) else {
        return Ok(Vec::new());
    };
    let is_said = |item: &Value| ![REQUEST, RESPONSE, "reasoning"].contains(&kind(item));
    let said = newest().find(|(place, item)| is_said(item) && (is_continued || *place > first));
    if let Some((place, _)) = said {
        let why = "beside an answer to an approval request nothing else can be said: the run goes on with the \
                   answer. Say it when that has ended.";
        return Err(Problem::invalid(format!("input[{place}]"), why));
    }
    newest()
        .filter(|(_, item)| kind(item) == RESPONSE)
        .map(|(place, item)| read(item, &format!("input[{place}]")))
        .collect()
}

/// Refuses two answers to one request.
pub(crate) fn refuse_twice(answers: &[ApprovalAnswer]) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    match answers.iter().find(|answer| !seen.insert(&answer.id.wait)) {
        Some(again) => Err(Problem::invalid(again.param.as_str(), "another answer is to the same request.")),
        None => Ok(()),
    }
}

fn read(item: &Value, at: &str) -> Result<ApprovalAnswer, Problem> {
    let names = Names { request: "approval_request_id", approve: "approve" };
    read_named(item, at, &names)
}

/// What an answer calls its fields.
pub(crate) struct Names {
    pub(crate) request: &'static str,
    pub(crate) approve: &'static str,
}

/// An answer whose fields have these names.
pub(crate) fn read_named(item: &Value, at: &str, names: &Names) -> Result<ApprovalAnswer, Problem> {
    let param = format!("{at}.{}", names.request);
    let text = item.get(names.request).and_then(Value::as_str);
    let text = text.ok_or_else(|| Problem::missing(&param))?.to_owned();
    let id = ApprovalId::parse(&text).ok_or_else(|| Problem::unknown_approval(&text))?;
    let reason = match item.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) if reason.chars().count() <= LONGEST_REASON => {
            Some(reason.clone()).filter(|reason| !reason.is_empty())
        }
        Some(Value::String(_)) => {
            let why = format!("it may have at most {LONGEST_REASON} characters.");
            return Err(Problem::invalid(format!("{at}.reason"), &why));
        }
        Some(_) => return Err(Problem::wrong_type(format!("{at}.reason"), "a string")),
    };
    let at_approve = format!("{at}.{}", names.approve);
    let verdict = match item.get(names.approve) {
        Some(Value::Bool(true)) => Verdict::Approve,
        Some(Value::Bool(false)) => Verdict::Reject { reason },
        None => return Err(Problem::missing(&at_approve)),
        Some(_) => return Err(Problem::wrong_type(at_approve, "a boolean")),
    };
    Ok(ApprovalAnswer { id, text, param, verdict })
}

/// Whether a client may have added the item behind what the agent said last.
fn is_of_client(item: &Value) -> bool {
    match kind(item) {
        "message" => item.get("role").is_some_and(|role| *role != "assistant"),
        kind => [REQUEST, RESPONSE, "reasoning", "function_call_output"].contains(&kind),
    }
}

fn kind(item: &Value) -> &str {
    match item.get("type") {
        None | Some(Value::Null) => "message",
        Some(kind) => kind.as_str().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ApprovalId {
        ApprovalId { wait: "01a2_b:1.0~2".into(), events: 7, digest: format!("sha256:{}", "9f".repeat(32)) }
    }

    fn fields(input: &Value) -> Fields {
        Fields::from_iter([("input".to_owned(), input.clone())])
    }

    #[test]
    fn an_id_is_read_as_it_was_written() {
        let text = id().to_string();
        assert_eq!(ApprovalId::parse(&text), Some(id()), "{text}");
        assert_eq!(text, format!("mcpr_01a2_b:1.0~2_7_{}", "9f".repeat(32)));
        for text in ["", "mcpr_", "mcpr_1", "mcpr_1:1.0_x_9f", "mcpr_1_2_3", "mcp_1:1.0_1_9f"] {
            assert_eq!(ApprovalId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_answers_behind_what_the_agent_said_last_are_to_be_taken() {
        let request = json!({"type": REQUEST, "id": id().to_string()});
        let answer = |approve: bool| json!({"type": RESPONSE, "approval_request_id": id().to_string(), "approve": approve, "reason": "so"});
        let (user, call) = (json!({"role": "user", "content": "hi"}), json!({"type": "mcp_call"}));
        let said = json!({"role": "assistant", "content": "done"});
        let approve = Verdict::Approve;
        let reject = Verdict::Reject { reason: Some("so".into()) };
        for (input, is_continued, expected) in [
            (json!([answer(true)]), true, vec![&approve]),
            (json!([request, answer(false)]), true, vec![&reject]),
            (json!([user, request, request, answer(true), answer(false)]), false, vec![&approve, &reject]),
            (
                json!([user, call, request, answer(true), request, answer(false)]),
                false,
                vec![&approve, &reject],
            ),
            (json!([user, request, answer(true), call, said, user]), false, vec![]),
            (json!([user, request, answer(true), call, request, answer(false)]), false, vec![&reject]),
            (json!([user]), true, vec![]),
            (json!("hi"), false, vec![]),
        ] {
            let found = answers(&fields(&input), is_continued).unwrap();
            assert_eq!(found.iter().map(|found| &found.verdict).collect::<Vec<_>>(), expected, "{input}");
        }
        for (input, is_continued, place) in
            [(json!([user, answer(true)]), true, 0), (json!([user, request, answer(true), user]), false, 3)]
        {
            let error = answers(&fields(&input), is_continued).unwrap_err().body();
            assert_eq!(error["error"]["param"], format!("input[{place}]"), "{input}");
        }
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_named_by_its_place() {
        let id = id().to_string();
        for (mut answer, code, param) in [
            (json!({"approve": true}), "missing_required_parameter", "input[0].approval_request_id"),
            (json!({"approval_request_id": "mcpr_1", "approve": true}), "item_not_found", "input"),
            (json!({"approval_request_id": id}), "missing_required_parameter", "input[0].approve"),
            (json!({"approval_request_id": id, "approve": "yes"}), "invalid_type", "input[0].approve"),
            (
                json!({"approval_request_id": id, "approve": false, "reason": 1}),
                "invalid_type",
                "input[0].reason",
            ),
            (
                json!({"approval_request_id": id, "approve": false, "reason": "x".repeat(1_001)}),
                "invalid_value",
                "input[0].reason",
            ),
        ] {
            answer["type"] = json!(RESPONSE);
            super::super::check_refused(answers(&fields(&json!([answer])), true), code, param);
        }
    }
}
