//! Runs that wait for somebody to approve a call.

use super::*;
use crate::words::{Decision, ShownCall, Verdict, Wait, WaitKind};

/// A wait for the approval of a call.
pub(super) fn wait(open: &OpenCall) -> Wait {
    let shown = testing::shown(open.call.arguments.clone());
    let shown = ShownCall { tool: open.call.name.clone(), ..shown };
    let id = format!("{}~{}", open.id, open.times_shown);
    Wait { index: open.index, ..testing::wait(&id, WaitKind::Approval, shown) }
}

pub(super) fn decided(wait: &Wait, by: &str, verdict: Verdict) -> Event {
    let by = Some(by.to_owned()).filter(|by| !by.is_empty());
    let decision = Decision { by, at: 1, shown: wait.shown.digest(), verdict, nonce: String::new() };
    Event::Decided { wait: wait.id.clone(), decision }
}

/// A decision of that user with one of the verdicts.
pub(super) fn verdict(drawn: usize) -> Verdict {
    match drawn % 3 {
        0 => Verdict::Approve,
        1 => Verdict::Reject { reason: None },
        _ => Verdict::Edit { arguments: json!({ "by": "somebody" }) },
    }
}

/// A run whose model asked for two calls, and the first of them as it is to be called.
fn asking() -> (Run, OpenCall) {
    let (mut run, _) = start(RunLimits::default());
    let step = run.on(replied(asks_for(&[("1", "echo", json!({})), ("2", "add", json!({}))]))).unwrap();
    let Step::CallTools(mut calls) = step else { panic!("{step:?}") };
    (run, calls.remove(0))
}

/// A run that waits for its first call and has an answer to the second, and what it waits for.
fn parked(change: impl Fn(&mut Wait)) -> (Run, Wait) {
    let (mut run, open) = asking();
    let mut wait = wait(&open);
    change(&mut wait);
    let step = run.on(Event::Waiting { waits: vec![wait.clone()], epoch: 1 }).unwrap();
    assert!(matches!(&step, Step::CallTools(calls) if calls[0].index == 1), "the other is made: {step:?}");
    assert_eq!(run.on(returned(1, "add")).unwrap(), Step::Park(vec![wait.clone()]));
    (run, wait)
}

/// The one call that is to be made or refused.
fn only(step: Step) -> OpenCall {
    let Step::CallTools(mut calls) = step else { panic!("nothing is called: {step:?}") };
    assert_eq!(calls.len(), 1);
    calls.remove(0)
}

#[test]
fn a_call_is_made_as_it_was_approved() {
    let (mut run, wait) = parked(|_| {});
    let call = only(run.on(decided(&wait, "ada", Verdict::Approve)).unwrap());
    assert_eq!(call.approved.map(|approved| approved.digest), Some(wait.shown.digest()));
    assert_eq!((call.refusal, call.times_shown), (None, 1));
    assert!(matches!(run.on(returned(0, "echo")).unwrap(), Step::AskModel(_)));
}

#[test]
fn edited_arguments_are_those_that_the_call_is_made_with() {
    let (mut run, wait) = parked(|_| {});
    let arguments = json!({ "less": true });
    let verdict = Verdict::Edit { arguments: arguments.clone() };
    let call = only(run.on(decided(&wait, "ada", verdict)).unwrap());
    let approved = call.approved.unwrap();
    assert_eq!((&call.call.arguments, &approved.asked.arguments), (&arguments, &json!({})));
    assert_eq!(approved.digest, wait.shown.digest());
    run.on(returned(0, "echo")).unwrap();
    // What the model asked for stays its own.
    let Some(Message::Assistant { tool_calls, .. }) = run.messages().get(1) else { panic!() };
    assert_eq!(tool_calls[0].arguments, json!({}));
}

