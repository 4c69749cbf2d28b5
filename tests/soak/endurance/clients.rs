//! Who asks: questions that are new, questions that are known, jobs. Each answer is held against what was
//! asked.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use acceptance::{Answer, Component, Random, Service, Token};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// The pause of a client between two questions, at most.
const MOST_PAUSE_MS: u64 = 60;

/// How many questions are asked again and again.
const KNOWN: u64 = 20;

/// How long after an outage jobs may still be refused: breakers and connections take some seconds to come
/// back.
const AFTER_OUTAGE: Duration = Duration::from_secs(15);

/// How long a job may take, outages included.
const PATIENCE: Duration = Duration::from_secs(100);

/// Most things that are told of what was wrong.
const MOST_TOLD: usize = 20;

/// What all clients have found.
#[derive(Debug)]
pub(super) struct Findings {
    answers: Mutex<BTreeMap<(&'static str, u16), usize>>,
    wrong: Mutex<Vec<String>>,
    outages: Mutex<Vec<Window>>,
    /// The versions of the tool that may answer, and whether they have.
    versions: Mutex<BTreeMap<String, bool>>,
}

#[derive(Debug, Clone, Copy)]
struct Window {
    began: Instant,
    ended: Option<Instant>,
}

/// One that asks.
pub(super) struct Client<'a> {
    number: u64,
    random: Random,
    replicas: &'a [Service; 2],
    findings: &'a Findings,
}

impl Findings {
    pub(super) fn new(first_version: &Component) -> Self {
        let versions = Mutex::new(BTreeMap::from([(first_version.id(), true)]));
        Self { answers: Mutex::default(), wrong: Mutex::default(), outages: Mutex::default(), versions }
    }

    /// From now on this version may answer.
    pub(super) fn may_serve(&self, version: &Component) {
        self.versions.lock().insert(version.id(), false);
    }

    /// Whether that version may answer, which it has.
    fn has_answered(&self, version: &str) -> bool {
        self.versions.lock().get_mut(version).map(|has_answered| *has_answered = true).is_some()
    }

    /// Whether no version has answered that was swapped for the first one.
    pub(super) fn none_was_swapped(&self) -> bool {
        self.versions.lock().values().filter(|has_answered| **has_answered).count() < 2
    }

    pub(super) fn outage_begins(&self) {
        self.outages.lock().push(Window { began: Instant::now(), ended: None });
    }

    pub(super) fn outage_ends(&self) {
        if let Some(last) = self.outages.lock().last_mut() {
            last.ended = Some(Instant::now());
        }
    }

    /// From when to when, in seconds since the beginning.
    pub(super) fn outages(&self, began: Instant) -> Vec<(f64, f64)> {
        let since = |at: Instant| at.duration_since(began).as_secs_f64();
        let window = |window: &Window| (since(window.began), since(window.ended.unwrap_or(window.began)));
        self.outages.lock().iter().map(window).collect()
    }

    pub(super) fn answers(&self) -> usize {
        self.answers.lock().values().sum()
    }

    pub(super) fn wrong(&self) -> Vec<String> {
        self.wrong.lock().clone()
    }

    pub(super) fn table(&self) -> String {
        let mut table = "\n| asked | status | answers |\n|---|--:|--:|\n".to_owned();
        for ((what, status), count) in &*self.answers.lock() {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "| {what} | {status} | {count} |");
        }
        table
    }

    fn count(&self, what: &'static str, status: u16) {
        *self.answers.lock().entry((what, status)).or_default() += 1;
    }

    pub(super) fn complain(&self, text: String) {
        let mut wrong = self.wrong.lock();
        if wrong.len() < MOST_TOLD {
            wrong.push(text);
        }
    }

    /// Whether an outage reaches into that time.
    fn excuses(&self, from: Instant, to: Instant) -> bool {
        let reaches = |window: &Window| {
            window.began <= to && window.ended.is_none_or(|ended| from <= ended + AFTER_OUTAGE)
        };
        self.outages.lock().iter().any(reaches)
    }
}

impl<'a> Client<'a> {
    pub(super) fn new(number: u64, seed: u64, replicas: &'a [Service; 2], findings: &'a Findings) -> Self {
        let random = Random::seeded(seed.wrapping_add(number << 32));
        Self { number, random, replicas, findings }
    }

