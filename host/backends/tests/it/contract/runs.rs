//! What every store of runs promises: `Journal` and `RunStore`.

mod holes;
mod of_many;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use agent_core::ports::{Epoch, JournalError, RunStore};
use agent_core::testing::{asks_for, says};
use agent_core::words::{
    ClientFunction, Event, FailureKind, Grants, Message, Options, OutputFormat, ParentCall, Principal,
    ReceiptDetail, RecordedAnswer, ReplyRules, RequiredCall, RunLimits, RunOutcome, RunQuery, RunRecord,
    StopReason, Task, ToolCall, ToolOutcome, ToolReceipt, ToolReturn, Usage,
};
use futures::future::join_all;
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::text::{NASTY, long};
pub(crate) use holes::*;
pub(crate) use of_many::*;

/// An empty store.
pub(crate) type Bench = super::Bench<dyn RunStore>;

/// A test of every case. The argument is the path of an `async fn() -> Bench`.
macro_rules! test_all {
    ($test:ident $benches:tt) => {
        crate::contract::$test! { runs, $benches:
            an_unknown_run_has_no_events_and_no_record,
            events_are_read_as_they_were_appended,
            events_hold_any_text,
            runs_do_not_mix,
            an_event_number_is_taken_once,
            of_two_writers_of_one_number_one_wins,
            an_append_may_be_repeated_by_whoever_made_it,
            the_same_event_of_another_claim_is_a_conflict,
            a_writer_that_a_later_claim_replaced_is_refused,
            an_append_of_many_is_kept_whole_or_not_at_all,
            an_append_of_more_than_one_statement_takes_is_kept_whole,
            an_append_that_is_there_in_part_is_not_taken_for_kept,
            an_append_that_is_repeated_late_leaves_nothing_behind_a_later_claim,
            an_append_behind_a_hole_is_a_conflict,
            appends_of_a_run_that_wait_together_are_written_in_order_or_not_at_all,
            a_journal_is_read_from_any_number_on,
            a_reader_beside_an_append_of_another_process_misses_nothing,
            many_appends_at_once_are_all_kept,
            the_end_of_a_run_is_its_last_events_with_its_record_or_neither,
            a_record_is_found_as_it_was_saved,
            a_record_is_written_anew,
            a_heartbeat_that_comes_too_late_is_not_written,
            a_failure_that_comes_behind_a_result_is_not_written,
            records_hold_any_text,
            the_last_run_of_a_job_is_found_by_its_owner_alone,
            records_are_listed_from_the_newest_end_on_page_by_page,
        }
    };
}
pub(crate) use test_all;

pub(crate) async fn an_unknown_run_has_no_events_and_no_record(bench: &Bench) {
    for id in ["run_none", "", "🦀", "\0", "run_none'; --"] {
        assert_eq!(bench.store.read(id, 0).await.unwrap(), vec![], "{id:?}");
        assert_eq!(bench.store.find(id).await.unwrap(), None, "{id:?}");
    }
}

pub(crate) async fn events_are_read_as_they_were_appended(bench: &Bench) {
    let events = history("What is 2 + 3?");
    append_all(&*bench.store, "run_1", &events).await;
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), events);
    assert_eq!(bench.peer.read("run_1", 0).await.unwrap(), events, "in another process");
}

pub(crate) async fn events_hold_any_text(bench: &Bench) {
    for (id, text) in [("run_nasty", NASTY.to_owned()), ("run_long", long())] {
        let events = history(&text);
        append_all(&*bench.store, id, &events).await;
        assert_eq!(bench.store.read(id, 0).await.unwrap(), events, "{id}");
    }
}

pub(crate) async fn runs_do_not_mix(bench: &Bench) {
    let ids = ["run_1", "run_10", "RUN_1", "run_1 ", "run_%", "run_\\0", "run_\0"];
    for id in ids {
        append_all(&*bench.store, id, &history(id)).await;
    }
    for id in ids {
        assert_eq!(bench.store.read(id, 0).await.unwrap(), history(id), "{id:?}");
    }
}

pub(crate) async fn an_event_number_is_taken_once(bench: &Bench) {
    let events = history("first");
    append_all(&*bench.store, "run_1", &events).await;
    for store in [&bench.store, &bench.peer] {
        let other = Event::from(says("second"));
        let error = store.append("run_1", Epoch(1), 1, std::slice::from_ref(&other)).await.unwrap_err();
        assert_eq!(error, JournalError::Conflict { run_id: "run_1".into(), sequence: 1 });
    }
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), events, "it was changed");
}

