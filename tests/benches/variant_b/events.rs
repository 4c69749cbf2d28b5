//! The stream of events that BullMQ keeps on Redis, in which both deployments say that a job has ended.
//! Reading it is what BullMQ's `QueueEvents` does, and the one way to learn of a result that both have.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use test_servers::Redis;

use crate::callers::Callers;
use crate::measuring::client::Connection;

/// How long a job may take before the bench gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What one XREAD answers: streams, their entries, the fields of each.
type Streams = Vec<(String, Vec<(String, HashMap<String, String>)>)>;

/// Who waits for which job.
pub(crate) struct Events(Arc<Mutex<HashMap<String, Slot>>>);

/// How whoever submitted a job learns of its end.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'a> {
    /// From BullMQ's events.
    InEvents(&'a Events),
    /// From the answer to `GET /api/agent/jobs/{id}?wait=60`, which carries the result.
    InAnswer,
}

impl Seen<'_> {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::InEvents(_) => "events",
            Self::InAnswer => "GET ?wait=",
        }
    }

    /// Submits a job and waits until its end is seen. Says whether it is completed.
    pub(crate) fn work_off(self, connection: &mut Connection, callers: &Callers) -> bool {
        let caller = callers.next(2);
        let response = connection.ask(&caller.post("/api/agent/async", r#"{"query":"hello"}"#));
        // Ours says 202, the peer 200.
        if !matches!(response.status, 200 | 202) {
            return false;
        }
        let submitted: Value = serde_json::from_slice(response.body).unwrap();
        let job_id = submitted["jobId"].as_str().expect("the id of a job");
        match self {
            Self::InEvents(events) => events.wait_for(job_id),
            Self::InAnswer => {
                let response = connection.ask(&caller.get(&format!("/api/agent/jobs/{job_id}?wait=60")));
                let completed = br#""status":"completed""#;
                response.status == 200
                    && response.body.windows(completed.len()).any(|window| window == completed)
            }
        }
    }
}

enum Slot {
    /// Whether it is completed; nobody has asked yet.
    Ended(bool),
    Awaited(mpsc::Sender<bool>),
}

impl Events {
    /// Of the queue on that Redis, from its first event on. Read until Redis is gone.
    pub(crate) fn of(redis: &Redis) -> Self {
        let mut connection = redis::Client::open(redis.url()).unwrap().get_connection().unwrap();
        let slots = Arc::new(Mutex::new(HashMap::new()));
        let told = slots.clone();
        thread::spawn(move || {
            let mut last = "0-0".to_owned();
            loop {
                let mut read = redis::cmd("XREAD");
                read.arg(&["BLOCK", "0", "COUNT", "1000", "STREAMS", "bull:agent-tasks:events", &last]);
                let Ok(streams) = read.query::<Streams>(&mut connection) else { return };
                for (id, fields) in streams.into_iter().flat_map(|(_, entries)| entries) {
                    tell(&told, &fields);
                    last = id;
                }
            }
        });
        Self(slots)
    }

    /// Waits until that job has ended. Says whether it is completed.
    pub(crate) fn wait_for(&self, job_id: &str) -> bool {
        let ended = {
            let mut slots = self.0.lock();
            if let Some(Slot::Ended(completed)) = slots.remove(job_id) {
                return completed;
            }
            let (sender, ended) = mpsc::channel();
            slots.insert(job_id.to_owned(), Slot::Awaited(sender));
            ended
        };
        ended.recv_timeout(PATIENCE).expect("a job ends")
    }
}

fn tell(slots: &Mutex<HashMap<String, Slot>>, fields: &HashMap<String, String>) {
    let completed = match fields.get("event").map(String::as_str) {
        Some("completed") => true,
        Some("failed") => false,
        _ => return,
    };
    let job_id = &fields["jobId"];
    let mut slots = slots.lock();
    match slots.remove(job_id) {
        Some(Slot::Awaited(sender)) => sender.send(completed).unwrap_or_default(),
        Some(Slot::Ended(_)) | None => drop(slots.insert(job_id.clone(), Slot::Ended(completed))),
    }
}
