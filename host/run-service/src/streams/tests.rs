//! Runs that are watched, on one replica and on two with one store.

mod of_jobs;
mod without_a_store;

use std::time::Duration;

use agent_core::ports::{Epoch, JobQueue as _, JournalResult, Model, ModelError, ModelRequest, Unobserved};
use agent_core::testing::{
    EchoTools, ScriptedModel, TestQueue, TestRuns, TokioSpawn, asks_for, record_of_now, says,
};
use agent_core::words::{JobData, ModelReply, OpenKinds, ParkedRun};
use boxed_async::boxed_async;
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::journal::{Backlog, WriteBehind};
use crate::layers::{Agent, Heartbeat, InvokeError, Recorded};
use crate::live::Delta;
use crate::testing::{ScriptedInvoke, run_stores, streams_of};

/// A process on that store.
fn replica(store: &Arc<TestRuns>, model: impl Model + 'static, tools: EchoTools) -> RunStreams {
    let kept = run_stores(store);
    let (behind, flusher) = WriteBehind::new(store.clone(), Backlog::default(), Arc::new(Unobserved));
    TokioSpawn.spawn("flusher", Box::pin(async move { flusher.run(CancellationToken::new()).await }));
    let agent = Agent::new(Arc::new(model), Arc::new(tools), kept.journal.clone());
    streams_of(Recorded::new(Heartbeat::new(agent, store.clone()), behind), kept)
}

fn calling() -> ScriptedModel {
    ScriptedModel::new([Ok(asks_for(&[("1", "echo", json!({}))])), Ok(says("done"))])
}

fn idle(store: &Arc<TestRuns>) -> RunStreams {
    replica(store, ScriptedModel::new([]), EchoTools::new(&["echo"]))
}

const RESUMES: FirstReader = FirstReader { on_disconnect: OnDisconnect::Continue, can_resume: true };

fn ask() -> Ask {
    Ask::new("req-1".into(), "hi".into())
}

/// What a reader is given, in short.
async fn read(mut following: Following) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(followed) = following.next().await {
        all.push(match followed {
            Followed::Stored { number, event } => {
                format!("{number} {}", serde_json::to_value(&*event).unwrap()["event"].as_str().unwrap())
            }
            Followed::Delta(Delta::Text(text)) => format!("+{text}"),
            Followed::Delta(Delta::Reset) => "reset".into(),
            Followed::Progress(it) => {
                format!("{} {} {} {:?}", it.index, it.id, it.progress.message, it.progress.fraction)
            }
            Followed::Ended { events, end: RunEnd::Answer(answer) } => {
                format!("{events} ended {}", answer.result.stop_reason.as_str())
            }
            Followed::Ended { end: RunEnd::Failed(error), .. } => format!("failed: {error}"),
            Followed::Ended { end: RunEnd::Recorded(failure), .. } => format!("failed: {}", failure.error),
            Followed::Ended { end: RunEnd::NeverBegan, .. } => "never began".into(),
            Followed::Interrupted(why) => format!("{why:?}"),
        });
    }
    all
}

const WHOLE: [&str; 5] =
    ["0 started", "1 model_replied", "2 tool_returned", "3 model_replied", "4 ended completed"];