pub(crate) async fn of_two_writers_of_one_number_one_wins(bench: &Bench) {
    let event = |writer: usize| Event::from(says(&format!("reply {writer}")));
    let events: Vec<_> = (0..20).map(event).collect();
    let appends = events.iter().enumerate().map(|(writer, event)| {
        let store = if writer % 2 == 0 { &bench.store } else { &bench.peer };
        store.append("run_1", Epoch(1), 0, std::slice::from_ref(event))
    });
    let answers = join_all(appends).await;
    let winners: Vec<_> = (0..events.len()).filter(|writer| answers[*writer].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), vec![events[winners[0]].clone()]);
    let conflict = JournalError::Conflict { run_id: "run_1".into(), sequence: 0 };
    assert!(answers.into_iter().filter_map(Result::err).all(|error| error == conflict));
}

/// Whoever did not hear the answer asks again.
pub(crate) async fn an_append_may_be_repeated_by_whoever_made_it(bench: &Bench) {
    let events = history("again");
    append_all(&*bench.store, "run_1", &events).await;
    append_all(&*bench.store, "run_1", &events).await;
    let next = events.len() as u64;
    let both =
        join_all((0..2).map(|_| bench.store.append("run_1", Epoch(1), next, &[Event::Cancelled]))).await;
    assert_eq!(both, [Ok(()), Ok(())]);
    assert_eq!(bench.store.read("run_1", 0).await.unwrap().len(), events.len() + 1);
}

/// Two workers that begin the same run alike would otherwise both go on, and pay the model twice.
pub(crate) async fn the_same_event_of_another_claim_is_a_conflict(bench: &Bench) {
    let events = history("twice");
    bench.store.append("run_1", Epoch(7), 0, &events[..1]).await.unwrap();
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.append("run_1", Epoch(7), 0, &events[..1]).await, Ok(()), "its own");
        let conflict = JournalError::Conflict { run_id: "run_1".into(), sequence: 0 };
        assert_eq!(store.append("run_1", Epoch(8), 0, &events[..1]).await, Err(conflict));
    }
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), events[..1]);
}

pub(crate) async fn a_writer_that_a_later_claim_replaced_is_refused(bench: &Bench) {
    let events = history("zombie");
    bench.store.append("run_1", Epoch(1), 0, &events[..2]).await.unwrap();
    bench.peer.append("run_1", Epoch(2), 2, &events[2..3]).await.unwrap();
    let fenced = JournalError::Fenced { run_id: "run_1".into() };
    for store in [&bench.store, &bench.peer] {
        for first in [2, 3] {
            assert_eq!(
                store.append("run_1", Epoch(1), first, &events[3..]).await,
                Err(fenced.clone()),
                "{first}"
            );
        }
        // What it wrote while the run was its own is there.
        assert_eq!(store.append("run_1", Epoch(1), 1, &events[1..2]).await, Ok(()));
    }
    bench.store.append("run_1", Epoch(2), 3, &events[3..]).await.unwrap();
    assert_eq!(bench.peer.read("run_1", 0).await.unwrap(), events);
}

pub(crate) async fn the_end_of_a_run_is_its_last_events_with_its_record_or_neither(bench: &Bench) {
    let events = history("end");
    let (run, other) = (record("run_1", ended_well()), record("run_2", ended_well()));
    bench.store.append("run_1", Epoch(1), 0, &events[..1]).await.unwrap();
    // Whoever did not hear the answer asks again.
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.append_and_save(Epoch(1), 1, &events[1..3], &run).await, Ok(()));
        assert_eq!(store.read("run_1", 0).await.unwrap(), events[..3]);
        assert_eq!(store.find("run_1").await.unwrap().as_ref(), Some(&run));
    }
    bench.peer.append("run_2", Epoch(2), 0, &events[..1]).await.unwrap();
    let fenced = JournalError::Fenced { run_id: "run_2".into() };
    assert_eq!(bench.store.append_and_save(Epoch(1), 1, &events[1..3], &other).await, Err(fenced));
    let conflict = JournalError::Conflict { run_id: "run_2".into(), sequence: 0 };
    assert_eq!(bench.store.append_and_save(Epoch(3), 0, &events[..1], &other).await, Err(conflict));
    assert_eq!(bench.store.read("run_2", 0).await.unwrap(), events[..1]);
    assert_eq!(bench.peer.find("run_2").await.unwrap(), None);
    assert_eq!(bench.store.append_and_save(Epoch(1), 0, &[], &other).await, Ok(()));
    assert_eq!(bench.peer.find("run_2").await.unwrap(), Some(other));
}

