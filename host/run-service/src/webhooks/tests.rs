//! The dispatcher over a queue and an outbox in memory, with the clock paused.

mod never_added;
mod waiting;

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent_core::ports::webhooks::{NewWebhook, WebhookMessage, WebhookReply};
use agent_core::ports::{
    AttemptEnd, JobQueue, Journal as _, RunStore as _, Spawn as _, ToolSet as _, WaitingCall,
    WebhookOutbox as _, WebhookSender,
};
use agent_core::testing::{EchoTools, TestOutbox, TestQueue, TestRuns, TokioSpawn, asks_for, says, task};
use agent_core::words::{
    CallPlace, ChildRun, Event, JobData, JobStatus, OpenKinds, Principal, RunOutcome, RunRecord, ToolCall,
    Usage, Wait, WaitKind, Webhook, WebhookState,
};
use boxed_async::boxed_async;
use serde_json::json;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};
use tokio_util::sync::CancellationToken;

use super::{Dispatcher, DispatcherContext, Webhooks};
use crate::clock;
use crate::jobs::{self, Jobs};
use crate::layers::{Ask, Invoke as _};
use crate::testing::scripted_agent;
use crate::waits::Waits;

/// A receiver that answers what is said, the last of it for ever.
#[derive(Default)]
struct Receiver {
    replies: Mutex<Vec<Result<u16, String>>>,
    /// How long it takes for each.
    takes: Mutex<Duration>,
    /// How many deliveries are under way to each address, and the most there ever were.
    under_way: Mutex<BTreeMap<String, (u32, u32)>>,
    got: Mutex<Vec<(Instant, WebhookMessage)>>,
}

#[boxed_async]
impl WebhookSender for Receiver {
    fn check(&self, _: &str) -> Result<(), &'static str> {
        Ok(())
    }

    async fn send(&self, _user_id: &str, url: &str, message: &WebhookMessage) -> WebhookReply {
        self.got.lock().push((Instant::now(), message.clone()));
        self.count(url, 1);
        let takes = *self.takes.lock();
        sleep(takes).await;
        self.count(url, -1);
        let mut replies = self.replies.lock();
        let outcome = if replies.len() > 1 { replies.remove(0) } else { replies[0].clone() };
        WebhookReply { outcome, retry_after: None }
    }

    fn public_key(&self) -> &str {
        "whpk_"
    }
}

impl Receiver {
    fn count(&self, url: &str, change: i32) {
        let mut under_way = self.under_way.lock();
        let (now, most) = under_way.entry(url.to_owned()).or_default();
        *now = now.checked_add_signed(change).unwrap();
        *most = (*most).max(*now);
    }

    fn most_under_way(&self, url: &str) -> u32 {
        self.under_way.lock()[url].1
    }
}

struct Bench {
    records: Arc<TestRuns>,
    queue: Arc<TestQueue>,
    outbox: Arc<TestOutbox>,
    receiver: Arc<Receiver>,
    webhooks: Webhooks,
    stopping: CancellationToken,
    job_id: String,
}

impl Bench {
    /// Another job with a webhook, whose run has ended.
    async fn add_ended(&self, user_id: &str, url: &str) -> String {
        let job_id = self.add(user_id, url).await;
        self.finish_job().await;
        job_id
    }

    async fn add(&self, user_id: &str, url: &str) -> String {
        let job_id = self.queue.add(&JobData::new("2+2", user_id)).await.unwrap();
        self.webhooks.put(&NewWebhook { job_id: &job_id, user_id, url }).await.unwrap();
        job_id
    }

