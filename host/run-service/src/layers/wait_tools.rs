//! The host's own tools, by which a model has its run wait: for an answer of the user (`ask_user`), for a
//! time (`wait_until`), for an event (`wait_for_event`), for a run of its own (`run_agent`). None of them is
//! ever called: what is decided about the wait is the answer.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::agent_loop::RUN_AGENT;
use agent_core::chosen_tools::{self, UnknownTools};
use agent_core::ports::{ToolRequest, ToolSet, Versions, WaitTerms};
use agent_core::words::{
    Catalog, Deciders, OnExpiry, Principal, ShownCall, ToolCall, ToolHints, ToolReturn, ToolSpec, WaitKind,
};
use boxed_async::boxed_async;
use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone as _};
use chrono_tz::Tz;
use json_schema::Exact;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::clock;
use crate::loop_driver::nested_bounds;

pub(crate) const ASK_USER: &str = "ask_user";
const WAIT_UNTIL: &str = "wait_until";
pub(crate) const WAIT_FOR_EVENT: &str = "wait_for_event";

/// Who carries the call out, as those who decide are shown it.
const HOST: &str = "agent-host";

/// How long a user has to answer, and an event to come unless the model says otherwise: a day.
const DEFAULT_WITHIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Most bytes of the name of an event, and most characters of its key: the route that delivers events takes
/// no more.
const MOST_OF_EVENT: usize = 256;

/// The longest that a run waits: a year.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The tools, and behind them those by which a run waits, as far as they were chosen. One with the name of
/// another tool is left out, and `run_agent` where the run may not begin others.
pub(super) fn offered(
    tools: Arc<dyn ToolSet>,
    chosen: Option<&[String]>,
    may_begin: bool,
) -> Arc<dyn ToolSet> {
    let own = tools.catalog();
    let is_ours = |spec: &&Arc<ToolSpec>| {
        is_chosen(chosen, &spec.name)
            && (spec.name != RUN_AGENT || may_begin)
            && own.get(&spec.name).is_none()
    };
    let ours: Vec<_> = SPECS.iter().filter(is_ours).cloned().collect();
    if ours.is_empty() {
        return tools;
    }
    let digest = |before: &str| {
        let mut hash = Sha256::new();
        hash.update(before);
        for spec in &ours {
            hash.update(spec.name.as_bytes());
            hash.update(spec.input_schema.to_string());
        }
        format!("sha256:{:x}", hash.finalize())
    };
    // The host's own, whose refusal by a provider is no refusal of what a caller brought along.
    let service = own.base().unwrap_or(own);
    let service = Arc::new(service.with_own(&ours, digest(service.digest())));
    let catalog = match own.base() {
        None => service,
        Some(_) => {
            let specs = own.tools().iter().chain(&ours).cloned().collect();
            Arc::new(Catalog::derived(&service, specs, digest(own.digest())))
        }
    };
    let names = ours.iter().map(|spec| spec.name.clone()).collect();
    Arc::new(WithWaits { tools, catalog, names, chosen: chosen.map(<[String]>::to_vec) })
}

/// Refuses chosen tools that are neither in the catalog, which is the caller's, nor ours, where runs have
/// those: a run that has them not after all refuses them itself.
pub(crate) fn check(
    catalog: &Catalog,
    chosen: Option<&[String]>,
    has_wait_tools: bool,
) -> Result<(), UnknownTools> {
    let Err(UnknownTools { mut indexes }) = chosen_tools::check(catalog, chosen) else { return Ok(()) };
    let chosen = chosen.unwrap_or_default();
    let is_ours = |name: &String| has_wait_tools && SPECS.iter().any(|spec| spec.name == *name);
    indexes.retain(|index| !chosen.get(*index).is_some_and(is_ours));
    if indexes.is_empty() { Ok(()) } else { Err(UnknownTools { indexes }) }
}

fn is_chosen(chosen: Option<&[String]>, name: &str) -> bool {
    chosen.is_none_or(|chosen| chosen.iter().any(|chosen| chosen == name))
}

static SPECS: LazyLock<[Arc<ToolSpec>; 4]> = LazyLock::new(|| specs().map(Arc::new));