pub(crate) async fn a_journal_is_read_from_any_number_on(bench: &Bench) {
    let events = history("from");
    append_all(&*bench.store, "run_1", &events).await;
    for from in 0..=events.len() {
        assert_eq!(bench.peer.read("run_1", from as u64).await.unwrap(), events[from..], "{from}");
    }
    assert_eq!(bench.peer.read("run_1", u64::MAX).await.unwrap(), []);
    for most in 0..=events.len() {
        let page = bench.peer.read_page("run_1", 1, most as u32).await.unwrap();
        assert_eq!(page, events[1..events.len().min(most + 1)], "{most}");
    }
}

pub(crate) async fn a_reader_beside_an_append_of_another_process_misses_nothing(bench: &Bench) {
    let events = history("beside");
    bench.store.append("run_1", Epoch(1), 0, &events[..1]).await.unwrap();
    assert_eq!(bench.peer.read("run_1", 1).await.unwrap(), [], "nothing yet");
    // Some stores show what is appended at once bit by bit.
    let read = async {
        let mut read = Vec::new();
        while read.len() < events.len() {
            read.extend(bench.peer.read("run_1", read.len() as u64).await.unwrap());
            yield_now().await;
        }
        read
    };
    let read = timeout(Duration::from_secs(20), read);
    let (read, appended) = futures::join!(read, bench.store.append("run_1", Epoch(1), 1, &events[1..]));
    appended.unwrap();
    assert_eq!(read.expect("all of it is read"), events);
}

pub(crate) async fn many_appends_at_once_are_all_kept(bench: &Bench) {
    let runs: Vec<_> = (0..100).map(|run| (format!("run_{run}"), history(&format!("task {run}")))).collect();
    join_all(runs.iter().map(|(id, events)| append_all(&*bench.store, id, events))).await;
    for (id, events) in &runs {
        assert_eq!(&bench.peer.read(id, 0).await.unwrap(), events, "{id}");
    }
}

pub(crate) async fn a_record_is_found_as_it_was_saved(bench: &Bench) {
    let failed = failed("the model refused".into());
    let mut records = vec![RunRecord { user_id: None, job_id: None, ..record("run_1", failed) }];
    records.push(record("run_under_way", RunOutcome::Running));
    for reason in StopReason::ALL {
        records.push(record(&format!("run_{}", reason.as_str()), ended(reason)));
    }
    for record in &records {
        bench.store.save(record).await.unwrap();
    }
    for record in &records {
        assert_eq!(bench.store.find(&record.id).await.unwrap().as_ref(), Some(record));
        assert_eq!(bench.peer.find(&record.id).await.unwrap().as_ref(), Some(record), "in another process");
    }
    assert_eq!(bench.store.read("run_1", 0).await.unwrap(), vec![], "a record is no event");
}

pub(crate) async fn a_record_is_written_anew(bench: &Bench) {
    let first = record("run_1", failed("the provider is down".into()));
    bench.store.save(&first).await.unwrap();
    let ended = ended(StopReason::Completed);
    let second = RunRecord { finished_at: at(9_000), outcome: ended, user_id: None, ..first };
    bench.peer.save(&second).await.unwrap();
    assert_eq!(bench.store.find("run_1").await.unwrap(), Some(second));
}

/// Alone, and together with the others, which a store may commit at once.
pub(crate) async fn a_heartbeat_that_comes_too_late_is_not_written(bench: &Bench) {
    let beat = |id: &str, end| RunRecord { finished_at: at(end), ..record(id, RunOutcome::Running) };
    let last = |id: &str| RunRecord { finished_at: at(2), ..record(id, ended_well()) };
    for (store, saved, kept) in [
        (&bench.store, beat("run_1", 5), beat("run_1", 5)),
        (&bench.peer, beat("run_1", 4), beat("run_1", 5)),
        (&bench.peer, beat("run_1", 6), beat("run_1", 6)),
        (&bench.store, last("run_1"), last("run_1")),
        (&bench.peer, beat("run_1", 7), last("run_1")),
    ] {
        store.save(&saved).await.unwrap();
        assert_eq!(bench.store.find("run_1").await.unwrap(), Some(kept), "behind {saved:?}");
    }
    assert_results_stay(bench, |id| vec![beat(id, 5), last(id), beat(id, 4), beat(id, 7)]).await;
}

