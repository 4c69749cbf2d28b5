//! Streams: runs that are watched while they go on, and gone on with on another replica after the connection
//! was lost.

use std::time::Duration;

use agent_core::words::{Event, Principal};
use futures::FutureExt as _;
use run_service::layers::{Ask, InvokeError};
use run_service::streams::{FirstReader, Followed, Following, FoundRun, Interruption, OnDisconnect, RunEnd};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Client, TRIES};
use crate::judge::promises::{SeenStream, ToldEnd};
use crate::plan::Plan;
use crate::world::World;

const STORED_FIRST: &str = "an event is given to readers once it is stored";
const FOUND: &str = "a run that was shown is found";

enum Connection {
    Ended(RunEnd),
    Interrupted(Interruption),
    Lost,
}

/// How a stream is asked for.
enum From {
    Run(Box<Ask>),
    Found(FoundRun, u64),
    Job(String, String, u64),
}

impl Client {
    pub(super) async fn stream_a_run(&mut self) {
        let user = self.user();
        let number = self.world.promises.lock().next_plan();
        let plan = Plan::of(self.world.seed, number);
        let mut ask = Ask::new(String::new(), plan.input());
        ask.request_id.clone_from(&ask.run_id);
        ask.principal = user.clone();
        let run_id = ask.run_id.clone();
        let wants_no_end = self.random.u32(0..6) == 0;
        let mut events = Vec::new();
        let mut connection = self.connect(From::Run(Box::new(ask)), &mut events).await;
        if wants_no_end {
            self.cancel_run(run_id.clone()).await;
        }
        let (mut told, mut had_answer, mut unknown) = (None, false, 0);
        loop {
            match connection {
                Connection::Ended(RunEnd::Failed(InvokeError::Waits { job_id })) => {
                    let owner = user.user_id.clone().unwrap_or_default();
                    self.goes_on(owner, Some(plan.clone()), job_id).await;
                }
                Connection::Ended(end) => told = ToldEnd::of(&end, had_answer),
                // Whoever decides is waited for by others.
                Connection::Interrupted(Interruption::Waiting) => break,
                Connection::Interrupted(_) | Connection::Lost => {
                    self.pause(1_000).await;
                    let found = self.find(&run_id).await;
                    if matches!(found, Some(None)) {
                        // Nothing of it was stored when its replica died.
                        unknown += 1;
                        self.world.holds(events.is_empty(), FOUND, || run_id.clone());
                        if unknown > TRIES {
                            break;
                        }
                    }
                    let Some(Some(found)) = found else {
                        connection = Connection::Lost;
                        continue;
                    };
                    self.world.reached("a stream was resumed");
                    had_answer = self.world.has_answer(&run_id);
                    connection = self.connect(From::Found(found, next(&events)), &mut events).await;
                    continue;
                }
            }
            break;
        }
        let is_answered = matches!(told, Some(ToldEnd::Answer { .. }));
        self.world.promises.lock().streams.push(SeenStream { run_id, events, is_answered, told });
    }

    /// Reads the events of a job's run.
    pub(super) async fn follow_job(&mut self, user: &Principal, job_id: &str) {
        let user_id = user.user_id.clone().unwrap_or_default();
        let mut events = Vec::new();
        let told = loop {
            let from = From::Job(user_id.clone(), job_id.to_owned(), next(&events));
            match self.connect(from, &mut events).await {
                Connection::Ended(end) => break ToldEnd::of(&end, false),
                Connection::Interrupted(Interruption::Waiting) => sleep(Duration::from_secs(2)).await,
                Connection::Interrupted(_) | Connection::Lost => self.pause(1_000).await,
            }
            if self.world.is_undone(job_id) && self.world.queue.find(job_id).is_none() {
                return;
            }
            self.world.reached("a stream of a job was resumed");
        };
        let was_retried = self.world.promises.lock().retried.contains(job_id);
        if was_retried {
            // What it was shown may be of two runs.
            return self.read_to_its_end(user, job_id).await;
        }
        // The queue may have forgotten the job, of whose run the first event says the id.
        let shown = events.first().and_then(|(_, event)| match event {
            Event::Started { task, .. } => Some(task.id.clone()),
            _ => None,
        });
        let run_id = shown.or_else(|| Some(self.world.queue.find(job_id)?.run_id)).unwrap_or_default();
        self.world.promises.lock().streams.push(SeenStream { run_id, events, is_answered: false, told });
        self.read_to_its_end(user, job_id).await;
    }

    /// The run, if there is one; nothing when nobody says so.
    async fn find(&mut self, run_id: &str) -> Option<Option<FoundRun>> {
        let id = run_id.to_owned();
        let found = self.ask("client find", |service| async move { service.streams.find(&id).await }.boxed());
        found.await?.ok()
    }

    /// Reads until the connection ends.
    async fn connect(&mut self, from: From, events: &mut Vec<(u64, Event)>) -> Connection {
        let (sender, mut received) = mpsc::unbounded_channel();
        let (world, number) = (self.world.clone(), self.random.usize(0..self.replicas.count()));
        let replicas = self.replicas.clone();
        let name = if matches!(from, From::Run(_)) { "client stream" } else { "client follow" };
        let serve = async {
            let serving = replicas.ask(&self.world, number, name, move |service| {
                async move {
                    let reader = FirstReader { on_disconnect: OnDisconnect::Continue, can_resume: true };
                    let following = match from {
                        From::Run(ask) => Some(service.streams.start(*ask, reader)),
                        From::Found(found, next) => Some(service.streams.follow(&found, next)),
                        From::Job(user, job_id, next) => {
                            match service.jobs.read(&user, &job_id, Duration::ZERO).await {
                                Ok(Some(job)) => service.streams.follow_job(&job, next),
                                _ => None,
                            }
                        }
                    };
                    if let Some(following) = following {
                        pump(&world, following, sender).await;
                    }
                }
                .boxed()
            });
            serving.await;
        };
        let read = async {
            while let Some(received) = received.recv().await {
                match received {
                    Followed::Stored { number, event } => {
                        let expected = events.last().map_or(number, |(last, _)| last + 1);
                        self.world.holds(number == expected, run_service::invariants::PREFIX, || {
                            format!("event {number} and not {expected}")
                        });
                        events.push((number, Event::clone(&event)));
                    }
                    Followed::Ended { end, .. } => return Connection::Ended(end),
                    Followed::Interrupted(why) => return Connection::Interrupted(why),
                    Followed::Delta(_) | Followed::Progress(_) => {}
                }
            }
            Connection::Lost
        };
        let (connection, ()) = tokio::join!(read, serve);
        connection
    }
}

/// The number of the event that is read next.
fn next(events: &[(u64, Event)]) -> u64 {
    events.last().map_or(0, |(number, _)| number + 1)
}

/// The replica's side: gives what it follows to the connection.
async fn pump(world: &World, mut following: Following, connection: mpsc::UnboundedSender<Followed>) {
    let run_id = following.run_id().to_owned();
    while let Some(followed) = following.next().await {
        if let Followed::Stored { number, event } = &followed {
            let index = usize::try_from(*number).unwrap_or(usize::MAX);
            let is_stored =
                world.runs.look(&run_id, |kept| kept.get(index).is_some_and(|(_, kept)| *kept == **event));
            world.holds(is_stored, STORED_FIRST, || format!("event {number} of {run_id}: {event:?}"));
        }
        if connection.send(followed).is_err() {
            return;
        }
    }
}
