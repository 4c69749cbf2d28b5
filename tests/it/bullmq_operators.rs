//! What operators do to the queue with Bull Board, which is done here with BullMQ itself: our workers and
//! those who wait for a job take it as Node's do. Bull Board's own buttons are pressed in `bull_board.rs`.

use acceptance::{Gate, Model, Peer, Redis, Service, Task, Token, eventually, says};
use serde_json::json;

const USER: &str = "u1";

struct Bench {
    _redis: Redis,
    model: Model,
    peer: Peer,
    service: Service,
}

async fn start() -> Bench {
    let (redis, model) = (Redis::start().await, Model::openai().await);
    model.always(|request| says(&request.user_text().to_uppercase()));
    let peer = Peer::on(&redis);
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    Bench { _redis: redis, model, peer, service }
}

impl Bench {
    /// Begins to wait for a job. Its answer is there when the job has ended or is gone.
    fn wait_for(&self, id: &str) -> Task<acceptance::Answer> {
        let (user, id) = (self.service.user(Token::of(USER).premium()), id.to_owned());
        Task::begin(async move { user.job(&format!("{id}?wait=60")).await })
    }

    /// Takes all five workers, so that further jobs wait.
    async fn occupy(&self) -> Vec<Gate> {
        let gates = (0..5).map(|_| self.model.holds(says("held"))).collect();
        self.peer.add("held", USER, 5).await;
        self.model.was_asked(5).await;
        gates
    }
}

#[tokio::test]
async fn a_paused_queue_rests_and_a_resumed_one_goes_on() {
    let bench = start().await;
    bench.peer.operate(&["pause"]).await;
    let ids = bench.peer.add("work", USER, 7).await;
    let user = bench.service.user(Token::of(USER).premium());
    assert_eq!(user.job(&ids[0]).await.json()["status"], "waiting");
    let waiting = bench.wait_for(&ids[6]);
    assert_eq!(bench.peer.counts().await["active"], 0);
    bench.peer.operate(&["resume"]).await;
    assert_eq!(waiting.ended().await.json()["status"], "completed");
}

/// The end of one job claims the next only while the queue is not paused.
#[tokio::test]
async fn nothing_is_claimed_with_the_end_of_a_job_while_the_queue_is_paused() {
    let bench = start().await;
    let gates = bench.occupy().await;
    let id = bench.peer.add("work", USER, 1).await.remove(0);
    bench.peer.operate(&["pause"]).await;
    gates.into_iter().for_each(Gate::open);
    acceptance::eventually("the others to be completed", async || {
        (bench.peer.counts().await["completed"] == 5).then_some(())
    })
    .await;
    assert_eq!(bench.model.calls().len(), 5);
    let waiting = bench.wait_for(&id);
    bench.peer.operate(&["resume"]).await;
    assert_eq!(waiting.ended().await.json()["result"]["output"], "WORK");
}

#[tokio::test]
async fn a_promoted_job_is_worked_on_at_once() {
    let bench = start().await;
    let hour = json!({ "delay": 3_600_000 });
    let id = bench.peer.add_with("work", USER, 1, &hour).await.remove(0);
    let user = bench.service.user(Token::of(USER).premium());
    assert_eq!(user.job(&id).await.json()["status"], "delayed");
    let waiting = bench.wait_for(&id);
    bench.peer.operate(&["promote", &id]).await;
    assert_eq!(waiting.ended().await.json()["status"], "completed");
}

#[tokio::test]
async fn a_job_that_is_retried_by_hand_is_worked_on_again() {
    let bench = start().await;
    let id = bench.peer.add("work", USER, 1).await.remove(0);
    assert_eq!(bench.wait_for(&id).ended().await.json()["status"], "completed");
    bench.peer.retry(&id, "completed").await;
    bench.model.was_asked(2).await;
    assert_eq!(bench.wait_for(&id).ended().await.json()["status"], "completed");
}

#[tokio::test]
async fn whoever_waits_for_a_job_that_an_operator_removes_is_told_at_once() {
    let bench = start().await;
    let _gates = bench.occupy().await;
    for action in ["remove", "clean"] {
        let id = bench.peer.add("unwanted", USER, 1).await.remove(0);
        let waiting = bench.wait_for(&id);
        let what = if action == "remove" { id.as_str() } else { "wait" };
        bench.peer.operate(&[action, what]).await;
        let started = tokio::time::Instant::now();
        let answer = waiting.ended().await;
        assert_eq!(answer.status, 404, "{action}: {answer}");
        // Waiters that only poll look every 20 s.
        assert!(started.elapsed().as_secs() < 10, "{action}: {:?}", started.elapsed());
    }
    assert_eq!(bench.model.calls().len(), 5);
}

#[tokio::test]
async fn an_obliterated_queue_takes_jobs_again_and_gives_no_id_twice() {
    let bench = start().await;
    let user = bench.service.user(Token::of(USER).premium());
    let before = user.job_for("before").await;
    assert_eq!(user.ended_job(&before).await["status"], "completed");
    bench.peer.operate(&["obliterate"]).await;
    // The queue has dropped it: its owner is answered from the record of its run.
    let own = async || user.job(&before).await.json()["result"]["output"] == "BEFORE";
    eventually("the job to be answered from its record", async || own().await.then_some(())).await;
    let after = user.job_for("after").await;
    assert_ne!(before, after);
    assert_eq!(user.ended_job(&after).await["result"]["output"], "AFTER");
    assert!(own().await, "it is no other job");
}

/// BullMQ tells nobody which jobs it obliterates, but its stream of events is another one afterwards.
#[tokio::test]
async fn whoever_waits_for_a_job_of_an_obliterated_queue_is_told_within_seconds() {
    let bench = start().await;
    let _gates = bench.occupy().await;
    let id = bench.peer.add("unwanted", USER, 1).await.remove(0);
    let waiting = bench.wait_for(&id);
    bench.peer.operate(&["obliterate"]).await;
    let started = tokio::time::Instant::now();
    let answer = waiting.ended().await;
    assert_eq!(answer.status, 404, "{answer}");
    // Readers who only poll look every 20 s; the stream is asked for at most 5 s at once.
    assert!(started.elapsed().as_secs() < 12, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_failed_job_that_is_retried_by_hand_is_a_new_attempt_for_who_waits() {
    let bench = start().await;
    bench.model.answers(401, &[], "");
    let id = bench.peer.add("work", USER, 1).await.remove(0);
    assert_eq!(bench.wait_for(&id).ended().await.json()["status"], "failed");
    bench.peer.retry(&id, "failed").await;
    let job = bench.wait_for(&id).ended().await.json();
    assert_eq!((&job["status"], &job["result"]["output"]), (&json!("completed"), &json!("WORK")), "{job:#}");
}

/// An operator who cleans what has ended takes nothing away from its owner.
#[tokio::test]
async fn a_completed_job_that_an_operator_cleans_is_answered_from_its_record() {
    let bench = start().await;
    let user = bench.service.user(Token::of(USER).premium());
    let id = user.job_for("work").await;
    assert_eq!(user.ended_job(&id).await["status"], "completed");
    bench.peer.operate(&["clean", "completed"]).await;
    assert_eq!(bench.peer.counts().await["completed"], 0);
    eventually("the job to be answered from its record", async || {
        (user.job(&id).await.json()["result"]["output"] == "WORK").then_some(())
    })
    .await;
}