fn specs() -> [ToolSpec; 4] {
    let text = |about: &str| json!({ "type": "string", "description": about });
    let spec = |name: &str, description: &str, properties: Value, required: &[&str]| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema: json!({
            "type": "object", "properties": properties, "required": required, "additionalProperties": false,
        }),
        is_repeatable: true,
        is_destructive: false,
        // So that no tool can call it.
        calls_tools: true,
        may_ask: false,
        is_replayable: false,
        hints: ToolHints { read_only: Some(true), ..ToolHints::default() },
    };
    [
        spec(
            ASK_USER,
            "Asks the user a question and waits for the answer, for a day at most. Use it when you cannot go on \
             without knowing something that only the user knows.",
            json!({
                "question": text("What the user is asked."),
                "schema": { "type": "object", "description": "A JSON Schema that the answer has to meet, where it is not any text." },
            }),
            &["question"],
        ),
        spec(
            WAIT_UNTIL,
            "Waits until a time has come, and goes on then.",
            json!({
                "time": text("When, as 2026-11-30T09:00:00, or with an offset, as 2026-11-30T09:00:00+01:00."),
                "zone": text("The time zone of a time without an offset, as Europe/Berlin; UTC by default."),
            }),
            &["time"],
        ),
        spec(
            WAIT_FOR_EVENT,
            "Waits until an event is delivered from outside, and answers with its data.",
            json!({
                "name": text("The event's name, as payment-received."),
                "key": text("Which one is meant, as the number of an invoice."),
                "within_seconds": { "type": "integer", "minimum": 1, "description": "How long at most; a day by default." },
            }),
            &["name", "key"],
        ),
        spec(
            RUN_AGENT,
            "Has another agent do a part of the work and answers with what it says. It knows nothing of this \
             conversation, has some of your tools and tokens, and several may run at once. Use it for work that can \
             be described in full and whose way does not matter to you.",
            json!({
                "task": text("What is to be done, with everything that has to be known for it."),
                "tools": { "type": "array", "items": { "type": "string" }, "description": "Names of the only tools of yours that it has; all by default." },
                "tokens": { "type": "integer", "minimum": 1, "description": "How many it may use at most; by default a part of those that you have left." },
                "within_seconds": { "type": "integer", "minimum": 1, "description": "How long it may take; a day by default." },
            }),
            &["task"],
        ),
    ]
}

/// When a call of `wait_until` goes on. What is no time is an answer to the model.
fn due(arguments: &Value) -> Result<SystemTime, String> {
    let time = arguments["time"].as_str().ok_or("\"time\" is missing: a text such as 2026-11-30T09:00:00")?;
    let at = match DateTime::parse_from_rfc3339(time) {
        Ok(at) => at.timestamp_millis(),
        Err(_) => {
            let local: NaiveDateTime = time
                .parse()
                .map_err(|_error| format!("{time:?} is no time: write one such as 2026-11-30T09:00:00"))?;
            let zone = arguments["zone"].as_str().unwrap_or("UTC");
            let zone: Tz = zone
                .parse()
                .map_err(|_error| format!("{zone:?} is no time zone: write one such as Europe/Berlin"))?;
            match zone.from_local_datetime(&local) {
                // Of an hour that there is twice, the first one.
                LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => at.timestamp_millis(),
                LocalResult::None => {
                    return Err(format!("the clocks of {zone} skip {time}: write another time"));
                }
            }
        }
    };
    let at = UNIX_EPOCH + Duration::from_millis(u64::try_from(at).unwrap_or_default());
    match at.duration_since(clock::now()) {
        Ok(left) if left > LONGEST => Err("a run waits for a year at most".to_owned()),
        _ => Ok(at),
    }
}

/// Whether the route that delivers events takes one of that name and key.
fn deliverable(name: &str, key: &str) -> Result<(), String> {
    for (part, length, unit) in [("name", name.len(), "bytes"), ("key", key.chars().count(), "characters")] {
        if !(1..=MOST_OF_EVENT).contains(&length) {
            return Err(format!("\"{part}\" has 1 to {MOST_OF_EVENT} {unit}: this one has {length}"));
        }
    }
    match name.contains(char::is_control) {
        true => Err("\"name\" has no line breaks, tabs or other control characters".to_owned()),
        false => Ok(()),
    }
}

/// Whether a child run can have the tools that were named: some that its parent has.
fn check_child(arguments: &Value, has_tool: impl Fn(&str) -> bool) -> Result<(), String> {
    if arguments["task"].as_str().is_none_or(|task| task.trim().is_empty()) {
        return Err("\"task\" is missing: a text that says what is to be done".to_owned());
    }
    let Some(named) = arguments.get("tools").filter(|named| !named.is_null()) else { return Ok(()) };
    let named = named.as_array().ok_or("\"tools\" is a list of names")?;
    match named.iter().find(|name| name.as_str().is_none_or(|name| !has_tool(name))) {
        Some(unknown) => Err(format!("you have no tool {unknown}, so that another run cannot have it")),
        None => Ok(()),
    }
}

