//! Swaps the component with the tools for another build of it (`--swaps`), as an operator does who promotes
//! versions: at every model call of a job, so that its run and whoever takes that up find another version
//! serving at each step than the one that the run began with.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;

use acceptance::{Caller, Component, Token, User};
use agent_core::words::Event;
use reqwest::Method;
use run_service::invariants::{self, Broken};
use serde_json::json;

use super::scene::Scene;

/// Swaps whenever the model is asked for that job, at once if it was asked before.
pub(super) async fn swap_on(scene: &Scene, caller: &Caller, job: usize) -> Infallible {
    let operator = caller.user(Token::of("boss").admin().premium());
    let mut asked = 0;
    loop {
        asked = scene.asked_more_than(asked, job).await;
        // One of two in a row does not serve.
        for build in scene.builds.iter().cycle().skip(asked).take(2) {
            if Box::pin(has_serve(&operator, build)).await {
                scene.swaps.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    }
}

/// Whether that build serves now and did not before. The process that is asked may die.
async fn has_serve(operator: &User, build: &Component) -> bool {
    let path = format!("/admin/tools/{}", build.name);
    let promote = operator.request(Method::POST, &format!("{path}/promote"));
    let promote = promote.header("content-type", "application/json");
    match operator.try_send(promote.body(json!({ "digest": build.digest() }).to_string())).await {
        // Nobody has proposed it on these stores yet.
        Ok(answer) if answer.status == 404 => {
            let upload = operator.request(Method::PUT, &path).body(build.bytes.clone());
            operator.try_send(upload).await.is_ok_and(|answer| answer.status == 201)
        }
        answer => answer.is_ok_and(|answer| answer.status == 200),
    }
}

/// Judges whether each call of a run was made of the version of its component that the run began with, by its
/// journal: whoever takes a run up has the versions that stand there, and these stores keep them all. Of what
/// does not stand there the first call counts.
pub(super) fn of_one_version(journal: &[Event]) -> Result<(), Broken> {
    let Some(Event::Started { task, .. }) = journal.first() else { return Ok(()) };
    let receipts = journal.iter().filter_map(|event| match event {
        Event::ToolReturned { answer, .. } => Some(&answer.receipt),
        Event::NestedReturned { receipt, .. } => Some(receipt),
        _ => None,
    });
    let mut began_with =
        task.versions.iter().map(|(name, digest)| (&**name, &**digest)).collect::<HashMap<_, _>>();
    for receipt in receipts {
        if let Some((component, digest)) = receipt.component.as_deref().and_then(|id| id.split_once('@')) {
            let before = *began_with.entry(component).or_insert(digest);
            invariants::pinned(&receipt.name, Some(before), digest)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use agent_core::testing::task;
    use agent_core::words::{Task, ToolOutcome, ToolReceipt, ToolReturn};

    use super::*;

    #[test]
    fn a_call_of_another_version_than_its_run_began_with_is_found() {
        let versions = [("acts".to_owned(), "sha256:1".to_owned())].into();
        let started = Event::Started { task: Task { versions, ..task("hi") }, tools: String::new() };
        let receipt = |component: Option<&str>| {
            let component = component.map(str::to_owned);
            ToolReceipt { component, ..ToolReceipt::new("act", ToolOutcome::Ok) }
        };
        let returned = |receipt: ToolReceipt| Event::ToolReturned {
            index: 0,
            answer: ToolReturn { content: String::new(), receipt },
        };
        let nested = |receipt: ToolReceipt| Event::NestedReturned {
            index: 0,
            number: 0,
            receipt,
            error: None,
            recorded: None,
        };
        for (component, is_sound) in [
            (Some("acts@sha256:1"), true),
            (Some("acts@sha256:2"), false),
            (Some("hosts-own@sha256:2"), true),
            (None, true),
        ] {
            for event in [returned(receipt(component)), nested(receipt(component))] {
                let judged = of_one_version(&[started.clone(), event.clone()]);
                let rule = judged.as_ref().err().map(|broken| broken.rule);
                assert_eq!(rule, (!is_sound).then_some(invariants::PINNED), "{event:?}");
            }
        }
        let started = Event::Started { task: task("hi"), tools: String::new() };
        let call = |digest: &str| returned(receipt(Some(&format!("acts@sha256:{digest}"))));
        assert!(of_one_version(&[started.clone(), call("1"), call("1")]).is_ok());
        assert!(of_one_version(&[started, call("1"), call("2")]).is_err(), "the first call counts");
    }
}
