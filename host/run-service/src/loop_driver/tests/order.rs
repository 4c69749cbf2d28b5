//! Which calls of one reply are made side by side, and which one after another.

use agent_core::words::{ToolReceipt, ToolSpec};

use super::*;

/// `look` is read-only; `put` and `pay` destroy something, and `put` may be called again all the same. They
/// take as many milliseconds as their argument `ms` says.
struct Logged {
    catalog: Arc<Catalog>,
    log: Mutex<Vec<String>>,
}

impl Logged {
    fn new() -> Self {
        let tool = |name: &str, is_repeatable, is_destructive| ToolSpec {
            name: name.into(),
            is_repeatable,
            is_destructive,
            ..ToolSpec::default()
        };
        let tools = vec![tool("look", true, false), tool("put", true, true), tool("pay", false, true)];
        Self { catalog: Arc::new(Catalog::new(tools, "sha256:test".into())), log: Mutex::default() }
    }

    /// Beginnings and ends of the calls whose names match.
    fn log(&self, wanted: impl Fn(&str) -> bool) -> Vec<String> {
        self.log.lock().iter().filter(|line| wanted(line)).cloned().collect()
    }

    fn note(&self, sign: char, request: &ToolRequest<'_>) {
        self.log.lock().push(format!("{sign}{}{}", request.call.name, request.call.id));
    }
}

#[boxed_async]
impl ToolSet for Logged {
    fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    fn approval(&self, _call: &ToolCall, _caller: &Principal) -> Option<WaitTerms> {
        None
    }

    async fn call(&self, request: ToolRequest<'_>) -> ToolReturn {
        self.note('+', &request);
        let ms = request.call.arguments["ms"].as_u64().unwrap();
        tokio::time::sleep(Duration::from_millis(ms)).await;
        self.note('-', &request);
        ToolReturn { content: "{}".into(), receipt: ToolReceipt::new(&request.call.name, ToolOutcome::Ok) }
    }
}

fn model() -> ScriptedModel {
    let call = |id, name, ms: u64| (id, name, json!({ "ms": ms }));
    let calls = [
        call("0", "pay", 30),
        call("1", "look", 50),
        call("2", "put", 10),
        call("3", "look", 5),
        call("4", "pay", 1),
        ("5", "nope", json!({})),
    ];
    ScriptedModel::new([Ok(asks_for(&calls)), Ok(says("done"))])
}

#[tokio::test(start_paused = true)]
async fn calls_that_may_destroy_something_are_made_in_the_order_of_the_reply_beside_the_others() {
    let (model, tools, journal) = (model(), Logged::new(), TestJournal::default());
    let begun = tokio::time::Instant::now();
    driver(&model, &tools, &journal).start(task()).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_millis(50));
    assert_eq!(
        tools.log(|line| !line.contains("look")),
        ["+pay0", "-pay0", "+put2", "-put2", "+pay4", "-pay4"]
    );
    let looks_and_first = tools.log(|line| line.contains("look") || line == "-pay0");
    assert_eq!(looks_and_first, ["+look1", "+look3", "-look3", "-pay0", "-look1"]);
    // Each beginning is journaled when it is about to happen, so that what was never begun can still be made.
    assert_eq!(
        names(&journal.events()),
        [
            "started",
            "model_replied",
            "tool_returned 5",
            "tools_started",
            "tool_returned 3",
            "tool_returned 0",
            "tool_returned 2",
            "tools_started",
            "tool_returned 4",
            "tool_returned 1",
            "model_replied"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn calls_that_waited_for_one_that_was_interrupted_are_made_when_the_run_is_taken_up() {
    let (killed, tools, journal) = (model(), Logged::new(), TestJournal::default());
    let first = driver(&killed, &tools, &journal);
    let work = tokio::time::timeout(Duration::from_millis(20), first.start(task()));
    assert!(work.await.is_err(), "its worker is killed during the first call");

    let (model, tools) = (ScriptedModel::new([Ok(says("done"))]), Logged::new());
    let resumed = driver(&model, &tools, &journal);
    let result = resumed.resume(journal.events()).await.unwrap();
    let outcomes: Vec<_> = result.tool_calls.iter().map(|receipt| receipt.outcome).collect();
    let ok = ToolOutcome::Ok;
    assert_eq!(outcomes, [ToolOutcome::Interrupted, ok, ok, ok, ok, ToolOutcome::UnknownTool]);
    assert_eq!(
        tools.log(|line| line.starts_with('+')),
        ["+look1", "+put2", "+pay4"],
        "those that were answered or may have had an effect are not made again"
    );
}