/// The terms of a wait that the call asks for, or why it cannot be had. `has_tool` says of a name whether the
/// run has a tool of it.
fn terms(call: &ToolCall, has_tool: impl Fn(&str) -> bool) -> Result<WaitTerms, String> {
    let arguments = &call.arguments;
    let missing = |name: &str| format!("\"{name}\" is missing: a text");
    let within = arguments["within_seconds"].as_number().map(Exact::of);
    let within = within.and_then(Exact::as_u64).map_or(DEFAULT_WITHIN, Duration::from_secs);
    let within = within.clamp(Duration::from_secs(1), LONGEST);
    let (kind, answer, within, on_expiry) = match call.name.as_str() {
        ASK_USER => {
            let question = arguments["question"].as_str().ok_or_else(|| missing("question"))?;
            let schema = arguments.get("schema").filter(|schema| schema.is_object()).map(Value::to_string);
            let schema = nested_bounds::read_question(question, schema.as_deref())?;
            (WaitKind::Question, schema, DEFAULT_WITHIN, OnExpiry::Reject)
        }
        WAIT_UNTIL => {
            let left = due(arguments)?.duration_since(clock::now()).unwrap_or_default();
            (WaitKind::Timer, None, left, OnExpiry::Answer)
        }
        RUN_AGENT => {
            check_child(arguments, has_tool)?;
            (WaitKind::Child, None, within, OnExpiry::Reject)
        }
        _ => {
            let text = |part: &str| arguments[part].as_str().ok_or_else(|| missing(part));
            deliverable(text("name")?, text("key")?)?;
            (WaitKind::Event, None, within, OnExpiry::Reject)
        }
    };
    let shown = ShownCall {
        tool: call.name.clone(),
        arguments: arguments.clone(),
        component: HOST.to_owned(),
        policy: String::new(),
        hints: ToolHints::default(),
    };
    Ok(WaitTerms { kind, shown, answer, deciders: Deciders::default(), within, on_expiry })
}

struct WithWaits {
    tools: Arc<dyn ToolSet>,
    catalog: Arc<Catalog>,
    /// Of the tools that are ours.
    names: Vec<String>,
    /// The tools that the run has of the catalog, which is its user's; all without a choice.
    chosen: Option<Vec<String>>,
}

impl WithWaits {
    fn terms(&self, call: &ToolCall) -> Result<WaitTerms, String> {
        let chosen = self.chosen.as_deref();
        terms(call, |name| is_chosen(chosen, name) && self.catalog.get(name).is_some())
    }
}

#[boxed_async]
impl ToolSet for WithWaits {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn versions(&self) -> Versions {
        self.tools.versions()
    }

    fn may_wait(&self) -> bool {
        true
    }

    fn may_wait_for(&self, tool: &str) -> bool {
        self.names.iter().any(|name| name == tool) || self.tools.may_wait_for(tool)
    }

    fn approval(&self, call: &ToolCall, caller: &Principal) -> Option<WaitTerms> {
        if self.names.contains(&call.name) {
            self.terms(call).ok()
        } else {
            self.tools.approval(call, caller)
        }
    }

    /// A call of ours comes here only if it asks for nothing that could be waited for.
    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        if !self.names.contains(&request.call.name) {
            return self.tools.call(request).await;
        }
        let why = self.terms(request.call).err();
        WaitTerms::not_made(
            request.call,
            why.as_deref().unwrap_or("only a run that can wait may ask for that"),
        )
    }
}

#[cfg(test)]
mod tests {
    use agent_core::testing::EchoTools;
    use agent_core::words::ClientFunction;

    use super::super::client_functions;
    use super::*;

    fn call(name: &str, arguments: Value) -> ToolCall {
        ToolCall { id: "1".into(), name: name.into(), arguments }
    }

    #[test]
    fn times_are_read_in_their_zones() {
        let at =
            |arguments: Value| due(&arguments).map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(at(json!({ "time": "2020-06-01T12:00:00Z" })), Ok(1_591_012_800));
        assert_eq!(at(json!({ "time": "2020-06-01T14:00:00", "zone": "Europe/Berlin" })), Ok(1_591_012_800));
        assert_eq!(at(json!({ "time": "2020-06-01T12:00:00" })), Ok(1_591_012_800));
        for (arguments, why) in [
            (json!({}), "is missing"),
            (json!({ "time": "tomorrow" }), "is no time"),
            (json!({ "time": "2020-06-01T12:00:00", "zone": "Middle/Earth" }), "is no time zone"),
            (json!({ "time": "2020-03-29T02:30:00", "zone": "Europe/Berlin" }), "skip"),
            (json!({ "time": "9999-01-01T00:00:00Z" }), "a year at most"),
        ] {
            let found = at(arguments).unwrap_err();
            assert!(found.contains(why), "{found}");
        }
    }

