//! Calls that tools make of other tools.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_core::ports::{CallEnds, NestedTools, Question};
use agent_core::words::{StopReason, ToolReceipt, ToolSpec};
use futures::future::join_all;
use serde_json::Value;

use super::*;

/// `script` makes the calls in its argument `calls`, a list of names and texts, one after another or
/// `atOnce`, and returns outcome and code of each. The other tools take a millisecond, or for ever when their
/// argument `hang` says so. A call of `?` is a question. A script whose call has to end tells nothing.
pub(super) struct Scripts {
    catalog: Arc<Catalog>,
    /// Tools whose calls somebody has to approve.
    approved: &'static [&'static str],
    /// What the first call of a script is instead of what its arguments say.
    instead: Option<(&'static str, &'static str)>,
    /// How many calls a script makes at most.
    most: usize,
    /// The version of the component that asks.
    component: &'static str,
    /// Call ids of the calls it got.
    called: Mutex<Vec<String>>,
    /// What scripts were told.
    told: Mutex<Vec<String>>,
    /// Scripts under way, and the most of them; and the same for other tools.
    scripts: Gauge,
    others: Gauge,
}

#[derive(Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Gauge {
    fn enter(&self) -> impl Drop + '_ {
        struct Left<'a>(&'a Gauge);
        impl Drop for Left<'_> {
            fn drop(&mut self) {
                self.0.now.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Left(self)
    }
}

impl Scripts {
    /// With a tool that may have effects.
    pub(super) fn new() -> Self {
        Self::of(&["look", "mine", "pay"])
    }

    /// With a payment that somebody has to approve, and a script that only calls and asks.
    pub(super) fn approving() -> Self {
        let mut scripts = Self { approved: &["pay"], ..Self::new() };
        let replayable = |tool: &Arc<ToolSpec>| ToolSpec {
            is_replayable: tool.name == "script",
            may_ask: tool.name == "script",
            ..ToolSpec::clone(tool)
        };
        let tools = scripts.catalog.tools().iter().map(replayable).collect();
        scripts.catalog = Arc::new(Catalog::new(tools, "sha256:test".into()));
        scripts
    }

    /// With scripts that somebody has to approve as well.
    pub(super) fn approving_scripts(self) -> Self {
        Self { approved: &["pay", "script"], ..self }
    }

    /// With another first call of every script.
    pub(super) fn beginning_with(self, call: (&'static str, &'static str)) -> Self {
        Self { instead: Some(call), ..self }
    }

    /// With scripts that make no more than so many of their calls.
    pub(super) fn making(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// With another version of the component that asks.
    pub(super) fn of_version(self, component: &'static str) -> Self {
        Self { component, ..self }
    }

    /// `pay` is neither read-only nor idempotent, `mine` tells users apart. `script` says of itself that it
    /// is read-only.
    fn of(names: &[&str]) -> Self {
        let tool = |name: &str| ToolSpec {
            name: name.into(),
            is_repeatable: name != "pay",
            is_destructive: name == "pay",
            calls_tools: name == "script",
            ..ToolSpec::default()
        };
        let tools = names.iter().chain(&["script"]).map(|name| tool(name)).collect();
        Self {
            catalog: Arc::new(Catalog::new(tools, "sha256:test".into())),
            approved: &[],
            instead: None,
            most: usize::MAX,
            component: "c@sha256:1",
            called: Mutex::default(),
            told: Mutex::default(),
            scripts: Gauge::default(),
            others: Gauge::default(),
        }
    }

    pub(super) fn called(&self) -> Vec<String> {
        self.called.lock().clone()
    }

    pub(super) fn told(&self) -> Vec<String> {
        self.told.lock().clone()
    }

    async fn run_script(&self, arguments: &Value, nested: &dyn NestedTools) -> Result<String, CallEnds> {
        let _under_way = self.scripts.enter();
        let patience = Duration::from_millis(arguments["patienceMs"].as_u64().unwrap_or(3_600_000));
        let mut calls = arguments["calls"].as_array().unwrap().clone();
        if let Some((name, text)) = self.instead {
            calls[0] = json!([name, text]);
        }
        calls.truncate(self.most);
        let mut answers = Vec::new();
        if arguments["atOnce"] == json!(true) {
            let made = join_all(calls.iter().map(|call| self.make(call, patience, nested))).await;
            answers = made.into_iter().collect::<Result<_, _>>()?;
        } else {
            for call in &calls {
                answers.push(self.make(call, patience, nested).await?);
            }
        }
        Ok(Value::from(answers).to_string())
    }

    async fn make(
        &self,
        call: &Value,
        patience: Duration,
        nested: &dyn NestedTools,
    ) -> Result<Value, CallEnds> {
        let (name, text) = (call[0].as_str().unwrap(), call[1].as_str().unwrap());
        let step = async {
            match name {
                "?" => nested.ask(Question { component: self.component, text, schema: None }).await,
                _ => nested.call(name, text).await,
            }
        };
        let Ok(answer) = tokio::time::timeout(patience, step).await else { return Ok(json!(null)) };
        let answer = answer?;
        let told = json!([answer.receipt.outcome, answer.receipt.code()]);
        self.told.lock().push(answer.content);
        Ok(told)
    }
}

#[boxed_async]
impl ToolSet for Scripts {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn may_wait_for(&self, tool: &str) -> bool {
        self.approved.contains(&tool)
    }

