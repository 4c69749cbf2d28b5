//! Many clients at once, replicas that are killed meanwhile, and everything that each client was told: for
//! jobs, conversations and idempotency keys that has to be linearizable. There is one order of all requests
//! in which each comes between its beginning and its answer, and in which one replica that is never killed
//! would have answered alike (`specs.rs`). A request without an answer may have been carried out or not. What
//! it made is in the list of jobs at the end.

mod specs;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use acceptance::{Answer, Component, Model, Random, Service, Stores, Task, Token, User, asks_for, says};
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester, SequentialSpec};
use tokio::time::sleep;

use self::specs::{
    Choice, Conversation, ConversationAnswer, ConversationOp, End, Job, JobAnswer, JobOp, Key, Submit,
};
use super::waits::start_at;

/// Decides who asks when, and who is killed.
const SEED: u64 = 27;

const JOBS: usize = 12;
const CONVERSATIONS: usize = 3;
const TURNS: usize = 3;
/// How many clients each object has.
const CLIENTS: usize = 3;
const KILLS: usize = 5;

/// What clients asked of one object and were told, as time went by.
struct History<S: SequentialSpec>(Mutex<Vec<Moment<S>>>);

enum Moment<S: SequentialSpec> {
    Asked(S::Op),
    /// The answer to the request that was the so manieth moment.
    Told(usize, S::Ret),
    /// The request of that number certainly did nothing.
    Refused(usize),
}

/// What a client makes of an answer.
enum Told<R> {
    Answer(R),
    Refused,
    /// There was none, or none that says what was done.
    Nothing,
}

impl<S> History<S>
where
    S: SequentialSpec + Clone + Default + Send + 'static,
    S::Op: Clone + Debug + PartialEq + Send,
    S::Ret: Clone + Debug + Send,
{
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::default()))
    }

    /// Asks, and notes what was answered if it was.
    async fn ask(&self, op: S::Op, told: impl Future<Output = Told<S::Ret>>) -> Option<S::Ret> {
        let number = {
            let mut moments = self.0.lock();
            moments.push(Moment::Asked(op));
            moments.len() - 1
        };
        match told.await {
            Told::Answer(answer) => {
                self.0.lock().push(Moment::Told(number, answer.clone()));
                Some(answer)
            }
            Told::Refused => {
                self.0.lock().push(Moment::Refused(number));
                None
            }
            Told::Nothing => None,
        }
    }

    /// Fails when no order of the requests explains the answers.
    ///
    /// A request without an answer may have been carried out at any time or never. The search goes by the
    /// numbers, so such requests have the highest: they are tried where nothing else explains an answer. From
    /// one that comes too early it would find back only behind all orders of what came later. Of equal ones
    /// the first stands for all: what the second would do is done by then.
    fn check(&self, what: &str) {
        let moments = self.0.lock();
        let (mut refused, mut answered, mut unanswered) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for moment in moments.iter() {
            match moment {
                Moment::Refused(number) => refused.insert(*number),
                Moment::Told(number, _) => answered.insert(*number),
                Moment::Asked(_) => false,
            };
        }
        let mut tester = LinearizabilityTester::new(S::default());
        let mut lines = Vec::new();
        for (number, moment) in moments.iter().enumerate() {
            match moment {
                Moment::Asked(_) if refused.contains(&number) => {}
                Moment::Asked(op) => {
                    lines.push(format!("{number} asks {op:?}"));
                    if answered.contains(&number) {
                        tester.on_invoke(number, op.clone()).unwrap();
                    } else if !unanswered.contains(&op) {
                        tester.on_invoke(moments.len() + number, op.clone()).unwrap();
                        unanswered.push(op);
                    }
                }
                Moment::Told(request, answer) => {
                    lines.push(format!("{request} is told {answer:?}"));
                    tester.on_return(*request, answer.clone()).unwrap();
                }
                Moment::Refused(_) => {}
            }
        }
        assert!(is_found(tester), "{what}: no order explains that\n{}", lines.join("\n"));
    }

    /// What clients were told, in this order.
    fn answers(&self) -> Vec<S::Ret> {
        let moments = self.0.lock();
        let told = moments.iter().filter_map(|moment| match moment {
            Moment::Told(_, answer) => Some(answer.clone()),
            Moment::Asked(_) | Moment::Refused(_) => None,
        });
        told.collect()
    }
}

