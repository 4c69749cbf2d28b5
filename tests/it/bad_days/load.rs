//! Load: a few clients that ask and submit jobs for as long as a bad day lasts, and remember every answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use acceptance::{Answer, Caller, Model, Service, Task, asks_for, eventually, says};
use serde_json::json;
use tokio::time::sleep;

use super::crowd::{Crowd, Ticket};

/// How long a store or the provider is away.
pub(super) const OUTAGE: Duration = Duration::from_secs(5);

/// The pause of one client between two requests. What is wanted is that requests are under way at every
/// moment, not how many can be.
const PAUSE: Duration = Duration::from_millis(40);

/// Clients that wait for their answers, and those that submit jobs.
const ASKING: usize = 3;
const SUBMITTING: usize = 1;

/// Requests, and jobs among them that are accepted, after which everything may be said to work.
const ENOUGH_REQUESTS: usize = 20;
const ENOUGH_JOBS: usize = 2;

/// The clients.
pub(super) struct Load {
    crowd: Crowd,
    progress: Arc<Progress>,
    asking: Vec<Task<Vec<Answer>>>,
    submitting: Vec<Task<(Vec<Ticket>, Vec<Answer>)>>,
}

/// What the clients have done so far, and whether they are to end.
#[derive(Default)]
struct Progress {
    requests: AtomicUsize,
    accepted_jobs: AtomicUsize,
    stopping: AtomicBool,
}

/// What the clients were answered.
pub(super) struct Answers {
    /// To questions.
    pub(super) asked: Vec<Answer>,
    /// To jobs that were not accepted.
    pub(super) refused: Vec<Answer>,
}

/// Lets the model answer questions with a word, and jobs with a tool's result.
pub(super) fn prepare(model: &Model) {
    model.always(|request| match request.tool_results().last() {
        Some(result) => says(result),
        None if request.user_text().starts_with("job") => {
            asks_for("calculate", json!({ "expression": "6 * 7" }))
        }
        None => says("hello"),
    });
}

impl Load {
    /// Begins, and waits until it is well under way.
    pub(super) async fn begin(caller: Caller) -> Self {
        let (crowd, progress) = (Crowd::of(caller), Arc::new(Progress::default()));
        let asking = (0..ASKING).map(|_| Task::begin(ask(crowd.clone(), progress.clone())));
        let submitting = (0..SUBMITTING).map(|_| Task::begin(submit(crowd.clone(), progress.clone())));
        let (asking, submitting) = (asking.collect(), submitting.collect());
        let this = Self { crowd, progress, asking, submitting };
        this.goes_on().await;
        this
    }

    /// Waits for some more requests, and for jobs among them that are accepted.
    pub(super) async fn goes_on(&self) {
        let done = || {
            let Progress { requests, accepted_jobs, .. } = &*self.progress;
            (requests.load(Ordering::Relaxed), accepted_jobs.load(Ordering::Relaxed))
        };
        let (requests, jobs) = done();
        let enough = || {
            let (more_requests, more_jobs) = done();
            more_requests >= requests + ENOUGH_REQUESTS && more_jobs >= jobs + ENOUGH_JOBS
        };
        eventually("more requests, and jobs to be accepted", async || enough().then_some(())).await;
    }

    /// Ends, and waits until every job that was accepted has completed.
    pub(super) async fn end(self) -> Answers {
        self.progress.stopping.store(true, Ordering::Relaxed);
        let (mut answers, mut tickets) = (Answers { asked: Vec::new(), refused: Vec::new() }, Vec::new());
        for client in self.asking {
            answers.asked.extend(client.ended().await);
        }
        for client in self.submitting {
            let (accepted, refused) = client.ended().await;
            tickets.extend(accepted);
            answers.refused.extend(refused);
        }
        assert!(!tickets.is_empty());
        for job in self.crowd.all_ended(&tickets).await {
            assert_eq!(job["status"], "completed", "{job:#}");
            assert!(job["result"]["output"].to_string().contains("42"), "{job:#}");
        }
        answers
    }
}

async fn ask(crowd: Crowd, progress: Arc<Progress>) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(n) = progress.next() {
        answers.push(crowd.ask(&format!("question {n}")).await);
        sleep(PAUSE).await;
    }
    answers
}

async fn submit(crowd: Crowd, progress: Arc<Progress>) -> (Vec<Ticket>, Vec<Answer>) {
    let (mut tickets, mut refused) = (Vec::new(), Vec::new());
    while let Some(n) = progress.next() {
        // Each job is read about twice, and an owner may ask a hundred times a minute.
        let owner = format!("owner {}", n / 50);
        let answer = crowd.submit(&owner, &format!("job {n}")).await;
        match Ticket::of(&owner, &answer) {
            Some(ticket) => {
                tickets.push(ticket);
                progress.accepted_jobs.fetch_add(1, Ordering::Relaxed);
            }
            None => refused.push(answer),
        }
        sleep(PAUSE).await;
    }
    (tickets, refused)
}

impl Progress {
    /// The number of the next request, if there is to be one.
    fn next(&self) -> Option<usize> {
        let stopping = self.stopping.load(Ordering::Relaxed);
        (!stopping).then(|| self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

impl Answers {
    /// Every question was answered, whatever went on.
    pub(super) fn all_good(&self) {
        for answer in &self.asked {
            assert_eq!(answer.status, 200, "{answer}");
        }
    }

    /// What was not answered with a result failed as the error table says
    /// (host/docs/interface/errors-and-limits.md#errors, host/docs/interface/decisions-http.md).
    pub(super) fn fail_as_the_table_says(&self) {
        for answer in &self.asked {
            let body = answer.body.as_str();
            match answer.status {
                200 => {}
                500 => assert_eq!(body, r#"{"error":"Internal server error"}"#, "{answer}"),
                503 => check_unavailable(answer),
                _ => panic!("{answer}"),
            }
        }
        assert!(self.asked.iter().any(|answer| answer.status == 200));
    }

    /// Jobs that were not accepted were told to come back, and some were: the queue was away.
    pub(super) fn some_were_refused(&self) {
        assert!(!self.refused.is_empty(), "the queue was away");
        self.refused_well();
    }

    /// Jobs that were not accepted were told to come back.
    pub(super) fn refused_well(&self) {
        self.refused.iter().for_each(check_unavailable);
    }

    /// Every job was accepted.
    pub(super) fn none_were_refused(&self) {
        assert!(self.refused.is_empty(), "{}", self.refused[0]);
    }
}

fn check_unavailable(answer: &Answer) {
    let unavailable = r#"{"error":"Service temporarily unavailable"}"#;
    assert_eq!((answer.status, answer.body.as_str()), (503, unavailable), "{answer}");
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0), "{answer}");
}

/// Waits until `/ready` answers with that status.
pub(super) async fn is_ready(service: &Service, status: u16) {
    let what = format!("/ready to say {status}");
    eventually(&what, async || (service.readiness().await.status == status).then_some(())).await;
}

/// The process that was started is the one that is there: it was never started again.
pub(super) async fn never_restarted(service: &Service, since: tokio::time::Instant) {
    let lasted = since.elapsed().as_secs_f64();
    let uptime = service.health().await.json()["uptime"].as_f64().unwrap();
    assert!(uptime >= lasted, "it has been up for {uptime} s of {lasted} s");
}