#[tokio::test(start_paused = true)]
async fn a_run_is_read_alike_from_any_event_on_any_replica_while_it_goes_on_and_afterwards() {
    let store = Arc::new(TestRuns::default());
    let (here, there) = (replica(&store, calling(), EchoTools::new(&["echo"])), idle(&store));
    let started = here.start(ask(), RESUMES);
    let run_id = started.run_id().to_owned();
    assert_eq!(read(started).await, WHOLE);
    for streams in [&here, &there] {
        let run = streams.find(&run_id).await.unwrap().unwrap();
        for from in 0..5 {
            let read = read(streams.follow(&run, from as u64)).await;
            assert_eq!(read, WHOLE[from.min(4)..], "from {from}");
        }
        assert!(!streams.has_ended_before(&run, 3).await.unwrap());
        assert!(streams.has_ended_before(&run, 4).await.unwrap());
        let given = [0, 1, 4, 5, 77].map(async |number| streams.has_given(&run, number).await.unwrap());
        assert_eq!(futures::future::join_all(given).await, [true, true, true, false, false]);
    }
    assert_eq!(here.find("run_2").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn readers_of_another_replica_follow_a_run_that_goes_on() {
    let store = Arc::new(TestRuns::default());
    let slow = Slow { pause: Duration::from_secs(3), ..Slow::new(calling()) };
    let (here, there) = (replica(&store, slow, EchoTools::new(&["echo"])), idle(&store));
    let mut started = here.start(ask(), RESUMES);
    let Some(Followed::Stored { number: 0, .. }) = started.next().await else { panic!() };
    let run = there.find(started.run_id()).await.unwrap().unwrap();
    drop(started);
    assert_eq!(read(there.follow(&run, 1)).await, WHOLE[1..], "it goes on without its reader");
}

#[tokio::test(start_paused = true)]
async fn words_of_a_reply_come_before_it_and_go_to_whoever_watches_here() {
    let store = Arc::new(TestRuns::default());
    let words = &["do", RESET, "do", "ne"];
    let slow =
        Slow { pause: Duration::from_secs(1), words, ..Slow::new(ScriptedModel::new([Ok(says("done"))])) };
    let here = replica(&store, slow, EchoTools::new(&["echo"]));
    let started = here.start(ask(), RESUMES);
    let expected = ["0 started", "+do", "reset", "+do", "+ne", "1 model_replied", "2 ended completed"];
    assert_eq!(read(started).await, expected);
}

#[tokio::test(start_paused = true)]
async fn no_word_is_missing_of_a_model_that_writes_faster_than_anybody_reads() {
    let store = Arc::new(TestRuns::default());
    let replies = ScriptedModel::new([
        Ok(ModelReply { content: WORDS.concat(), ..asks_for(&[("1", "echo", json!({}))]) }),
        Ok(says(&WORDS.concat())),
    ]);
    let here = replica(&store, Slow { words: &WORDS, ..Slow::new(replies) }, EchoTools::new(&["echo"]));
    let mut started = here.start(ask(), RESUMES);
    assert!(matches!(started.next().await, Some(Followed::Stored { number: 0, .. })));
    // The whole run goes by meanwhile.
    sleep(Duration::from_secs(60)).await;
    let whole = format!("+{}", WORDS.concat());
    // Of the first reply nothing was read before the second one was written, and its event has the words.
    let expected = ["1 model_replied", "2 tool_returned", &whole, "3 model_replied", "4 ended completed"];
    assert_eq!(read(started).await, expected);
}

/// A replica on which a run was asked for, whose model has written one of two words.
async fn in_the_middle_of_a_reply(store: &Arc<TestRuns>) -> (RunStreams, Following, FoundRun) {
    let slow = Slow {
        pause: Duration::from_secs(1),
        words: &["do", "ne"],
        ..Slow::new(ScriptedModel::new([Ok(says("done"))]))
    };
    let here = replica(store, slow, EchoTools::new(&["echo"]));
    let mut started = here.start(ask(), RESUMES);
    for _ in 0..2 {
        started.next().await.unwrap();
    }
    let run = here.find(started.run_id()).await.unwrap().unwrap();
    (here, started, run)
}

#[tokio::test(start_paused = true)]
async fn who_comes_in_the_middle_of_a_reply_is_given_all_of_it() {
    let store = Arc::new(TestRuns::default());
    let (here, started, run) = in_the_middle_of_a_reply(&store).await;
    let later = here.follow(&run, 1);
    drop(started);
    assert_eq!(read(later).await, ["reset", "+do", "+ne", "1 model_replied", "2 ended completed"]);
}

/// A store that answers the first question late.
struct FirstReadLate {
    store: Arc<TestRuns>,
    has_read: std::sync::atomic::AtomicBool,
}

#[boxed_async]
impl Journal for FirstReadLate {
    async fn append(&self, _: &str, _: Epoch, _: u64, _: &[Event]) -> JournalResult {
        unreachable!("it is only read")
    }

    async fn read(&self, run_id: &str, from: u64) -> JournalResult<Vec<Event>> {
        if !self.has_read.swap(true, std::sync::atomic::Ordering::Relaxed) {
            sleep(Duration::from_millis(100)).await;
        }
        self.store.read(run_id, from).await
    }
}

/// As a heartbeat does.
#[tokio::test(start_paused = true)]
async fn words_are_not_lost_when_the_reader_stops_waiting_for_the_store() {
    let store = Arc::new(TestRuns::default());
    let (here, _started, run) = in_the_middle_of_a_reply(&store).await;
    let journal = Arc::new(FirstReadLate { store: store.clone(), has_read: false.into() });
    let kept = RunStores { journal, ..here.kept.clone() };
    let late = streams_of(ScriptedInvoke::default(), kept);
    let mut later = late.follow(&run, 0);
    assert!(timeout(Duration::from_millis(10), later.next()).await.is_err());
    let expected = ["0 started", "reset", "+do", "+ne", "1 model_replied", "2 ended completed"];
    assert_eq!(read(later).await, expected);
}

#[tokio::test(start_paused = true)]
async fn progress_comes_between_a_calls_beginning_and_its_answer_and_is_not_kept() {
    let store = Arc::new(TestRuns::default());
    let tools = EchoTools::new(&["echo"]).reporting(&[("half", Some(0.5)), ("most", None)]);
    let (here, there) = (replica(&store, calling(), tools), idle(&store));
    let started = here.start(ask(), RESUMES);
    let run_id = started.run_id().to_owned();
    let mut expected = WHOLE.to_vec();
    expected.splice(2..2, ["0 1 half Some(0.5)", "0 1 most None"]);
    assert_eq!(read(started).await, expected);
    let run = there.find(&run_id).await.unwrap().unwrap();
    assert_eq!(read(there.follow(&run, 0)).await, WHOLE);
}

#[tokio::test(start_paused = true)]
async fn a_failed_run_ends_its_streams_with_its_failure() {
    let store = Arc::new(TestRuns::default());
    let (provider, detail) = ("p".into(), "429".into());
    let limited = ModelError::RateLimited { provider, detail, retry_after: None, quota_exhausted: false };
    let model = ScriptedModel::new([Err(limited)]);
    let here = replica(&store, model, EchoTools::new(&["echo"]));
    let mut started = here.start(ask(), RESUMES);
    let run_id = started.run_id().to_owned();
    assert!(matches!(started.next().await, Some(Followed::Stored { number: 0, .. })));
    let Some(Followed::Ended { events: 1, end: RunEnd::Failed(InvokeError::Run(_)) }) = started.next().await
    else {
        panic!()
    };
    let there = idle(&store);
    let mut later = there.follow(&there.find(&run_id).await.unwrap().unwrap(), 1);
    let Some(Followed::Ended { end: RunEnd::Recorded(failure), .. }) = later.next().await else { panic!() };
    assert_eq!(failure.kind, agent_core::words::FailureKind::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_journal_is_damaged_ends_its_streams_for_good() {
    let store = Arc::new(TestRuns::default());
    store.save(&agent_core::testing::record("run_1", RunOutcome::Running)).await.unwrap();
    let there = idle(&store);
    let run = there.find("run_1").await.unwrap().unwrap();
    store.damage("run_1");
    let mut following = there.follow(&run, 0);
    let Some(Followed::Ended { end, .. }) = following.next().await else { panic!() };
    assert!(end.is_final() && matches!(end, RunEnd::Failed(_)), "{end:?}");
    assert!(following.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_owner_was_killed_ends_its_streams_within_10_s() {
    let store = Arc::new(TestRuns::default());
    let queue = Arc::new(TestQueue::default());
    let jobs = Jobs::new(queue).recorded_in(store.clone());
    // Killed while it carried the run, or before the job was added that was to go on with it.
    for job_id in [None, Some("9".to_owned())] {
        let record = RunRecord { job_id, ..record_of_now("run_1", RunOutcome::Running) };
        store.save(&record).await.unwrap();
        let there = idle(&store).with_jobs(jobs.clone());
        let run = there.find("run_1").await.unwrap().unwrap();
        let began = Instant::now();
        assert_eq!(read(there.follow(&run, 0)).await, ["failed: the process that carried it was killed"]);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        // What begins with its cancellation is no journal.
        assert_eq!(there.cancel("run_1").await.unwrap(), CancelOutcome::Refused);
        assert!(store.events("run_1").is_empty());
    }
    assert!(jobs.read("u1", "9", Duration::ZERO).await.unwrap().is_none(), "nobody has the job");
}

/// The reader's clock is ahead, or the owner's behind.
#[tokio::test(start_paused = true)]
async fn a_run_whose_heartbeat_goes_on_is_not_taken_for_dead_by_a_clock_that_is_an_hour_apart() {
    let store = Arc::new(TestRuns::default());
    let mut record = record_of_now("run_1", RunOutcome::Running);
    record.finished_at -= Duration::from_secs(3600);
    store.save(&record).await.unwrap();
    let there = idle(&store);
    let run = there.find("run_1").await.unwrap().unwrap();
    let mut following = there.follow(&run, 0);
    for _ in 0..10 {
        assert!(timeout(Duration::from_secs(2), following.next()).await.is_err());
        record.finished_at += Duration::from_secs(2);
        store.save(&record).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_cancelled_here_from_elsewhere_and_by_a_reader_who_asked_for_that() {
    for way in 0..3 {
        let store = Arc::new(TestRuns::default());
        let here = replica(&store, calling(), EchoTools::new(&["echo"]).hanging());
        let there = idle(&store);
        let on_disconnect = if way == 2 { OnDisconnect::Cancel } else { OnDisconnect::Continue };
        let mut started = here.start(ask(), FirstReader { on_disconnect, ..RESUMES });
        for _ in 0..2 {
            started.next().await.unwrap();
        }
        let run_id = started.run_id().to_owned();
        sleep(Duration::from_secs(1)).await;
        let outcome = match way {
            0 => here.cancel(&run_id).await.unwrap(),
            1 => there.cancel(&run_id).await.unwrap(),
            _ => {
                drop(started);
                started = here.follow(&here.find(&run_id).await.unwrap().unwrap(), 2);
                CancelOutcome::Asked
            }
        };
        assert_eq!(outcome, if way == 1 { CancelOutcome::Done } else { CancelOutcome::Asked });
        let rest = timeout(Duration::from_secs(5), read(started)).await.unwrap();
        assert_eq!(rest, ["2 cancelled", "3 ended cancelled"], "way {way}");
        sleep(Duration::from_secs(1)).await;
        let RunOutcome::Ended { stop_reason, .. } = store.records()[0].outcome else { panic!("way {way}") };
        assert_eq!((stop_reason, here.runs.under_way()), (StopReason::Cancelled, 0));
        assert_eq!(there.cancel(&run_id).await.unwrap(), CancelOutcome::HadEnded);
    }
}

/// The replica that cancelled a run while it was handed over died behind the event.
#[tokio::test(start_paused = true)]
async fn whoever_cancels_a_run_again_does_what_is_left_to_do() {
    let (store, queue) = (Arc::new(TestRuns::default()), Arc::new(TestQueue::default()));
    let record = agent_core::testing::record("run_1", RunOutcome::Running);
    let record = RunRecord { job_id: Some("job-1".into()), ..record };
    store.save(&record).await.unwrap();
    let begun = Event::Started { task: agent_core::testing::task("hi"), tools: "sha256:test".into() };
    store.append("run_1", Epoch::UNCLAIMED, 0, &[begun]).await.unwrap();
    store.append("run_1", Epoch::FINAL, 1, &[Event::Cancelled]).await.unwrap();
    let until = std::time::SystemTime::now() + Duration::from_secs(3600);
    let goes_on = Some(ParkedRun { run_id: "run_1".into(), until, open: OpenKinds::default() });
    let job = JobData { goes_on, ..JobData::new("hi", "u1") }.with_id("job-1");
    queue.add(&job).await.unwrap();
    let there = idle(&store).with_jobs(Jobs::new(queue.clone()));
    assert_eq!(there.cancel("run_1").await.unwrap(), CancelOutcome::HadEnded);
    assert_eq!(queue.job("job-1").status, JobStatus::Cancelled);
    let RunOutcome::Ended { stop_reason, .. } = store.records()[0].outcome else { panic!() };
    assert_eq!((stop_reason, store.events("run_1").len()), (StopReason::Cancelled, 2));
}

#[tokio::test(start_paused = true)]
async fn readers_are_told_to_come_again_when_the_service_stops_or_they_are_too_slow() {
    let (store, shutdown) = (Arc::new(TestRuns::default()), Shutdown::default());
    let here = idle(&store).until(shutdown.clone());
    let run = FoundRun { run_id: "run_1".into(), user_id: None, job_id: None };
    let slow = here.follow(&run, 0);
    for number in 0..100 {
        here.kept.journal.append("run_1", Epoch(1), number, &[Event::HandedBack]).await.unwrap();
    }
    assert_eq!(read(slow).await, ["TooSlow"]);
    let mut reader = here.follow(&run, 100);
    shutdown.begin(Instant::now() + Duration::from_secs(28));
    assert!(timeout(Duration::from_secs(1), reader.next()).await.is_err(), "while connections are accepted");
    shutdown.end_drain();
    assert_eq!(read(reader).await, ["Stopping"]);
}

/// A reader of OpenAI's protocols, which cannot resume.
const LEAVES: FirstReader = FirstReader { on_disconnect: OnDisconnect::Cancel, can_resume: false };

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_readers_that_cannot_resume_read_to_the_end() {
    let (store, shutdown) = (Arc::new(TestRuns::default()), Shutdown::default());
    let here = replica(&store, calling(), EchoTools::new(&["echo"])).until(shutdown.clone());
    let started = here.start(ask(), LEAVES);
    shutdown.begin(Instant::now() + Duration::from_secs(28));
    shutdown.end_drain();
    assert_eq!(read(started).await, WHOLE);
    // A reader that would be interrupted at once begins nothing.
    assert_eq!(read(here.start(ask(), RESUMES)).await, ["failed: the service is stopping"]);
    shutdown.end_requests();
    assert_eq!(read(here.start(ask(), LEAVES)).await, ["failed: the service is stopping"]);
    assert_eq!((store.records().len(), here.runs.under_way()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_only_reader_is_interrupted_for_good_is_cancelled() {
    let (store, shutdown) = (Arc::new(TestRuns::default()), Shutdown::default());
    let here = replica(&store, calling(), EchoTools::new(&["echo"]).hanging()).until(shutdown.clone());
    let mut started = here.start(ask(), LEAVES);
    for _ in 0..2 {
        started.next().await.unwrap();
    }
    let run = here.find(started.run_id()).await.unwrap().unwrap();
    shutdown.end_requests();
    assert_eq!(read(started).await, ["Stopping"]);
    let rest = timeout(Duration::from_secs(5), read(idle(&store).follow(&run, 2))).await.unwrap();
    assert_eq!(rest, ["2 cancelled", "3 ended cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_before_it_begins_is_the_first_that_is_read() {
    let kept = RunStores { journal: Arc::new(TestRuns::default()), records: None, live: LiveRuns::default() };
    let busy = ScriptedInvoke::new([Err(InvokeError::Busy { waited: Duration::ZERO })]);
    let streams = streams_of(busy, kept);
    let mut started = streams.start(ask(), RESUMES);
    let first = started.next().await;
    let Some(Followed::Ended { events: 0, end: RunEnd::Failed(InvokeError::Busy { .. }) }) = first else {
        panic!("{first:?}")
    };
    assert!(started.next().await.is_none());
}

/// Words of a reply, more than any queue holds.
const WORDS: [&str; 1_000] = ["word "; 1_000];

/// In their place: they are written anew.
const RESET: &str = "\0";

/// Gives scripted replies after a while, and says words before, each after as long a while.
struct Slow {
    replies: ScriptedModel,
    pause: Duration,
    words: &'static [&'static str],
}

impl Slow {
    fn new(replies: ScriptedModel) -> Self {
        Self { replies, pause: Duration::ZERO, words: &[] }
    }
}

#[boxed_async]
impl Model for Slow {
    fn name(&self) -> &str {
        self.replies.name()
    }

    async fn complete(&self, request: ModelRequest<'_>) -> Result<ModelReply, ModelError> {
        for word in self.words {
            let Some(deltas) = request.deltas else { break };
            match *word {
                RESET => deltas.reset(),
                word => deltas.text(word),
            }
            if !self.pause.is_zero() {
                sleep(self.pause).await;
            }
        }
        sleep(self.pause).await;
        self.replies.complete(request).await
    }
}
