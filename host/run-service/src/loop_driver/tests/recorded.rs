//! Scripts that come to something that waits: they end there, and are made again with the answers that they
//! had.

use agent_core::words::{EnclosingCall, Verdict, Wait, WaitKind};

use super::nested::{Scripts, script};
use super::waits::{decide, waits};
use super::*;

/// A look, a payment that somebody has to approve, and another look.
const PAYS: [(&str, &str); 3] = [("look", "{}"), ("pay", r#"{"euros": 5}"#), ("look", r#"{"n": 2}"#)];

fn model(calls: &[(&str, &str)]) -> ScriptedModel {
    ScriptedModel::new([Ok(asks_for(&[script("a", calls)])), Ok(says("done"))])
}

/// A model that has asked for the script already.
fn ending() -> ScriptedModel {
    ScriptedModel::new([Ok(says("done"))])
}

/// The journal of a run whose script waits.
async fn parked(calls: &[(&str, &str)]) -> (TestJournal, Scripts) {
    let (tools, journal) = (Scripts::approving(), TestJournal::default());
    let ended = driver(&model(calls), &tools, &journal).start(task()).await;
    assert!(matches!(ended, Err(RunError::Parked { .. })), "{ended:?}");
    (journal, tools)
}

async fn resumed(tools: &Scripts, journal: &TestJournal) -> Result<AgentResult, RunError> {
    driver(&ending(), tools, journal).resume(journal.events()).await
}

fn only(journal: &TestJournal) -> Wait {
    let [wait] = <[Wait; 1]>::try_from(waits(journal)).unwrap();
    wait
}

/// What the model was told of the script.
fn said(result: &AgentResult) -> String {
    let said = result.messages.iter().find_map(|message| match message {
        agent_core::words::Message::Tool { content, .. } => Some(content.clone()),
        _ => None,
    });
    said.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_script_waits_for_an_approval_and_goes_on_with_the_answers_that_it_had() {
    let (journal, tools) = parked(&PAYS).await;
    let before = ["started", "model_replied", "recording_started", "nested_returned", "waiting"];
    assert_eq!(names(&journal.events()), before);
    assert_eq!(tools.called(), ["run_1.1.0", "run_1.1.0.0"]);
    let wait = only(&journal);
    assert_eq!((wait.id.as_str(), wait.kind, wait.index), ("7:37ddff8e-1.0.1", WaitKind::Approval, 0));
    assert_eq!(wait.within, Some(EnclosingCall { tool: "script".into(), number: 1 }));
    assert_eq!((wait.shown.tool.as_str(), &wait.shown.arguments), ("pay", &json!({ "euros": 5 })));
    // Taken up too early, it is let go of without being made.
    let early = Scripts::approving();
    assert!(matches!(resumed(&early, &journal).await, Err(RunError::Parked { .. })));
    assert_eq!((early.called(), journal.events().len()), (Vec::new(), before.len()));

    decide(&journal, &wait, Verdict::Approve).await;
    let tools = Scripts::approving();
    let result = resumed(&tools, &journal).await.unwrap();
    assert_eq!(
        tools.called(),
        ["run_1.1.0", "run_1.1.0.1", "run_1.1.0.2"],
        "the first look is not made again"
    );
    assert_eq!(tools.told(), ["look says hi", "pay says hi", "look says hi"]);
    assert_eq!((result.tool_calls[0].nested, result.output.as_str()), (3, "done"));
    let after =
        ["decided", "taken_up", "nested_started", "nested_returned", "nested_returned", "tool_returned 0"];
    assert_eq!(names(&journal.events())[before.len()..][..after.len()], after);
    let (run, _) = Run::resume(journal.events(), tools.catalog().clone()).unwrap();
    assert_eq!(run.nested_calls(), 3, "none is counted twice");
}

#[tokio::test(start_paused = true)]
async fn a_script_is_told_of_a_rejection_and_an_edited_call_is_the_one_that_it_asked_for() {
    let (journal, _) = parked(&PAYS).await;
    decide(&journal, &only(&journal), Verdict::Reject { reason: Some("too dear".into()) }).await;
    let tools = Scripts::approving();
    let result = resumed(&tools, &journal).await.unwrap();
    assert_eq!(said(&result), r#"[["ok",null],["not_run","rejected"],["ok",null]]"#);
    assert!(tools.told()[1].ends_with("rejected it: too dear."), "{:?}", tools.told());
    assert!(!tools.called().contains(&"run_1.1.0.1".to_owned()));

    let (journal, _) = parked(&[PAYS[1], PAYS[1]]).await;
    decide(&journal, &only(&journal), Verdict::Edit { arguments: json!({ "euros": 1 }) }).await;
    let again = resumed(&Scripts::approving(), &journal).await;
    assert!(matches!(again, Err(RunError::Parked { .. })), "the second one waits as well: {again:?}");
    assert_eq!(only(&journal).id, "7:37ddff8e-1.0.1");
    decide(&journal, &only(&journal), Verdict::Approve).await;
    let tools = Scripts::approving();
    let result = resumed(&tools, &journal).await.unwrap();
    assert_eq!(said(&result), r#"[["ok",null],["ok",null]]"#);
    assert_eq!(tools.called(), ["run_1.1.0", "run_1.1.0.1"], "each is made once");
}

/// Whoever is killed behind any event loses nothing and pays at most once.
#[tokio::test(start_paused = true)]
async fn a_kill_behind_any_event_repeats_no_payment_and_no_answer() {
    let (journal, _) = parked(&PAYS).await;
    decide(&journal, &only(&journal), Verdict::Approve).await;
    resumed(&Scripts::approving(), &journal).await.unwrap();
    let whole = journal.events();
    let place = |name: &str| names(&whole).iter().position(|event| event == name).unwrap();
    let (decided, begun) = (place("decided"), place("nested_started"));
    for kept in 2..whole.len() {
        let journal = journal_of(&whole[..kept]).await;
        let tools = Scripts::approving();
        let ended = resumed(&tools, &journal).await;
        let paid = tools.called().iter().filter(|id| *id == "run_1.1.0.1").count();
        let looked = tools.called().iter().filter(|id| *id == "run_1.1.0.0").count();
        if kept <= decided {
            assert!(matches!(ended, Err(RunError::Parked { .. })), "{kept}: {ended:?}");
            assert_eq!((paid, only(&journal).id.as_str()), (0, "7:37ddff8e-1.0.1"), "{kept}");
        } else {
            assert_eq!(ended.unwrap().output, "done", "{kept}");
            assert_eq!(paid, usize::from(kept <= begun), "{kept}");
        }
        assert_eq!(looked, usize::from(kept < 4), "{kept}: its answer is in the journal by then");
        if kept == begun + 1 {
            assert!(tools.told()[1].contains("not known whether it had an effect"), "{:?}", tools.told());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_that_asks_for_something_else_when_it_is_made_again_is_stopped() {
    for (instead, is) in
        [(("look", r#"{"n": 7}"#), r#"`look` with {"n":7}"#), (("mine", "{}"), "`mine` with {}")]
    {
        let (journal, _) = parked(&PAYS).await;
        decide(&journal, &only(&journal), Verdict::Approve).await;
        let tools = Scripts::approving().beginning_with(instead);
        let result = resumed(&tools, &journal).await.unwrap();
        assert_eq!(tools.called(), ["run_1.1.0"], "nothing was called");
        let receipt = &result.tool_calls[0];
        assert_eq!((receipt.outcome, receipt.code()), (ToolOutcome::Failed, Some("replay-differs")));
        let expected = format!(
            "its nested call 0 was another one than before: expected `look` with {{}}, asked for {is}."
        );
        assert!(said(&result).contains(&expected), "{}", said(&result));
    }
}

#[tokio::test(start_paused = true)]
async fn a_script_that_asks_for_less_when_it_is_made_again_is_stopped() {
    for (made, number, was) in [(0, 0, "`look` with {}"), (1, 1, r#"`pay` with {"euros":5}"#)] {
        let (journal, _) = parked(&PAYS).await;
        decide(&journal, &only(&journal), Verdict::Approve).await;
        let tools = Scripts::approving().making(made);
        let result = resumed(&tools, &journal).await.unwrap();
        assert_eq!(tools.called(), ["run_1.1.0"], "nothing was called");
        assert_eq!(result.tool_calls[0].code(), Some("replay-differs"));
        let expected = format!("its nested call {number} was not asked for: expected {was}.");
        assert!(said(&result).contains(&expected), "{}", said(&result));
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_of_another_version_is_asked_anew() {
    let (journal, _) = parked(&[("?", "Which?")]).await;
    decide(&journal, &only(&journal), Verdict::Answer { answer: "blue".into() }).await;
    let later = || Scripts::approving().of_version("c@sha256:2");
    assert!(matches!(resumed(&later(), &journal).await, Err(RunError::Parked { .. })));
    let wait = only(&journal);
    assert_eq!((wait.id.as_str(), wait.shown.component.as_str()), ("7:37ddff8e-1.0.0~1", "c@sha256:2"));
    decide(&journal, &wait, Verdict::Answer { answer: "red".into() }).await;
    let tools = later();
    resumed(&tools, &journal).await.unwrap();
    assert_eq!(tools.told(), ["\"red\""]);
}

/// The approval of the script itself is one wait, that of what it comes to another.
#[tokio::test(start_paused = true)]
async fn a_script_that_was_approved_waits_in_its_middle_too() {
    let approving = || Scripts::approving().approving_scripts();
    let journal = TestJournal::default();
    driver(&model(&PAYS), &approving(), &journal).start(task()).await.unwrap_err();
    assert_eq!((only(&journal).id.as_str(), only(&journal).within), ("7:37ddff8e-1.0", None));
    decide(&journal, &only(&journal), Verdict::Approve).await;
    resumed(&approving(), &journal).await.unwrap_err();
    assert_eq!(only(&journal).id, "7:37ddff8e-1.0.1");
    decide(&journal, &only(&journal), Verdict::Approve).await;
    let tools = approving();
    assert_eq!(resumed(&tools, &journal).await.unwrap().output, "done");
    assert_eq!(tools.called(), ["run_1.1.0", "run_1.1.0.1", "run_1.1.0.2"]);
}

/// The model put them into an order, because either may destroy something.
#[tokio::test(start_paused = true)]
async fn a_script_behind_one_that_waits_is_not_begun() {
    let scripts = [script("a", &PAYS[1..2]), script("b", &PAYS[..1])];
    let model = ScriptedModel::new([Ok(asks_for(&scripts))]);
    let (tools, journal) = (Scripts::approving(), TestJournal::default());
    driver(&model, &tools, &journal).start(task()).await.unwrap_err();
    assert_eq!(tools.called(), ["run_1.1.0"]);
    decide(&journal, &only(&journal), Verdict::Approve).await;
    let tools = Scripts::approving();
    resumed(&tools, &journal).await.unwrap();
    assert_eq!(tools.called(), ["run_1.1.0", "run_1.1.0.0", "run_1.1.1", "run_1.1.1.0"]);
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_too_much_leave_a_script_that_cannot_wait() {
    let much = r#"{"bytes": 1500000}"#;
    let calls = [("look", much), ("look", much), PAYS[1]];
    let (tools, journal) = (Scripts::approving(), TestJournal::default());
    driver(&model(&calls), &tools, &journal).start(task()).await.unwrap();
    assert!(tools.told()[2].contains("more than the 2097152 bytes that a run keeps"), "{}", tools.told()[2]);
    let events = names(&journal.events());
    let behind =
        ["nested_returned", "tools_started", "nested_returned", "nested_returned", "tool_returned 0"];
    assert_eq!(events[3..8], behind, "from there on it is not made twice");

    let journal = journal_of(&journal.events()[..6]).await;
    let tools = Scripts::approving();
    let result = resumed(&tools, &journal).await.unwrap();
    assert_eq!((result.tool_calls[0].outcome, tools.called()), (ToolOutcome::Interrupted, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn questions_in_the_middle_of_a_call_are_answered_in_order() {
    let (journal, _) = parked(&[("look", "{}"), ("?", "Which?"), ("?", "How many?")]).await;
    let wait = only(&journal);
    assert_eq!((wait.id.as_str(), wait.kind), ("7:37ddff8e-1.0.1", WaitKind::Question));
    assert_eq!(
        (wait.shown.tool.as_str(), &wait.shown.arguments),
        ("script", &json!({ "question": "Which?" }))
    );
    assert_eq!(wait.shown.component, "c@sha256:1");
    decide(&journal, &wait, Verdict::Answer { answer: "blue".into() }).await;
    assert!(matches!(resumed(&Scripts::approving(), &journal).await, Err(RunError::Parked { .. })));
    decide(&journal, &only(&journal), Verdict::Answer { answer: json!(3) }).await;
    let tools = Scripts::approving();
    resumed(&tools, &journal).await.unwrap();
    assert_eq!(tools.told(), ["look says hi", "\"blue\"", "3"]);
    assert_eq!(tools.called(), ["run_1.1.0"]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_wait_has_both_refused_by_name() {
    let (tools, journal) = (Scripts::approving(), TestJournal::default());
    let model = model(&[("pay", "{}"), ("?", "Which?"), ("?", " ")]);
    let driver = Driver { claim: None, ..driver(&model, &tools, &journal) };
    let result = driver.start(task()).await.unwrap();
    assert_eq!(said(&result), r#"[["not_run",null],["not_run","denied"],["invalid_arguments",null]]"#);
    assert!(tools.told()[1].contains("asks somebody in the middle of its call"), "{}", tools.told()[1]);
}