    /// A job with a webhook, and a dispatcher that runs.
    async fn new(replies: &[Result<u16, &str>]) -> Self {
        let (queue, outbox) = (Arc::new(TestQueue::default()), Arc::new(TestOutbox::default()));
        let records = Arc::new(TestRuns::default());
        let receiver = Arc::new(Receiver::default());
        *receiver.replies.lock() = replies.iter().map(|reply| reply.map_err(str::to_owned)).collect();
        let webhooks = Webhooks::new(outbox.clone(), receiver.clone());
        let job_id = queue.add(&JobData::new("2+2", "u1")).await.unwrap();
        let webhook = NewWebhook { job_id: &job_id, user_id: "u1", url: "https://example.com/" };
        webhooks.put(&webhook).await.unwrap();
        let dispatcher = Dispatcher::new(DispatcherContext {
            outbox: outbox.clone(),
            jobs: Jobs::new(queue.clone()).recorded_in(records.clone()),
            waits: Waits::beside_the_service(queue.clone(), records.clone()),
            sender: receiver.clone(),
            render: |job, waits| {
                let result = job.result.as_ref().map_or("", |result| result.get());
                let waits: Vec<_> = waits.iter().map(|wait| wait.id.as_str()).collect();
                format!("{} {}{result}{}", job.id, job.status.as_str(), waits.join(" "))
            },
        });
        let stopping = CancellationToken::new();
        let until = stopping.clone();
        TokioSpawn.spawn("dispatcher", Box::pin(async move { dispatcher.run(until).await }));
        Self { records, queue, outbox, receiver, webhooks, stopping, job_id }
    }

    /// Claims the next job and has its run wait: for an approval, or the end of this job's run. Gives the id
    /// of the wait.
    async fn park(&self, child: Option<&str>) -> String {
        self.park_at(clock::millis(), child).await
    }

    /// [`Self::park`] at a time by some clock.
    async fn park_at(&self, now: u64, child: Option<&str>) -> String {
        let claim = self.queue.claim("w", Duration::ZERO).await.unwrap().unwrap();
        let call = ToolCall { id: "1".into(), name: "echo".into(), arguments: json!({}) };
        let terms = EchoTools::new(&["echo"]).approved_by("echo", "sha256:p");
        let terms = terms.approval(&call, &Principal::default()).unwrap();
        let id = Wait::new_id(&claim.job_id, &claim.run_id, 1, CallPlace { index: 0, nested: None });
        let waiting =
            WaitingCall { id: &id, times_shown: 0, index: 0, within: None, usage: Usage::default() };
        let wait = terms.wait(waiting, now);
        let of_child = |job_id: &str| ChildRun {
            job_id: job_id.into(),
            run_id: self.queue.job(job_id).run_id,
            tools: vec![],
            tokens: 1_000,
        };
        let wait = match child {
            Some(job_id) => Wait { kind: WaitKind::Child, child: Some(of_child(job_id)), ..wait },
            None => wait,
        };
        let events = [
            Event::Started { task: task("2+2"), tools: String::new() },
            Event::from(asks_for(&[("1", "echo", json!({}))])),
            Event::Waiting { waits: vec![wait.clone()], epoch: claim.epoch.0 },
        ];
        self.records.append(&claim.run_id, claim.epoch, 0, &events).await.unwrap();
        let until = SystemTime::now() + Duration::from_secs(7 * 24 * 3600);
        let parked = AttemptEnd::Parked { until, open: OpenKinds::of([&wait]) };
        self.queue.settle(&claim, &parked).await.unwrap();
        id
    }

    async fn end_job(&self, end: AttemptEnd) {
        let claim = self.queue.claim("w", Duration::ZERO).await.unwrap().unwrap();
        self.queue.settle(&claim, &end).await.unwrap();
    }

    async fn finish_job(&self) {
        self.end_job(AttemptEnd::Cancelled).await;
    }

    async fn fail_job(&self) {
        self.end_job(AttemptEnd::Failed { error: "it failed".into(), retry: false }).await;
    }

    /// The queue drops the job, whose run has such a record, and the receiver is back.
    async fn trim(&self, run_id: &str, outcome: RunOutcome) {
        let record = RunRecord {
            request_id: self.job_id.clone(),
            job_id: Some(self.job_id.clone()),
            ..agent_core::testing::record_of_now(run_id, outcome)
        };
        self.records.save(&record).await.unwrap();
        self.queue.remove(&self.job_id);
        *self.receiver.replies.lock() = vec![Ok(200)];
    }

