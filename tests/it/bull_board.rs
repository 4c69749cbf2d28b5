//! What an operator does to the queue by the buttons of Bull Board: the requests of its page, sent to Bull
//! Board itself while the service works on the queue.

use acceptance::{Answer, Model, Peer, PeerServer, Redis, Service, Task, Token, User, eventually, says};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::time::Instant;

const USER: &str = "u1";

struct Desk {
    _redis: Redis,
    model: Model,
    service: Service,
    board: PeerServer,
}

/// In this order on one service, which has a job of its own for each.
#[tokio::test]
async fn the_buttons_of_bull_board_do_to_the_queue_what_they_say() {
    let redis = Redis::start().await;
    let model = Model::openai().await;
    model.always(|request| says(&request.user_text().to_uppercase()));
    let service = Service::variant_b().redis(&redis).model(&model).start().await;
    let board = Peer::on(&redis).board().await;
    let desk = Desk { _redis: redis, model, service, board };
    desk.sees_the_worker().await;
    desk.pauses_and_resumes().await;
    desk.retries().await;
    desk.adds_and_promotes().await;
    desk.removes().await;
    desk.cleans().await;
    desk.obliterates().await;
}

impl Desk {
    async fn sees_the_worker(&self) {
        let works = async || self.queue().await["hasWorkers"] == true;
        eventually("the service to be seen as a worker", async || works().await.then_some(())).await;
    }

    async fn pauses_and_resumes(&self) {
        self.press("pause").await;
        let id = self.user().job_for("paused").await;
        // Workers that did not know would have asked for it meanwhile.
        let job = self.user().job(&format!("{id}?wait=2")).await.json();
        assert_eq!(job["status"], "waiting", "{job:#}");
        assert_eq!(self.model.calls().len(), 0);
        let queue = self.queue().await;
        let counts = ["waiting", "active", "completed"].map(|state| queue["counts"][state].as_u64());
        assert_eq!((&queue["isPaused"], counts), (&json!(true), [Some(1), Some(0), Some(0)]), "{queue:#}");
        assert_eq!(queue["jobs"][0]["id"], id, "{queue:#}");

        self.press("resume").await;
        self.ends_with(&id, "PAUSED").await;
        let page = self.page(&id).await.json();
        assert_eq!(page["status"], "completed", "{page:#}");
        assert_eq!(page["job"]["returnValue"]["output"], "PAUSED", "{page:#}");
        assert_eq!(page["job"]["data"], json!({ "query": "paused", "userId": USER }), "{page:#}");
    }

    async fn retries(&self) {
        self.model.answers(401, &[], "");
        let id = self.user().job_for("retried").await;
        let job = self.user().ended_job(&id).await;
        assert_eq!(job["status"], "failed", "{job:#}");
        let page = self.page(&id).await.json();
        assert_eq!((&page["status"], &page["job"]["isFailed"]), (&json!("failed"), &json!(true)), "{page:#}");
        assert_eq!(page["job"]["failedReason"], job["error"], "{page:#}");

        self.press(&format!("{id}/retry")).await;
        self.ends_with(&id, "RETRIED").await;
    }

    async fn adds_and_promotes(&self) {
        let options = json!({ "delay": 3_600_000 });
        let job =
            json!({ "name": "invoke", "data": { "query": "later", "userId": USER }, "options": options });
        let added = self.board.post("/api/queues/agent-tasks/add", job.to_string()).await;
        assert_eq!(added.status, 200, "{added}");
        let id = added.json()["job"]["id"].as_str().expect("the id of a job").to_owned();
        assert_eq!(self.user().job(&id).await.json()["status"], "delayed");

        self.press(&format!("{id}/promote")).await;
        self.ends_with(&id, "LATER").await;
    }

    async fn removes(&self) {
        self.press("pause").await;
        let id = self.user().job_for("removed").await;
        let waiting = self.wait_for(&id).await;
        self.press(&format!("{id}/clean")).await;
        is_told_that_it_is_gone(waiting).await;
        self.press("resume").await;
    }

    /// What has ended within the last 5 s is left alone by Bull Board.
    async fn cleans(&self) {
        let id = self.user().job_for("cleaned").await;
        self.ends_with(&id, "CLEANED").await;
        eventually("the job to be cleaned", async || {
            self.press("clean/completed").await;
            (self.page(&id).await.status == 404).then_some(())
        })
        .await;
        let queue = self.queue().await;
        assert_eq!(queue["counts"]["completed"], 0, "{queue:#}");
        // The job's owner is answered from the record of its run.
        let job = self.user().job(&id).await.json();
        assert_eq!((&job["status"], &job["result"]["output"]), (&json!("completed"), &json!("CLEANED")));
    }

    async fn obliterates(&self) {
        let before = self.user().job_for("before").await;
        self.ends_with(&before, "BEFORE").await;
        // Bull Board obliterates paused queues only.
        self.press("pause").await;
        let unwanted = self.user().job_for("unwanted").await;
        let waiting = self.wait_for(&unwanted).await;
        self.press("obliterate").await;
        is_told_that_it_is_gone(waiting).await;
        let own = async || self.user().job(&before).await.json()["result"]["output"] == "BEFORE";
        eventually("the job to be answered from its record", async || own().await.then_some(())).await;

        // BullMQ counts ids from 1 again.
        let after = self.user().job_for("after").await;
        assert!(![&before, &unwanted].contains(&&after), "{after}");
        self.ends_with(&after, "AFTER").await;
        assert!(own().await, "it is no other job");
        let gone = self.user().job(&unwanted).await;
        assert_eq!(gone.status, 404, "{gone}");
        let calls = self.model.calls();
        let asked = calls.iter().filter(|request| request.user_text() == "unwanted").count();
        assert_eq!(asked, 0);
    }

    fn user(&self) -> User {
        self.service.user(Token::of(USER).premium())
    }

    /// Sends what a button of the page sends.
    async fn press(&self, button: &str) {
        let request = self.board.request(Method::PUT, &format!("/api/queues/agent-tasks/{button}"));
        let answer = self.board.send(request.header(CONTENT_TYPE, "application/json").body("{}")).await;
        assert!([200, 204].contains(&answer.status), "{button}: {answer}");
    }

    /// A job's page.
    async fn page(&self, id: &str) -> Answer {
        self.board.get(&format!("/api/queues/agent-tasks/{id}")).await
    }

    /// The page of the queue, with the latest jobs.
    async fn queue(&self) -> Value {
        let parameters = "activeQueue=agent-tasks&status=latest&page=1&jobsPerPage=10";
        let answer = self.board.get(&format!("/api/queues?{parameters}")).await;
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()["queues"][0].take()
    }

    /// Begins to wait for a job that waits. Its answer is there when the job has ended or is gone.
    async fn wait_for(&self, id: &str) -> Task<Answer> {
        let (user, held) = (self.user(), format!("{id}?wait=60"));
        let waiting = Task::begin(async move { user.job(&held).await });
        assert_eq!(self.user().job(id).await.json()["status"], "waiting");
        waiting
    }

    async fn ends_with(&self, id: &str, output: &str) {
        self.user().completed_job(id, output).await;
    }
}

/// Readers who only poll look every 20 s; the stream of events of an obliterated queue is asked for at most 5
/// s at once.
async fn is_told_that_it_is_gone(waiting: Task<Answer>) {
    let started = Instant::now();
    let answer = waiting.ended().await;
    assert_eq!(answer.status, 404, "{answer}");
    assert!(started.elapsed().as_secs() < 12, "{:?}", started.elapsed());
}