#[test]
fn a_rejection_is_an_answer_to_the_model() {
    for (by, reason, said) in [
        ("ada", Some("too dear"), "somebody who was asked rejected it: too dear"),
        ("ada", None, "somebody who was asked rejected it"),
        ("", None, "nobody approved it in time"),
    ] {
        let (mut run, wait) = parked(|_| {});
        let verdict = Verdict::Reject { reason: reason.map(str::to_owned) };
        let refusal = only(run.on(decided(&wait, by, verdict)).unwrap()).refusal.unwrap();
        assert_eq!(refusal.content, format!("Error: not run, because {said}."));
        assert_eq!(refusal.receipt.outcome, ToolOutcome::NotRun);
    }
}

#[test]
fn as_many_have_to_approve_as_the_wait_says_and_one_rejects_alone() {
    let two = |wait: &mut Wait| wait.deciders.count = 2;
    let (mut run, wait) = parked(two);
    for by in ["ada", "ada"] {
        let step = run.on(decided(&wait, by, Verdict::Approve)).unwrap();
        assert_eq!(step, Step::Park(vec![wait.clone()]), "one person is one person");
    }
    assert!(run.waits().all(|open| open.has_decided("ada") && !open.has_decided("bob")));
    assert!(only(run.on(decided(&wait, "bob", Verdict::Approve)).unwrap()).approved.is_some());

    let (mut run, wait) = parked(two);
    run.on(decided(&wait, "ada", Verdict::Approve)).unwrap();
    let call = only(run.on(decided(&wait, "bob", Verdict::Reject { reason: None })).unwrap());
    assert!(call.refusal.is_some() && call.approved.is_none());

    let (mut run, wait) = parked(two);
    assert!(only(run.on(decided(&wait, "", Verdict::Approve)).unwrap()).approved.is_some(), "it expired");
}

#[test]
fn a_wait_is_decided_once() {
    let (mut run, wait) = parked(|_| {});
    run.on(decided(&wait, "ada", Verdict::Approve)).unwrap();
    assert!(run.on(decided(&wait, "bob", Verdict::Reject { reason: None })).is_err());
    let other = Wait { id: "run_1.9.0".into(), ..wait };
    assert!(run.on(decided(&other, "bob", Verdict::Approve)).is_err());
}

#[test]
fn a_call_that_would_be_another_by_now_is_shown_anew() {
    let (mut run, first) = parked(|_| {});
    let call = only(run.on(decided(&first, "ada", Verdict::Approve)).unwrap());
    let anew = wait(&call);
    assert_ne!(anew.id, first.id);
    assert_eq!(
        run.on(Event::Waiting { waits: vec![anew.clone()], epoch: 1 }).unwrap(),
        Step::Park(vec![anew.clone()])
    );
    assert!(run.on(decided(&first, "ada", Verdict::Approve)).is_err(), "what was decided is void");
    assert_eq!(only(run.on(decided(&anew, "ada", Verdict::Approve)).unwrap()).times_shown, 2);
}

#[test]
fn a_run_that_waits_is_folded_to_the_same_wait_and_can_be_cancelled() {
    let started = Event::Started { task: task(RunLimits::default()), tools: "sha256:test".into() };
    let asked = replied(asks_for(&[("1", "echo", json!({}))]));
    let (run, step) = Run::resume([started.clone(), asked.clone()], catalog()).unwrap();
    let wait = wait(&only(step));
    let journal = vec![started, asked, Event::Waiting { waits: vec![wait.clone()], epoch: 1 }];
    let (_, step) = Run::resume(journal.clone(), catalog()).unwrap();
    assert_eq!(step, Step::Park(vec![wait]));
    let cancelled = [journal.clone(), vec![Event::Cancelled]].concat();
    let (_, step) = Run::resume(cancelled, catalog()).unwrap();
    assert_eq!(done(step).stop_reason, StopReason::Cancelled);
    // Whoever takes it up writes under another epoch, which a decision could not be written behind.
    assert_eq!(Run::waiting(journal.clone()).unwrap().waits_epoch(), Some(1));
    let taken_up = [journal.clone(), vec![Event::TakenUp { by: "host-2".into() }]].concat();
    assert_eq!(Run::waiting(taken_up).unwrap().waits_epoch(), None);
    // Neither says anything about an attempt that came to nothing.
    assert_eq!(attempts_without_progress(&journal), 0);
    assert_eq!(run.waits().count(), 0);
}