    fn got(&self) -> Vec<(Instant, WebhookMessage)> {
        self.receiver.got.lock().clone()
    }

    /// The ids of all messages.
    fn ids(&self) -> Vec<String> {
        self.got().into_iter().map(|(_, message)| message.id).collect()
    }

    /// The ids of the messages that the job has ended: of its first run, and that of its retry.
    fn end_ids(&self) -> [String; 2] {
        ["", "_00ade6f2"].map(|run| format!("msg_{}{run}", self.job_id))
    }

    fn row(&self, job_id: &str) -> Webhook {
        self.outbox.all().into_iter().find(|row| row.job_id == job_id).unwrap()
    }

    fn state(&self) -> WebhookState {
        self.row(&self.job_id).state
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_is_sent_soon_after_it_and_once() {
    let bench = Bench::new(&[Ok(204)]).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!((bench.got().len(), bench.state()), (0, WebhookState::Waiting), "before it ends");
    bench.finish_job().await;
    sleep(Duration::from_secs(120)).await;
    let got = bench.got();
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].1.id, format!("msg_{}", bench.job_id));
    assert_eq!(got[0].1.body, format!("{} cancelled", bench.job_id));
    assert_eq!(bench.state(), WebhookState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_for_an_hour_gets_its_webhook_when_it_is_back() {
    let bench = Bench::new(&[Err("no answer within 20 s")]).await;
    bench.finish_job().await;
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(bench.state(), WebhookState::Pending);
    let while_down = bench.got().len();
    assert!((4..=8).contains(&while_down), "{while_down}");
    *bench.receiver.replies.lock() = vec![Ok(200)];
    sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!((bench.got().len(), bench.state()), (while_down + 1, WebhookState::Delivered));
    let attempts = bench.row(&bench.job_id).attempts;
    assert_eq!(attempts[0].error.as_deref(), Some("no answer within 20 s"));
    assert_eq!(attempts.last().unwrap().status, Some(200));
    // Every message is the same, so that the receiver tells a repetition.
    assert!(bench.got().iter().all(|(_, message)| *message == bench.got()[0].1));
}

#[tokio::test(start_paused = true)]
async fn a_webhook_is_given_up_in_the_end_or_when_the_receiver_is_gone_and_can_be_replayed() {
    let bench = Bench::new(&[Ok(500)]).await;
    bench.finish_job().await;
    sleep(Duration::from_secs(26 * 3600)).await;
    assert_eq!((bench.got().len(), bench.state()), (12, WebhookState::Failed));
    assert_eq!(bench.webhooks.replay("u2", &bench.job_id).await, Ok(None), "somebody else's");
    *bench.receiver.replies.lock() = vec![Ok(410)];
    assert_eq!(bench.webhooks.replay("u1", &bench.job_id).await, Ok(Some(true)));
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((bench.got().len(), bench.state()), (13, WebhookState::Failed), "410 is for good");
    *bench.receiver.replies.lock() = vec![Ok(200)];
    assert_eq!(bench.webhooks.replay("u1", &bench.job_id).await, Ok(Some(true)));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.state(), WebhookState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn an_outbox_that_is_down_holds_up_deliveries_and_loses_none() {
    let bench = Bench::new(&[Ok(200)]).await;
    bench.outbox.fail(true);
    bench.finish_job().await;
    sleep(Duration::from_secs(300)).await;
    assert_eq!(bench.got().len(), 0);
    bench.outbox.fail(false);
    sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.state(), WebhookState::Delivered);
}

#[tokio::test(start_paused = true)]
async fn deliveries_that_wait_for_their_turn_to_write_do_not_hold_up_the_next_claim() {
    let bench = Bench::new(&[Err("the connection was refused")]).await;
    // More than are delivered at once, so that a claim is made while deliveries are noted.
    let mut job_ids = vec![bench.job_id.clone()];
    for _ in 0..50 {
        job_ids.push(bench.add("u1", "https://example.com/").await);
    }
    for _ in &job_ids {
        bench.finish_job().await;
    }
    sleep(Duration::from_secs(4)).await;
    for job_id in &job_ids {
        assert_eq!(bench.row(job_id).attempts.len(), 1, "{job_id}");
    }
}

/// So many jobs of each of these users end, whose receiver hangs, and then one of somebody else, who is told
/// within so many seconds.
async fn beside_a_tarpit(users: u32, jobs: u32, seconds: u64) -> Bench {
    let bench = Bench::new(&[Ok(200)]).await;
    bench.finish_job().await;
    *bench.receiver.takes.lock() = Duration::from_secs(20);
    for number in 0..users * jobs {
        bench.add_ended(&format!("many-{}", number % users), "https://tarpit.example/").await;
    }
    sleep(Duration::from_secs(1)).await;
    let others = bench.add_ended("u2", "https://example.org/").await;
    sleep(Duration::from_secs(seconds)).await;
    assert_eq!(bench.row(&others).state, WebhookState::Delivered);
    bench
}

#[tokio::test(start_paused = true)]
async fn a_user_whose_receiver_hangs_delays_nobody_else() {
    let bench = beside_a_tarpit(1, 40, 25).await;
    // As soon as one has ended, the next one begins.
    sleep(Duration::from_secs(200)).await;
    assert_eq!(bench.receiver.most_under_way("https://tarpit.example/"), 4);
    assert!(bench.outbox.all().iter().all(|row| row.state == WebhookState::Delivered));
}

/// As many users as have all deliveries under way together, each with more due than is sent for long.
#[tokio::test(start_paused = true)]
async fn users_whose_receivers_hang_are_not_given_each_place_that_becomes_free() {
    let bench = beside_a_tarpit(4, 20, 45).await;
    assert!(bench.outbox.all().iter().any(|row| row.state == WebhookState::Waiting), "theirs are due yet");
}

#[tokio::test(start_paused = true)]
async fn the_webhook_of_a_job_that_the_queue_has_trimmed_is_sent_from_the_record_of_its_run() {
    let bench = Bench::new(&[Err("the connection was refused")]).await;
    bench.finish_job().await;
    sleep(Duration::from_secs(3)).await;
    bench.trim("run_1", agent_core::testing::failed("")).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.state(), WebhookState::Delivered);
    assert_eq!(bench.got().last().unwrap().1.body, format!("{} failed", bench.job_id));
}

/// The result is that of the run's journal, of which the record says nothing.
#[tokio::test(start_paused = true)]
async fn the_webhook_of_a_trimmed_job_that_completed_has_the_result_of_its_journal() {
    let bench = Bench::new(&[Err("the connection was refused")]).await;
    bench.finish_job().await;
    sleep(Duration::from_secs(3)).await;
    let agent = scripted_agent([Ok(says("four"))], EchoTools::new(&[]), bench.records.clone());
    let result = agent.invoke(Ask::new("r".into(), "2+2".into())).await.unwrap().result;
    bench.trim(&result.id, RunOutcome::of(&result)).await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.state(), WebhookState::Delivered);
    let body = bench.got().pop().unwrap().1.body;
    assert!(body.starts_with(&format!("{} completed{{", bench.job_id)), "{body}");
    assert!(body.contains(r#""output":"four""#), "{body}");
}

#[tokio::test(start_paused = true)]
async fn a_delivery_under_way_when_the_service_stops_is_finished() {
    let bench = Bench::new(&[Ok(200)]).await;
    *bench.receiver.takes.lock() = Duration::from_secs(1);
    bench.finish_job().await;
    while bench.got().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    bench.stopping.cancel();
    sleep(Duration::from_secs(2)).await;
    assert_eq!(bench.state(), WebhookState::Delivered);
}

/// The receiver has confirmed all of the run before, so nothing of the webhook is due.
#[tokio::test(start_paused = true)]
async fn what_the_run_of_a_retry_waits_for_and_its_end_are_told_as_well() {
    let bench = Bench::new(&[Ok(204)]).await;
    let before = bench.park(None).await;
    sleep(Duration::from_secs(60)).await;
    bench.queue.change(&bench.job_id, |job| job.status = JobStatus::Failed);
    sleep(Duration::from_secs(600)).await;
    assert_eq!((bench.got().len(), bench.state()), (2, WebhookState::Delivered));

    jobs::retry(&*bench.queue, Some(&*bench.outbox), &bench.job_id).await.unwrap();
    assert_eq!(bench.state(), WebhookState::Waiting);
    let anew = bench.park(None).await;
    sleep(Duration::from_secs(600)).await;
    bench.queue.cancel(&bench.job_id).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    let [end, of_retry] = bench.end_ids();
    assert_eq!(bench.ids(), [format!("msg_{before}"), end, format!("msg_{anew}"), of_retry]);
    assert_eq!(bench.got()[3].1.body, format!("{} cancelled", bench.job_id));
    assert_eq!((bench.state(), bench.row(&bench.job_id).attempts.len()), (WebhookState::Delivered, 4));
}

/// The process has two deliveries of the webhook then, of which the one of the failure has lost its claim.
#[tokio::test(start_paused = true)]
async fn a_delivery_under_way_when_its_job_is_retried_does_not_end_the_webhook() {
    let bench = Bench::new(&[Ok(200), Err("it was restarted"), Ok(200)]).await;
    *bench.receiver.takes.lock() = Duration::from_secs(3);
    bench.fail_job().await;
    while bench.got().is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    jobs::retry(&*bench.queue, Some(&*bench.outbox), &bench.job_id).await.unwrap();
    bench.finish_job().await;
    sleep(Duration::from_secs(60)).await;
    let [end, of_retry] = bench.end_ids();
    assert_eq!(bench.ids(), [end, of_retry.clone(), of_retry], "within a second of the submission, too");
    assert_eq!(bench.state(), WebhookState::Delivered);
}

/// The retry arrives at the queue when its sender has died, or never.
#[tokio::test(start_paused = true)]
async fn a_failure_is_not_sent_again_while_its_job_may_still_be_put_back() {
    let bench = Bench::new(&[Ok(200)]).await;
    let [end, of_retry] = bench.end_ids();
    bench.fail_job().await;
    sleep(Duration::from_secs(60)).await;
    bench.outbox.rearm(&bench.job_id, SystemTime::UNIX_EPOCH).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.ids(), [&*end]);
    bench.queue.retry(&bench.job_id).await.unwrap();
    bench.fail_job().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bench.ids(), [&*end, &*of_retry]);
    bench.outbox.rearm(&bench.job_id, SystemTime::UNIX_EPOCH).await.unwrap();
    sleep(Duration::from_secs(300)).await;
    assert_eq!(bench.ids(), [&*end, &*of_retry, &*of_retry]);
}

/// The job is retried between the claim of its webhook and the look at the job.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_new_run_is_not_sent_under_the_id_of_the_run_before() {
    let bench = Bench::new(&[Ok(200)]).await;
    bench.finish_job().await;
    advance(Duration::from_secs(1)).await;
    for _ in 0..10 {
        let armed = bench.row(&bench.job_id).created_at + Duration::from_secs(1);
        bench.outbox.rearm(&bench.job_id, armed).await.unwrap();
        yield_now().await;
    }
    assert!(bench.got().is_empty(), "{:?}", bench.got());
    sleep(Duration::from_secs(60)).await;
    assert_eq!((bench.got().len(), bench.state()), (1, WebhookState::Delivered));
}