    fn approval(&self, call: &ToolCall, caller: &Principal) -> Option<WaitTerms> {
        let approving = EchoTools::new(self.approved);
        self.approved
            .iter()
            .fold(approving, |tools, name| tools.approved_by(name, "sha256:1"))
            .approval(call, caller)
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        self.called.lock().push(request.call_id.to_owned());
        assert_eq!(request.principal, &Principal::user("u1"));
        let call = request.call;
        let mut receipt = ToolReceipt::new(&call.name, ToolOutcome::Ok);
        if call.name == "script" {
            let nested = request.nested.expect("it may call tools");
            let told = self.run_script(&call.arguments, nested).await;
            if told.is_err() {
                receipt.outcome = ToolOutcome::Cancelled;
            }
            return ToolReturn { content: told.unwrap_or_default(), receipt };
        }
        assert!(request.nested.is_none(), "calls never nest deeper than one");
        let _under_way = self.others.enter();
        if call.arguments["hang"] == json!(true) {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        receipt.detail_mut().per_user = call.name == "mine";
        let length = call.arguments["bytes"].as_u64().unwrap_or_default();
        let content = format!("{} says hi{}", call.name, "!".repeat(usize::try_from(length).unwrap()));
        ToolReturn { content, receipt }
    }
}

pub(super) fn script(id: &'static str, calls: &[(&str, &str)]) -> (&'static str, &'static str, Value) {
    (id, "script", json!({ "calls": calls }))
}

pub(super) fn at_once(
    id: &'static str,
    call: (&str, &str),
    count: usize,
) -> (&'static str, &'static str, Value) {
    (id, "script", json!({ "calls": vec![call; count], "atOnce": true }))
}

/// The calls that tools made, in the order in which they were answered: index, number, name, outcome and
/// code.
fn nested_returned(journal: &TestJournal) -> Vec<(usize, u32, String, ToolOutcome, Option<String>)> {
    let events = journal.events();
    let returned = events.into_iter().filter_map(|event| match event {
        Event::NestedReturned { index, number, receipt, .. } => {
            let code = receipt.code().map(str::to_owned);
            Some((index, number, receipt.name, receipt.outcome, code))
        }
        _ => None,
    });
    returned.collect()
}

#[tokio::test(start_paused = true)]
async fn a_tool_calls_others_each_with_its_receipt_in_the_journal() {
    let calls = [
        ("look", r#"{"b": 1, "a": 2}"#),
        ("pay", ""),
        ("nope", "{}"),
        ("look", "[1]"),
        ("script", r#"{"calls": []}"#),
    ];
    let model = ScriptedModel::new([Ok(asks_for(&[script("a", &calls)])), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();

    // Ids of nested calls are made of the outer call's.
    assert_eq!(tools.called(), ["run_1.1.0", "run_1.1.0.0", "run_1.1.0.1"]);
    let (ok, unknown) = (ToolOutcome::Ok, ToolOutcome::UnknownTool);
    let expected = [
        (0, 0, "look".to_owned(), ok, None),
        (0, 1, "pay".to_owned(), ok, None),
        (0, 2, "nope".to_owned(), unknown, None),
        (0, 3, "look".to_owned(), ToolOutcome::InvalidArguments, None),
        (0, 4, "script".to_owned(), ToolOutcome::NotRun, Some("denied".to_owned())),
    ];
    assert_eq!(nested_returned(&journal), expected);
    let before = ["started", "model_replied", "tools_started", "nested_returned", "nested_started"];
    let after = ["nested_returned"; 4];
    let whole = before.into_iter().chain(after).chain(["tool_returned 0", "model_replied"]);
    assert_eq!(names(&journal.events()), whole.collect::<Vec<_>>());
    assert_eq!(tools.told()[0], "look says hi");
    assert!(tools.told()[2].contains("The tools are: look, mine, pay, script."), "{:?}", tools.told());

    // What went wrong can be read in the journal, and which arguments it was about.
    let events = journal.events();
    let Event::NestedReturned { receipt, error, .. } = &events[3] else { panic!("{events:?}") };
    let arguments = serde_json::json!({ "a": 2, "b": 1 });
    let digest = ToolCall { id: String::new(), name: String::new(), arguments }.arguments_digest();
    assert_eq!((receipt.detail.as_ref().unwrap().arguments.as_ref(), error), (Some(&digest), &None));
    let Event::NestedReturned { error: Some(error), .. } = &events[7] else { panic!("{events:?}") };
    assert!(error.contains("not a JSON object"), "{error}");
    // The result has one receipt, which says how many there are besides.
    assert_eq!((result.tool_calls.len(), result.tool_calls[0].nested), (1, 5));
    assert!(!result.tool_calls[0].is_per_user());
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_one_users_when_that_of_a_nested_call_is() {
    let calls =
        [script("a", &[("look", "{}"), ("mine", "{}"), ("look", "{}")]), script("b", &[("look", "{}")])];
    let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    let per_user: Vec<_> = result.tool_calls.iter().map(ToolReceipt::is_per_user).collect();
    assert_eq!(per_user, [true, false]);
    assert_eq!(journal.events().len(), 3 + 3 + 1 + 1 + 1 + 1 + 1);
}

#[tokio::test(start_paused = true)]
async fn names_are_those_of_tools_that_call_none() {
    struct Names(Scripts);
    #[boxed_async]
    impl ToolSet for Names {
        fn catalog(&self) -> &Arc<Catalog> {
            self.0.catalog()
        }
        fn approval(&self, _call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
            None
        }

        async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
            let names = request.nested.map(NestedTools::names);
            ToolReturn { content: format!("{names:?}"), receipt: ToolReceipt::new("script", ToolOutcome::Ok) }
        }
    }
    let calls = [("a", "script", json!({})), ("b", "look", json!({}))];
    let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))]);
    let (tools, journal) = (Names(Scripts::new()), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    let text = format!("{:?}", result.messages);
    assert!(text.contains(r#"Some([\"look\", \"mine\", \"pay\"])"#), "{text}");
    assert!(text.contains(r#"content: "None""#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_makes_64_others_and_a_run_256_also_after_it_was_taken_up() {
    let look = ("look", "{}");
    let first = [at_once("a", look, 70), at_once("b", ("nope", "{}"), 64), at_once("c", look, 64)];
    let second = [at_once("d", look, 60), script("e", &[look, look, look, look, look])];
    let script = || {
        [
            Ok(asks_for(&first)),
            Ok(asks_for(&second)),
            Ok(asks_for(&[at_once("f", look, 9)])),
            Ok(says("done")),
        ]
    };
    let (model, tools, journal) =
        (ScriptedModel::new(script()), Scripts::of(&["look"]), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    let made: Vec<_> = result.tool_calls.iter().map(|receipt| receipt.nested).collect();
    assert_eq!(made, [64, 64, 64, 60, 4, 0]);
    assert_eq!(nested_returned(&journal).len(), 256);
    let refused =
        tools.told().iter().filter(|told| told.contains("too many calls of tools by tools")).count();
    assert_eq!(refused, 6 + 1 + 9, "and not a line in the journal about them");

    // Taken up after any of the replies, it may make as many as were left.
    let events = journal.events();
    let is_reply = |place: &usize| matches!(events[*place], Event::ModelReplied { .. });
    for (reply, place) in (1..=3).zip((0..events.len()).filter(is_reply)) {
        let kept = events[..=place].to_vec();
        let (model, tools) = (ScriptedModel::new(script().into_iter().skip(reply)), Scripts::of(&["look"]));
        let journal = journal_of(&kept).await;
        let resumed = driver(&model, &tools, &journal).resume(kept).await.unwrap();
        assert_eq!(nested_returned(&journal).len(), 256, "taken up after reply {reply}");
        assert_eq!(resumed.tool_calls.iter().map(|receipt| receipt.nested).sum::<u32>(), 256);
    }
}

/// A tool that waits for others holds none of their permits.
#[tokio::test(start_paused = true)]
async fn thirty_two_scripts_of_one_reply_do_not_wait_for_themselves() {
    let scripts: Vec<_> = (0..32).map(|_| at_once("s", ("look", "{}"), 8)).collect();
    let model = ScriptedModel::new([Ok(asks_for(&scripts)), Ok(says("done"))]);
    let (tools, journal) = (Scripts::of(&["look"]), TestJournal::default());
    let run = driver(&model, &tools, &journal);
    let result = tokio::time::timeout(Duration::from_secs(10), run.start(task())).await.unwrap().unwrap();
    assert_eq!(result.tool_calls.iter().map(|receipt| receipt.nested).sum::<u32>(), 256);
    assert!(result.tool_calls.iter().all(|receipt| receipt.outcome == ToolOutcome::Ok));
    let most = |gauge: &Gauge| gauge.most.load(Ordering::SeqCst);
    assert_eq!((most(&tools.scripts), most(&tools.others)), (16, 16));
}

/// What a script does is what its calls do, whatever it says of itself.
#[tokio::test(start_paused = true)]
async fn scripts_that_may_have_effects_run_one_after_another() {
    let scripts: Vec<_> = (0..4).map(|_| at_once("s", ("look", "{}"), 8)).collect();
    let model = ScriptedModel::new([Ok(asks_for(&scripts)), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    driver(&model, &tools, &journal).start(task()).await.unwrap();
    let most = |gauge: &Gauge| gauge.most.load(Ordering::SeqCst);
    assert_eq!((most(&tools.scripts), most(&tools.others)), (1, 8));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_cancelled_drops_what_its_tools_call() {
    let calls = [script("a", &[("look", "{}"), ("pay", r#"{"hang": true}"#)])];
    let model = ScriptedModel::new([Ok(asks_for(&calls))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let result = cancelled(&model, &tools, &journal).await;
    assert_eq!((result.stop_reason, tools.called().len()), (StopReason::Cancelled, 3));
    assert_eq!((tools.scripts.now.load(Ordering::SeqCst), tools.others.now.load(Ordering::SeqCst)), (0, 0));
    assert_eq!(
        names(&journal.events()),
        ["started", "model_replied", "tools_started", "nested_returned", "nested_started", "cancelled"]
    );
    let receipt = &result.tool_calls[0];
    assert_eq!((receipt.outcome, receipt.nested), (ToolOutcome::Interrupted, 2), "it may have paid");
    assert_eq!(driver(&model, &tools, &journal).resume(journal.events()).await.unwrap(), result);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_was_killed_is_not_run_again_whatever_it_says_of_itself() {
    let calls = [script("a", &[("look", "{}"), ("pay", r#"{"hang": true}"#)])];
    let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("so"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let killed = driver(&model, &tools, &journal);
    assert!(tokio::time::timeout(Duration::from_secs(1), killed.start(task())).await.is_err());
    let started = Event::NestedStarted { index: 0, number: 1, name: "pay".into() };
    assert_eq!(journal.events().last(), Some(&started), "an operator sees what may have happened");

    let tools = Scripts::new();
    let result = driver(&model, &tools, &journal).resume(journal.events()).await.unwrap();
    assert_eq!(tools.called(), Vec::<String>::new());
    let receipt = &result.tool_calls[0];
    assert_eq!((receipt.outcome, receipt.nested), (ToolOutcome::Interrupted, 2));
    assert!(receipt.is_per_user(), "what it reached is not known");
}

/// Failing at any event, the run ends and nobody was told what is not in the journal.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_journaled_is_neither_made_nor_told() {
    let calls = [script("a", &[("look", "{}"), ("pay", "{}")])];
    // 0 started, 1 replied, 2 tools_started, 3 look returned, 4 pay started, 5 pay returned, 6 script
    // returned
    for (fail_at, called, told) in [(2, 0, 0), (3, 2, 0), (4, 2, 1), (5, 3, 1), (6, 3, 2)] {
        let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("so"))]);
        let (tools, journal) = (Scripts::new(), TestJournal::failing_at(fail_at));
        let error = driver(&model, &tools, &journal).start(task()).await.unwrap_err();
        assert!(matches!(error, RunError::Journal(_)), "{error:?}");
        assert_eq!((tools.called().len(), tools.told().len()), (called, told), "failing at {fail_at}");
        assert_eq!(tools.scripts.now.load(Ordering::SeqCst), 0, "what was under way is dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_nested_call_that_its_tool_leaves_is_dropped_and_the_run_goes_on() {
    let hang = r#"{"hang": true}"#;
    let arguments = json!({ "calls": [["pay", hang], ["look", "{}"]], "patienceMs": 50 });
    let model = ScriptedModel::new([Ok(asks_for(&[("a", "script", arguments)])), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let result = driver(&model, &tools, &journal).start(task()).await.unwrap();
    assert_eq!(result.stop_reason, StopReason::Completed);
    assert_eq!(
        names(&journal.events())[3..],
        ["nested_started", "nested_returned", "tool_returned 0", "model_replied"]
    );
    assert_eq!((result.tool_calls[0].nested, tools.others.now.load(Ordering::SeqCst)), (2, 0));
    // Numbers have no gaps to whoever folds the journal: the one that was left counts.
    let (run, _) = Run::resume(journal.events(), tools.catalog().clone()).unwrap();
    assert_eq!(run.nested_calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn names_arguments_and_errors_in_the_journal_are_bounded() {
    let (name, long) = ("x".repeat(10_000), format!("{{\"a\": \"{}\"}}", "x".repeat(300_000)));
    let calls = [script("a", &[(&name, "{}"), ("look", &long)])];
    let model = ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))]);
    let (tools, journal) = (Scripts::new(), TestJournal::default());
    let limits = RunLimits { tokens: 1_000_000, ..RunLimits::default() };
    driver(&model, &tools, &journal).start(Task { limits, ..task() }).await.unwrap();
    let expected = [
        (0, 0, "x".repeat(100), ToolOutcome::UnknownTool, None),
        (0, 1, "look".to_owned(), ToolOutcome::InvalidArguments, None),
    ];
    assert_eq!(nested_returned(&journal), expected);
    let sizes = journal.events().into_iter().filter(|event| matches!(event, Event::NestedReturned { .. }));
    assert!(
        sizes.map(|event| agent_core::journal_format::encode(&event).unwrap().len()).all(|size| size < 1_000)
    );
}