/// Whether an order explains the answers. The search finds one at once, and may take for ever to be sure that
/// there is none.
fn is_found<S>(tester: LinearizabilityTester<usize, S>) -> bool
where
    S: SequentialSpec + Clone + Send + 'static,
    S::Op: Clone + Debug + Send,
    S::Ret: Clone + Debug + Send,
{
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(tester.is_consistent()));
    told.recv_timeout(Duration::from_secs(20)).unwrap_or(false)
}

/// The replicas, by the places at which clients find them.
struct Replicas {
    stores: Stores,
    model: Model,
    running: Vec<Service>,
}

impl Replicas {
    async fn start(stores: Stores, count: usize) -> Self {
        let model = Model::openai().await;
        model.always(|request| match request.tool_results().first() {
            _ if !request.user_text().starts_with("pay") => says("heard"),
            None => asks_for("calculate", json!({ "expression": "6 * 7" })),
            Some(result) if result.contains("42") => says("approved"),
            Some(_) => says("rejected"),
        });
        let mut this = Self { stores, model, running: Vec::new() };
        for _ in 0..count {
            let replica = this.replica(None).await;
            this.running.push(replica);
        }
        this
    }

    async fn replica(&self, port: Option<u16>) -> Service {
        let calculator = Component::shipped("calculator");
        let builder = self.stores.service(&self.model).granting([(&calculator, "approve = \"always\"\n")]);
        start_at(builder, port).await
    }

    /// One user, at each of them.
    fn users(&self) -> Vec<User> {
        let token = Token::of("ada");
        self.running.iter().map(|replica| replica.user(&token)).collect()
    }

    /// Kills one and starts it again at its address.
    async fn kill(&mut self, random: &mut Random) {
        let killed = usize::try_from(random.below(self.running.len() as u64)).unwrap();
        let mut service = self.running.remove(killed);
        service.killed().await;
        let again = self.replica(Some(service.address().port())).await;
        self.running.insert(killed, again);
    }
}

/// One client of one object.
struct Client {
    users: Vec<User>,
    random: Random,
}

impl Client {
    fn new(users: &[User], number: usize) -> Self {
        Self { users: users.to_vec(), random: Random::seeded(SEED.wrapping_mul(number as u64 + 1)) }
    }

    /// At whichever replica is its turn.
    fn user(&mut self) -> User {
        let index = usize::try_from(self.random.below(self.users.len() as u64)).unwrap();
        self.users[index].clone()
    }

    async fn pause(&mut self) {
        sleep(Duration::from_millis(20 + self.random.below(150))).await;
    }
}

/// An answer with which a client can begin something.
async fn sent<R>(user: &User, request: RequestBuilder, read: impl FnOnce(&Answer) -> Option<R>) -> Told<R> {
    match user.try_send(request).await {
        Ok(answer) if answer.status == 429 => Told::Refused,
        Ok(answer) if answer.status < 500 => match read(&answer) {
            Some(told) => Told::Answer(told),
            None => Told::Refused,
        },
        // Also one that broke off, and a failure that may have come behind what was asked for.
        Ok(_) | Err(_) => Told::Nothing,
    }
}

fn keyed(user: &User, path: &str, key: &str, body: &Value) -> RequestBuilder {
    let request = user.request(Method::POST, path).header("content-type", "application/json");
    request.header("idempotency-key", format!("\"{key}\"")).body(body.to_string())
}

/// Submits under the key until somebody has taken it: the job.
async fn submit(client: &mut Client, key: &str, history: &History<Key>, body: &Value) -> String {
    loop {
        let user = client.user();
        let request = keyed(&user, "/api/agent/async", key, body);
        let accepted = sent(&user, request, |answer| match answer.status {
            202 => Some(answer.json()["jobId"].as_str().unwrap().to_owned()),
            // Another request with the key is being answered.
            409 => None,
            _ => panic!("{answer}"),
        });
        if let Some(job) = history.ask(Submit, accepted).await {
            return job;
        }
        client.pause().await;
    }
}