    #[test]
    fn tools_to_wait_with_may_be_chosen_where_runs_have_them() {
        let tools = EchoTools::new(&["add"]);
        let chosen = ["add", ASK_USER, "nope"].map(str::to_owned);
        for (has_wait_tools, unknown) in [(true, vec![2]), (false, vec![1, 2])] {
            let refused = check(tools.catalog(), Some(&chosen), has_wait_tools).unwrap_err();
            assert_eq!(refused.indexes, unknown);
        }
        check(tools.catalog(), Some(&chosen[..2]), true).unwrap();
        check(tools.catalog(), None, false).unwrap();
    }

    #[tokio::test]
    async fn a_child_is_refused_tools_that_its_parent_did_not_choose() {
        let chosen = ["add", RUN_AGENT].map(str::to_owned);
        let tools = offered(Arc::new(EchoTools::new(&["add", "pay"])), Some(&chosen), true);
        let begins = |tool: &str| call(RUN_AGENT, json!({ "task": "a", "tools": [tool] }));
        assert!(tools.approval(&begins("add"), Principal::nobody()).is_some());
        assert!(tools.approval(&begins("pay"), Principal::nobody()).is_none());
        let deadline = std::time::Instant::now() + Duration::from_secs(1);
        let answer = tools.call(ToolRequest::outside_of_runs("r", &begins("pay"), deadline)).await;
        assert!(answer.content.contains("you have no tool \"pay\""), "{}", answer.content);
    }

    #[tokio::test]
    async fn what_cannot_be_waited_for_is_an_answer_and_others_keep_their_names() {
        let tools = offered(Arc::new(EchoTools::new(&["echo", WAIT_UNTIL])), None, true);
        let names: Vec<_> = tools.catalog().tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names, [ASK_USER, "echo", RUN_AGENT, WAIT_FOR_EVENT, WAIT_UNTIL]);
        let functions =
            [ClientFunction { name: "f".into(), description: String::new(), parameters: json!({}) }];
        let with_function = client_functions::offered(tools.clone(), &functions);
        let own = |tool: &Arc<ToolSpec>| with_function.catalog().is_own(tool) == (tool.name != "f");
        assert!(with_function.catalog().tools().iter().all(own), "a provider may refuse ours as any other");
        let nobody = Principal::default();
        assert!(tools.approval(&call(WAIT_UNTIL, json!({})), &nobody).is_none(), "it is somebody else's");
        let asked = tools.approval(&call(ASK_USER, json!({ "question": "Which?" })), &nobody).unwrap();
        assert_eq!((asked.kind, asked.on_expiry), (WaitKind::Question, OnExpiry::Reject));
        // Models write whole numbers in either way.
        for within in [json!(3600), json!(3600.0)] {
            let event = json!({ "name": "paid", "key": "k", "within_seconds": within });
            let terms = tools.approval(&call(WAIT_FOR_EVENT, event), &nobody).unwrap();
            assert_eq!(terms.within, Duration::from_secs(3600));
        }
        let long = "x".repeat(MOST_OF_EVENT + 1);
        let deep = (0..110).fold(json!(0), |inner, _| json!([inner]));
        for (tool, arguments, why) in [
            (WAIT_FOR_EVENT, json!({ "name": "paid" }), "\"key\" is missing"),
            (WAIT_FOR_EVENT, json!({ "name": long, "key": "k" }), "\"name\" has 1 to 256 bytes"),
            (WAIT_FOR_EVENT, json!({ "name": "paid", "key": "" }), "\"key\" has 1 to 256 characters"),
            (WAIT_FOR_EVENT, json!({ "name": "pa\nid", "key": "k" }), "control characters"),
            (ASK_USER, json!({ "question": " " }), "a question has 1 to 4096 bytes"),
            (
                ASK_USER,
                json!({ "question": "Which?", "schema": { "type": "strin" } }),
                "the schema of the answer",
            ),
            (ASK_USER, json!({ "question": "Which?", "schema": { "const": deep } }), "nested too deeply"),
        ] {
            let wrong = call(tool, arguments);
            assert!(tools.approval(&wrong, &nobody).is_none());
            let deadline = std::time::Instant::now() + Duration::from_secs(1);
            let answer = tools.call(ToolRequest::outside_of_runs("r", &wrong, deadline)).await;
            assert!(answer.content.contains(why), "{}", answer.content);
        }
    }
}