/// Of records that are saved at once, these of each of many runs, the one with a result stays.
async fn assert_results_stay(bench: &Bench, of_run: impl Fn(&str) -> Vec<RunRecord>) {
    let at_once: Vec<_> = (0..20).flat_map(|run| of_run(&format!("run_of_{run}"))).collect();
    let saved = join_all(at_once.iter().map(|record| bench.store.save(record))).await;
    assert!(saved.iter().all(Result::is_ok), "{saved:?}");
    for record in at_once.iter().filter(|record| matches!(record.outcome, RunOutcome::Ended { .. })) {
        assert_eq!(bench.peer.find(&record.id).await.unwrap().as_ref(), Some(record));
    }
}

/// Alone, and together with the others, which a store may commit at once.
pub(crate) async fn a_failure_that_comes_behind_a_result_is_not_written(bench: &Bench) {
    let failure = |id: &str, end| RunRecord { finished_at: at(end), ..record(id, failed("late".into())) };
    let result = |id: &str, reason| RunRecord { finished_at: at(5), ..record(id, ended(reason)) };
    let cancelled = result("run_1", StopReason::Cancelled);
    for (store, saved, kept) in [
        (&bench.store, failure("run_1", 7), failure("run_1", 7)),
        (&bench.peer, failure("run_1", 6), failure("run_1", 6)),
        (&bench.peer, result("run_1", StopReason::Completed), result("run_1", StopReason::Completed)),
        (&bench.store, failure("run_1", 9), result("run_1", StopReason::Completed)),
        (&bench.peer, cancelled.clone(), cancelled),
    ] {
        store.save(&saved).await.unwrap();
        assert_eq!(bench.store.find("run_1").await.unwrap(), Some(kept), "behind {saved:?}");
    }
    let completed = |id: &str| result(id, StopReason::Completed);
    assert_results_stay(bench, |id| vec![failure(id, 4), completed(id), failure(id, 9)]).await;
}

pub(crate) async fn records_hold_any_text(bench: &Bench) {
    let record = RunRecord {
        request_id: NASTY.into(),
        user_id: Some(NASTY.into()),
        job_id: Some(NASTY.into()),
        ..record(NASTY, failed(long()))
    };
    bench.store.save(&record).await.unwrap();
    assert_eq!(bench.store.find(NASTY).await.unwrap(), Some(record));
}

pub(crate) async fn the_last_run_of_a_job_is_found_by_its_owner_alone(bench: &Bench) {
    let of = |id: &str, user: &str, ended: u64| RunRecord {
        user_id: Some(user.into()),
        job_id: Some(NASTY.into()),
        finished_at: at(ended),
        ..record(id, ended_well())
    };
    for record in [of("run_1", "u1", 2), of("run_2", "u1", 9), of("run_3", "u1", 5), of("run_4", NASTY, 1)] {
        bench.store.save(&record).await.unwrap();
    }
    for store in [&bench.store, &bench.peer] {
        assert_eq!(store.find_by_job(NASTY, "u1").await.unwrap(), Some(of("run_2", "u1", 9)));
        assert_eq!(store.find_by_job(NASTY, NASTY).await.unwrap(), Some(of("run_4", NASTY, 1)));
        for (job, user) in [(NASTY, "u2"), ("job-1", "u1"), ("", "")] {
            assert_eq!(store.find_by_job(job, user).await.unwrap(), None, "{job:?} {user:?}");
        }
    }
}

pub(crate) async fn records_are_listed_from_the_newest_end_on_page_by_page(bench: &Bench) {
    let of = |id: &str, user: &str, ended: u64| RunRecord {
        user_id: Some(user.into()),
        finished_at: at(ended),
        ..record(id, ended_well())
    };
    let all = [of("run_1", "u1", 2), of("run_2", NASTY, 9), of("run_3", "u1", 5), of("run_4", "u1", 5)];
    for record in &all {
        bench.store.save(record).await.unwrap();
    }
    let ids = |records: Vec<RunRecord>| records.into_iter().map(|record| record.id).collect::<Vec<_>>();
    let wanted = RunQuery { limit: 3, ..RunQuery::default() };
    let page = bench.peer.list(&wanted).await.unwrap();
    assert_eq!(page, [all[1].clone(), all[3].clone(), all[2].clone()]);
    let last = page.last().unwrap();
    let next = RunQuery { after: Some((last.finished_at, &last.id)), ..wanted };
    assert_eq!(ids(bench.store.list(&next).await.unwrap()), ["run_1"]);
    let of_user = |user| RunQuery { user_id: Some(user), limit: 9, after: None };
    assert_eq!(ids(bench.store.list(&of_user("u1")).await.unwrap()), ["run_4", "run_3", "run_1"]);
    assert_eq!(ids(bench.store.list(&of_user(NASTY)).await.unwrap()), ["run_2"]);
    let theirs = RunQuery { after: Some((at(5), "run_4")), ..of_user("u1") };
    assert_eq!(ids(bench.store.list(&theirs).await.unwrap()), ["run_3", "run_1"]);
    assert_eq!(bench.store.list(&of_user("u2")).await.unwrap(), []);
}

