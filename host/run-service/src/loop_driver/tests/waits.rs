//! Runs that wait for somebody: let go of, taken up again, and never made to do what nobody approved.

use agent_core::words::{Decision, Verdict, Wait};

use super::*;

/// A model that asks for a payment and a look, and then ends.
fn model() -> ScriptedModel {
    let asked = asks_for(&[("1", "pay", json!({ "euros": 5 })), ("2", "look", json!({}))]);
    ScriptedModel::new([Ok(asked), Ok(says("done"))])
}

fn tools(policy: &str) -> EchoTools {
    EchoTools::new(&["look", "pay"]).approved_by("pay", policy)
}

/// Goes on with what the journal says.
async fn resumed(
    model: &ScriptedModel,
    tools: &EchoTools,
    journal: &TestJournal,
) -> Result<AgentResult, RunError> {
    driver(model, tools, journal).resume(journal.events()).await
}

/// What the run waits for by its journal's last word about it.
pub(super) fn waits(journal: &TestJournal) -> Vec<Wait> {
    let events = journal.events();
    let waiting = events.into_iter().rev().find_map(|event| match event {
        Event::Waiting { waits, .. } => Some(waits),
        _ => None,
    });
    waiting.unwrap_or_default()
}

pub(super) async fn decide(journal: &TestJournal, wait: &Wait, verdict: Verdict) {
    let (by, shown) = (Some("ada".into()), wait.shown.digest());
    let decision = Decision { by, at: 1, shown, verdict, nonce: String::new() };
    let event = Event::Decided { wait: wait.id.clone(), decision };
    let next = journal.events().len() as u64;
    journal.append("run_1", Epoch(1), next, &[event]).await.unwrap();
}

fn paid(result: &AgentResult) -> (ToolOutcome, String) {
    let said = result.messages.iter().find_map(|message| match message {
        agent_core::words::Message::Tool { name, content, .. } if name == "pay" => Some(content.clone()),
        _ => None,
    });
    (result.tool_calls[0].outcome, said.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_run_is_let_go_of_until_somebody_approves_and_then_does_what_they_were_shown() {
    let (model, tools, journal) = (model(), tools("sha256:1"), TestJournal::default());
    let ended = driver(&model, &tools, &journal).start(task()).await;
    let Err(RunError::Parked { until, .. }) = ended else { panic!("{ended:?}") };
    let [wait] = <[Wait; 1]>::try_from(waits(&journal)).unwrap();
    assert_eq!((wait.id.as_str(), until), ("7:37ddff8e-1.0", wait.expires_at));
    assert_eq!(wait.expires_at - wait.began_at, 60_000);
    assert_eq!((&wait.shown.arguments, wait.shown.policy.as_str()), (&json!({ "euros": 5 }), "sha256:1"));
    // What needs no approval was not held up.
    assert_eq!(names(&journal.events()), ["started", "model_replied", "waiting", "tool_returned 1"]);

    // Taken up too early: nothing happens, and nothing is counted.
    let early = resumed(&model, &tools, &journal).await;
    assert!(matches!(early, Err(RunError::Parked { .. })), "{early:?}");
    assert_eq!(journal.events().len(), 4);

    decide(&journal, &wait, Verdict::Approve).await;
    let result = resumed(&model, &tools, &journal).await.unwrap();
    assert_eq!(paid(&result), (ToolOutcome::Ok, json!({ "euros": 5 }).to_string()));
    assert_eq!((result.output.as_str(), result.iterations), ("done", 2));
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_void_when_the_call_would_be_shown_differently_by_now() {
    let (model, journal) = (model(), TestJournal::default());
    driver(&model, &tools("sha256:1"), &journal).start(task()).await.unwrap_err();
    decide(&journal, &waits(&journal)[0], Verdict::Approve).await;
    let changed = tools("sha256:2");
    let ended = resumed(&model, &changed, &journal).await;
    assert!(matches!(ended, Err(RunError::Parked { .. })), "{ended:?}");
    let [anew] = <[Wait; 1]>::try_from(waits(&journal)).unwrap();
    assert_eq!((anew.id.as_str(), anew.shown.policy.as_str()), ("7:37ddff8e-1.0~1", "sha256:2"));
    decide(&journal, &anew, Verdict::Approve).await;
    assert_eq!(paid(&resumed(&model, &changed, &journal).await.unwrap()).0, ToolOutcome::Ok);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_wait_has_the_call_refused_by_name() {
    let (model, tools, journal) = (model(), tools("sha256:1"), TestJournal::default());
    let driver = Driver { claim: None, ..driver(&model, &tools, &journal) };
    let (outcome, said) = paid(&driver.start(task()).await.unwrap());
    assert_eq!(outcome, ToolOutcome::NotRun);
    assert!(said.contains("somebody has to approve this call"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_can_be_cancelled() {
    let (model, tools, journal) = (model(), tools("sha256:1"), TestJournal::default());
    driver(&model, &tools, &journal).start(task()).await.unwrap_err();
    let cancel = CancellationToken::new();
    cancel.cancel();
    let control = control(&cancel);
    let driver = Driver { control: &control, ..driver(&model, &tools, &journal) };
    let result = driver.resume(journal.events()).await.unwrap();
    assert_eq!(result.stop_reason, agent_core::words::StopReason::Cancelled);
}