fn job_answer(job: &Value) -> JobAnswer {
    let status = job["status"].as_str().unwrap();
    match (status, job["result"]["output"].as_str()) {
        ("waiting" | "active" | "parked" | "delayed", _) => {
            JobAnswer::UnderWay { is_parked: status == "parked" }
        }
        ("cancelled", _) => JobAnswer::Ended(End::Cancelled),
        ("completed", Some("approved")) => JobAnswer::Ended(End::Completed(Choice::Approve)),
        ("completed", Some("rejected")) => JobAnswer::Ended(End::Completed(Choice::Reject)),
        _ => panic!("{job:#}"),
    }
}

/// Reads the job, and decides about it or cancels it in between, until it has ended.
async fn decide_and_read(mut client: Client, number: usize, job: String, history: Arc<History<Job>>) {
    let choice = if number.is_multiple_of(2) { Choice::Approve } else { Choice::Reject };
    let cancels = number % CLIENTS == 2 && client.random.below(2) == 0;
    loop {
        let (user, mut wait) = (client.user(), Value::Null);
        let request = user.request(Method::GET, &format!("/api/agent/jobs/{job}"));
        let read = sent(&user, request, |answer| {
            assert_eq!(answer.status, 200, "{answer}");
            let job = answer.json();
            wait = job["waits"][0].clone();
            Some(job_answer(&job))
        });
        let told = history.ask(JobOp::Read, read).await;
        if matches!(told, Some(JobAnswer::Ended(_))) {
            return;
        }
        let user = client.user();
        if cancels && client.random.below(3) == 0 {
            let request = user.request(Method::POST, &format!("/api/agent/jobs/{job}/cancel"));
            let cancelled = sent(&user, request, |answer| match answer.status {
                202 => Some(JobAnswer::Taken),
                409 => Some(JobAnswer::Late),
                _ => panic!("{answer}"),
            });
            history.ask(JobOp::Cancel, cancelled).await;
        } else if wait["waitId"].is_string() {
            let decision = match choice {
                Choice::Approve => json!({ "decision": "approve" }),
                Choice::Reject => json!({ "decision": "reject" }),
            };
            let decided = sent(&user, user.deciding(&wait, &decision), |answer| match answer.status {
                200 => Some(JobAnswer::Taken),
                409 if answer.body.contains("was decided by") => Some(JobAnswer::DecidedBefore),
                409 => Some(JobAnswer::Late),
                _ => panic!("{answer}"),
            });
            history.ask(JobOp::Decide(choice), decided).await;
        }
        client.pause().await;
    }
}

/// Adds turns to the conversation, by requests and by jobs, and reads it in between.
async fn converse(mut client: Client, number: usize, name: String, history: Arc<History<Conversation>>) {
    for turn in 0..TURNS {
        read(&mut client, &name, &history).await;
        let text = format!("turn {turn} of {number}");
        let body = json!({ "query": text, "options": { "conversationId": name } });
        let (key, op) = (format!("{name}-{number}-{turn}"), ConversationOp::Add(text));
        let added = Box::pin(add(&mut client, number.is_multiple_of(2), &key, &body));
        history
            .ask(op, async {
                added.await;
                Told::Answer(ConversationAnswer::Added)
            })
            .await;
    }
    read(&mut client, &name, &history).await;
}

/// Asks until that has become a turn, whoever is killed meanwhile: with its key it becomes one.
async fn add(client: &mut Client, by_a_job: bool, key: &str, body: &Value) {
    if by_a_job {
        let job = submit(client, key, &History::new(), body).await;
        loop {
            let user = client.user();
            let request = user.request(Method::GET, &format!("/api/agent/jobs/{job}?wait=5"));
            if let Ok(answer) = user.try_send(request).await {
                match &answer.json()["status"] {
                    status if status == "completed" => return,
                    status => assert!(status != "failed", "{answer}"),
                }
            }
            client.pause().await;
        }
    }
    loop {
        let user = client.user();
        let answer = user.try_send(keyed(&user, "/api/agent", key, body)).await;
        match answer {
            Ok(answer) if answer.status == 200 => {
                assert!(answer.json().get("conversationKept").is_none(), "{answer}");
                return;
            }
            Ok(answer) => assert!(answer.status == 409 || answer.status >= 500, "{answer}"),
            Err(_) => {}
        }
        client.pause().await;
    }
}