async fn append_all(runs: &dyn RunStore, id: &str, events: &[Event]) {
    for (sequence, event) in (0..).zip(events) {
        runs.append(id, Epoch(1), sequence, std::slice::from_ref(event)).await.unwrap();
    }
}

/// A whole run about `text`.
fn history(text: &str) -> Vec<Event> {
    let task = Task {
        id: "run_x".into(),
        input: text.into(),
        instructions: Some(text.into()),
        options: Options {
            max_tokens: Some(100),
            temperature: Some(0.1),
            tools: Some(vec![text.into()]),
            history: vec![Message::User { content: text.into() }],
            functions: vec![ClientFunction {
                name: text.into(),
                description: text.into(),
                parameters: json!({}),
            }],
            rules: ReplyRules {
                output: Some(OutputFormat { name: text.into(), schema: Some(json!({ "const": text })) }),
                stop: vec![text.into()],
                first_call: Some(RequiredCall::Tool(text.into())),
                one_call: true,
            },
            call: Some(ToolCall { id: text.into(), name: text.into(), arguments: json!({ "text": text }) }),
        },
        limits: RunLimits::default(),
        model: "test/scripted".into(),
        principal: Principal { tier: Some(text.into()), role: Some(text.into()), ..Principal::user(text) },
        grants: Grants::new(["net".to_owned()]),
        versions: Default::default(),
        parent: Some(ParentCall { run_id: text.into(), wait: text.into(), depth: 1 }),
    };
    let detail =
        ReceiptDetail { run_ms: Some(0.1 + 0.2), cause: Some(text.into()), ..ReceiptDetail::default() };
    let receipt = ToolReceipt {
        component: Some("calculator@sha256:0".into()),
        duration_ms: 0.1 + 0.2,
        detail: Some(Box::new(detail)),
        ..ToolReceipt::new("add", ToolOutcome::Ok)
    };
    let nested = ToolReceipt { nested: 1, ..receipt.clone() };
    vec![
        Event::Started { task, tools: "sha256:none".into() },
        Event::from(asks_for(&[("call_1", "add", json!({"a": text, "b": 1e-7}))])),
        Event::NestedStarted { index: 0, number: 0, name: text.into() },
        Event::RecordingStarted { index: 0, at: 1, seed: text.into() },
        Event::NestedReturned {
            index: 0,
            number: 0,
            receipt: nested,
            error: Some(text.into()),
            recorded: Some(Box::new(RecordedAnswer {
                asked: text.into(),
                arguments: text.into(),
                content: text.into(),
                at: 2,
            })),
        },
        Event::ToolReturned { index: 0, answer: ToolReturn { content: text.into(), receipt } },
        Event::from(says(text)),
    ]
}

fn record(id: &str, outcome: RunOutcome) -> RunRecord {
    RunRecord {
        job_id: Some("job-1".into()),
        started_at: at(1_234),
        finished_at: at(5_678),
        ..agent_core::testing::record(id, outcome)
    }
}

fn ended(stop_reason: StopReason) -> RunOutcome {
    let usage = Usage::of(u64::from(u32::MAX) + 1, 0);
    RunOutcome::Ended { stop_reason, iterations: 2, usage, model: "openai/gpt".into() }
}

/// The record of a run that ended well.
pub(crate) fn some_record(id: &str) -> RunRecord {
    record(id, ended_well())
}

fn ended_well() -> RunOutcome {
    ended(StopReason::Completed)
}

fn failed(error: String) -> RunOutcome {
    let usage = Usage::of(7, 2);
    RunOutcome::Failed { error, iterations: 1, usage, kind: FailureKind::RateLimited }
}

/// Some time in 2023, and `ms` milliseconds.
fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_700_000_000_000 + ms)
}