    /// Asks one thing after the other. Where little time is to be endured, the first version that was put may
    /// still be compiled at its end.
    pub(super) async fn ask_until(mut self, end: Instant) {
        let (mut asked, findings) = (self.number << 32, self.findings);
        let is_late = || findings.none_was_swapped() && Instant::now() < end + PATIENCE;
        while Instant::now() < end || is_late() {
            asked += 1;
            match self.random.below(10) {
                0..=2 => self.ask("new question", format!("word {asked}")).await,
                3..=5 => self.ask("new question with a tool", format!("add one to {asked}")).await,
                6..=7 => {
                    let known = self.random.below(KNOWN);
                    self.ask("known question", format!("known {known}")).await;
                }
                _ => self.submit(format!("add one to {asked}")).await,
            }
            sleep(Duration::from_millis(self.random.below(MOST_PAUSE_MS))).await;
        }
    }

    /// Requests are answered whatever becomes of the stores.
    async fn ask(&mut self, what: &'static str, query: String) {
        let body = json!({ "query": query }).to_string();
        let Some(answer) = self.send(what, Method::POST, "/api/agent", body).await else { return };
        if answer.status == 200 {
            self.check(what, &query, &answer.json());
        } else {
            self.findings.complain(format!("{what} {query:?}: {answer}"));
        }
    }

    /// Jobs may be refused while a store is away. One that was accepted comes to its end.
    async fn submit(&mut self, query: String) {
        let began = Instant::now();
        let body = json!({ "query": query }).to_string();
        let Some(answer) = self.send("job submitted", Method::POST, "/api/agent/async", body).await else {
            return;
        };
        let (submitted, id) = (began.elapsed(), answer.json()["jobId"].take());
        let Some(id) = id.as_str().filter(|_| answer.status == 202) else {
            let excused = answer.status == 503 && self.findings.excuses(began, began + submitted);
            if !excused {
                self.findings.complain(format!("job {query:?}: {answer}"));
            }
            return;
        };
        while began.elapsed() < PATIENCE {
            let asked = Instant::now();
            let path = format!("/api/agent/jobs/{id}?wait=10");
            let Some(answer) = self.send("job read", Method::GET, &path, String::new()).await else { return };
            let job = answer.json();
            let excused = answer.status == 503 && self.findings.excuses(asked, Instant::now());
            if job["status"] == "completed" {
                return self.check("job", &query, &job["result"]);
            } else if job["status"] == "failed" || !(answer.status == 200 || excused) {
                return self.findings.complain(format!("job {query:?}: {answer}"));
            } else if excused {
                sleep(Duration::from_millis(MOST_PAUSE_MS)).await;
            }
        }
        self.findings.complain(format!("job {query:?} ({id}) did not end in {} s", PATIENCE.as_secs()));
    }

    async fn send(&mut self, what: &'static str, method: Method, path: &str, body: String) -> Option<Answer> {
        let replica = self.random.pick(&[&self.replicas[0], &self.replicas[1]]);
        let user = replica.user(Token::of(format!("user-{}", self.number)).premium());
        let request = user.request(method, path).header("content-type", "application/json").body(body);
        match replica.caller().try_send(request).await {
            Ok(answer) => {
                self.findings.count(what, answer.status);
                Some(answer)
            }
            Err(error) => {
                self.findings.complain(format!("{what}: there is no answer: {error:?}"));
                None
            }
        }
    }

    /// A tool's answer comes from a version that was there.
    fn check(&self, what: &str, query: &str, result: &Value) {
        let output = result["output"].as_str().unwrap_or_default();
        let is_right = match query.strip_prefix("add one to ").and_then(|number| number.parse::<u64>().ok()) {
            None => output == format!("heard {query}"),
            Some(number) => {
                let version = result["toolCalls"][0]["component"].as_str().unwrap_or_default();
                output.contains(&format!("\"{}\"", number + 1)) && self.findings.has_answered(version)
            }
        };
        if !is_right {
            self.findings.complain(format!("{what} {query:?}: {result}"));
        }
    }
}