async fn read(client: &mut Client, name: &str, history: &History<Conversation>) {
    let user = client.user();
    let request = user.request(Method::GET, &format!("/api/agent/conversations/{name}"));
    let turns = sent(&user, request, |answer| {
        let turns = if answer.status == 404 { Value::Null } else { answer.json()["turns"].take() };
        let text = |turn: &Value| turn["messages"][0]["content"].as_str().unwrap().to_owned();
        Some(ConversationAnswer::Turns(turns.as_array().into_iter().flatten().map(text).collect()))
    });
    history.ask(ConversationOp::Read, turns).await;
}

/// Each key has made one job: a second one of which no client was told is in the user's list all the same.
async fn check_the_list_of_jobs(user: &User, keys: impl Iterator<Item = &History<Key>>) {
    let listed = user.jobs("?limit=100").await;
    assert_eq!(listed.status, 200, "{listed}");
    let page = listed.json();
    assert!(page["nextCursor"].is_null(), "the page has all jobs: {page:#}");
    let jobs = page["data"].as_array().unwrap();
    let (turns, payments): (Vec<_>, Vec<_>) = jobs.iter().partition(|job| job["result"]["output"] == "heard");
    let mut payments: Vec<_> = payments.into_iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    payments.sort_unstable();
    let told: BTreeSet<String> = keys.flat_map(History::answers).collect();
    assert!(payments.iter().eq(&told), "one job of each payment: {page:#}");
    assert_eq!(payments.len(), JOBS, "{page:#}");
    let by_jobs = (0..CLIENTS).filter(|number| number.is_multiple_of(2)).count();
    assert_eq!(turns.len(), CONVERSATIONS * TURNS * by_jobs, "one job of each turn: {page:#}");
}

async fn check_histories(stores: Stores, replicas: usize) {
    let mut replicas = Replicas::start(stores, replicas).await;
    let (users, mut clients) = (replicas.users(), Vec::new());
    let jobs: [_; JOBS] = std::array::from_fn(|_| (History::<Key>::new(), History::<Job>::new()));
    let conversations: [_; CONVERSATIONS] = std::array::from_fn(|_| History::<Conversation>::new());
    for number in 0..CLIENTS {
        for (name, (keys, job)) in jobs.iter().cloned().enumerate() {
            let mut client = Client::new(&users, name * CLIENTS + number);
            clients.push(Task::begin(async move {
                let body = json!({ "query": format!("pay {name}") });
                let id = submit(&mut client, &format!("job-{name}"), &keys, &body).await;
                decide_and_read(client, number, id, job).await;
            }));
        }
        for (name, history) in conversations.iter().cloned().enumerate() {
            let client = Client::new(&users, (JOBS + name) * CLIENTS + number);
            clients.push(Task::begin(converse(client, number, format!("c{name}"), history)));
        }
    }
    let mut random = Random::seeded(SEED);
    for _ in 0..KILLS {
        sleep(Duration::from_millis(100 + random.below(700))).await;
        replicas.kill(&mut random).await;
    }
    for client in clients {
        client.ended().await;
    }
    for (number, (keys, job)) in jobs.iter().enumerate() {
        keys.check(&format!("key {number}"));
        job.check(&format!("job {number}"));
        let answers = (keys.answers().len(), job.answers().len());
        assert!(answers.0 == CLIENTS && answers.1 > CLIENTS, "job {number} was asked about");
    }
    check_the_list_of_jobs(&replicas.users()[0], jobs.iter().map(|(keys, _)| &**keys)).await;
    for (number, history) in conversations.iter().enumerate() {
        history.check(&format!("conversation {number}"));
    }
}

#[tokio::test]
async fn what_clients_are_told_over_kills_is_linearizable_with_everything_in_one_file() {
    check_histories(Stores::embedded(), 1).await;
}

#[tokio::test]
async fn what_clients_are_told_over_kills_is_linearizable_with_jobs_on_redis() {
    check_histories(Stores::redis_and_mongo().await, 2).await;
}

#[tokio::test]
async fn what_clients_are_told_over_kills_is_linearizable_on_postgresql() {
    check_histories(Stores::postgres().await, 2).await;
}
