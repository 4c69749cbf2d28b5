//! One kill: a job is begun, its worker dies, another process ends the job, and what came of it is judged.

use std::collections::BTreeSet;
use std::time::Duration;

use acceptance::{Service, Signal, Token, User, within};
use futures::future::join;
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::decider::{Decider, Taken};
use super::judge::{Evidence, Tally, events_of, has_completed, judge, judge_journals, later_losses};
use super::place::{JobState, Place, Recorded};
use super::plan::{Moment, PlannedKill, Versions};
use super::reader::Reader;
use super::scene::Scene;
use super::stores::{Journals, Opened, Stores};
use super::swaps::swap_on;

/// How long a job may take from the kill to its end before it counts as lost. Ten times what is promised.
const PATIENCE: Duration = Duration::from_secs(100);

/// How long a store's server may still carry out what the dead process had sent.
pub(super) const SETTLING: Duration = Duration::from_millis(50);

/// What came of a kill.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) kill: PlannedKill,
    pub(crate) place: Place,
    pub(crate) tally: Tally,
    /// Which rules journals broke, by the runs' ids, and what was wrong with the stream.
    pub(crate) unsound: Vec<String>,
    /// From the kill until something was asked on the job's behalf again, or until it had ended if nothing
    /// was to be asked. None for a job that was lost or had ended.
    pub(crate) recovery: Option<Duration>,
}

/// A job whose worker is dead, and what was recorded by then.
pub(super) struct Orphan {
    kill: PlannedKill,
    user: String,
    job: String,
    killed: Instant,
    recorded: Recorded,
    place: Place,
    runs: BTreeSet<String>,
    taken: Taken,
    reader: Reader,
}

/// A job that was accepted, and its end as whoever submitted it has seen that.
pub(super) struct Submitted {
    user: String,
    job: String,
    end: Option<Value>,
    /// Ids of its runs, whoever has written or said them.
    runs: BTreeSet<String>,
    kill: PlannedKill,
    recorded: Recorded,
    place: Place,
    /// What is asked later is asked by the heir.
    begun: Instant,
    reader: Reader,
    /// What was counted of it so far.
    tally: Tally,
    recovery: Option<Duration>,
}

/// Has a job begun and kills its worker.
pub(super) async fn strike(
    kill: PlannedKill,
    scene: &Scene,
    stores: &Stores,
    mut service: Service,
) -> Orphan {
    let user = format!("user-{}", kill.number);
    let owner = of_user(&service, &user);
    let job = owner.job_for(&kill.query()).await;
    let (mut taken, mut reader) = (Taken::new(), Reader::of(&kill, &job));
    let caller = service.caller();
    let dying = async {
        let decider = Decider { service: &service, user: &user, number: kill.number };
        let killed = reach(&kill, scene, &decider, &mut taken).await;
        service.ended().await;
        scene.note_kill();
        // By then the reader has what was on the way.
        sleep(SETTLING).await;
        killed
    };
    let killed = tokio::select! {
        killed = dying => killed,
        never = reader.read_until_dropped(&owner) => match never {},
        never = swap_on(scene, &caller, kill.number), if kill.swaps => match never {},
    };
    reader.note_death();
    let seen = scene.seen(kill.number).until(killed);
    let opened = if kill.versions == Versions::NewThenOld { Opened::ByAnother } else { Opened::ByNobody };
    let journals = stores.journals(&kill.query(), opened).await;
    let events = journals.own.values().next().map_or(&[][..], Vec::as_slice);
    let recorded = Recorded::read(stores.job(&job, opened).await, events).with_children(&journals.children);
    let place = Place::find(&kill, &recorded, &seen);
    let runs = journals.own.keys().cloned().collect();
    Orphan { kill, user, job, killed, recorded, place, runs, taken, reader }
}

/// Kills the service when the moment that is aimed at has come, and a while has passed. Says when.
async fn reach(kill: &PlannedKill, scene: &Scene, decider: &Decider<'_>, taken: &mut Taken) -> Instant {
    let die = async {
        pass(kill.delay).await;
        decider.service.signal(Signal::KILL);
        Instant::now()
    };
    match kill.moment {
        Moment::Parked => {
            within("the job to wait", decider.decide_until(kill.target, taken)).await;
            die.await
        }
        Moment::Decided => {
            let waits = within("the job to wait", decider.decide_until(kill.target, taken)).await;
            join(die, decider.decide(&waits, taken)).await.0
        }
        _ => {
            let reached = async {
                scene.reaches(kill).await;
                die.await
            };
            tokio::select! {
                killed = reached => killed,
                () = decider.decide_all(taken), if kill.waits => unreachable!("it decides on and on"),
            }
        }
    }
}

/// Waits until a service has ended the job. What is asked from `begun` on is asked by whoever goes on with
/// it.
pub(super) async fn follow(orphan: Orphan, scene: &Scene, service: &Service, begun: Instant) -> Submitted {
    let Orphan { kill, user, job, killed, recorded, place, mut runs, mut taken, mut reader } = orphan;
    let (end, ended) = {
        let decider = Decider { service, user: &user, number: kill.number };
        let owner = of_user(service, &user);
        let ending = async { (end_of(&owner, &job).await, Instant::now()) };
        let reading = timeout(PATIENCE, reader.read(&owner));
        tokio::select! {
            (end, _is_read) = join(ending, reading) => end,
            () = decider.decide_all(&mut taken), if kill.waits => unreachable!("it decides on and on"),
            never = swap_on(scene, service, kill.number), if kill.swaps => match never {},
        }
    };
    let decided_twice = taken.values().map(|times| times.saturating_sub(1)).sum();
    let resumed = scene.seen(kill.number).first_after(begun).unwrap_or(ended);
    let is_recovery = end.as_ref().is_some_and(has_completed) && recorded.job != JobState::Ended;
    let recovery = is_recovery.then(|| resumed.duration_since(killed));
    runs.extend(end.as_ref().and_then(run_of));
    let tally = Tally { decided_twice, ..Tally::default() };
    Submitted { user, job, end, runs, kill, recorded, place, begun, reader, tally, recovery }
}

/// Looks at all jobs once more at the very end, when nothing can happen to any of them any more, and judges
/// them.
pub(super) async fn settle(
    mut submitted: Vec<Submitted>,
    service: Service,
    scene: &Scene,
    stores: &Stores,
) -> Vec<Hit> {
    for one in &mut submitted {
        let owner = of_user(&service, &one.user);
        let again = owner.job(&one.job).await;
        if let Some(end) = &one.end {
            let again = again.json();
            one.tally.ended_twice += usize::from(!is_same_end(end, &again, one.kill.versions));
            one.runs.extend(run_of(&again));
            let _is_read = timeout(PATIENCE, one.reader.look_back(&owner)).await;
        }
    }
    service.stop().await;
    let mut hits = Vec::new();
    for one in submitted {
        hits.push(judged(one, scene, stores).await);
    }
    hits
}

/// Judges a job by its end, its journals and records, and all that was asked on its behalf.
async fn judged(submitted: Submitted, scene: &Scene, stores: &Stores) -> Hit {
    let Submitted { job, end, mut runs, kill, recorded, place, begun, reader, mut tally, recovery, .. } =
        submitted;
    let Journals { own, children } = stores.journals(&kill.query(), Opened::ByNobody).await;
    let mut unsound = Vec::new();
    for (run, journal) in &own {
        if let Err(broken) = judge_journals(journal, children.values()) {
            unsound.push(format!("{run}: {broken}"));
        }
    }
    let seen = scene.seen(kill.number);
    let seen_at_death = seen.until(begun);
    let events = own.values().next().map_or(&[][..], Vec::as_slice);
    tally.add(&judge(&Evidence {
        kill: &kill,
        recorded: &recorded,
        seen: &seen,
        seen_at_death: &seen_at_death,
        later_losses: later_losses(&recorded, events, &children),
        end: end.as_ref(),
    }));
    tally.unsound = unsound.len();
    tally.resumed = usize::from(reader.is_resumed);
    if let (Some(_), Err(broken)) = (&end, events_of(events).and_then(|journal| reader.judge(&journal))) {
        tally.broken_streams = 1;
        unsound.push(format!("the stream of the job {job}: {broken}"));
    }
    let records = stores.records(&job).await;
    let ends = stores.ends_announced(&job).max(records.len()).max(own.len());
    runs.extend(own.into_keys().chain(records));
    tally.ended_twice += ends.saturating_sub(1);
    tally.other_runs += runs.len().saturating_sub(1);
    Hit { kill, place, tally, unsound, recovery }
}

/// The run that has ended a job, as whoever has ended it says.
fn run_of(job: &Value) -> Option<String> {
    job["result"]["id"].as_str().map(str::to_owned)
}

/// Another version may show the same end with other fields.
fn is_same_end(end: &Value, again: &Value, versions: Versions) -> bool {
    let essence = |job: &Value| [&job["status"], &job["result"]["output"]].map(Value::clone);
    match versions {
        Versions::Same => end == again,
        Versions::OldThenNew | Versions::NewThenOld => essence(end) == essence(again),
    }
}

fn of_user(service: &Service, user: &str) -> User {
    service.user(Token::of(user).premium())
}

/// The clock of the runtime has milliseconds; the rest is waited for in turns.
async fn pass(delay: Duration) {
    const TICK: Duration = Duration::from_millis(2);
    let until = Instant::now() + delay;
    if delay > TICK {
        sleep_until(until - TICK).await;
    }
    while Instant::now() < until {
        tokio::task::yield_now().await;
    }
}

/// The job when it has ended; none when it does not within the time, or is not known.
async fn end_of(user: &User, job: &str) -> Option<Value> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let answer = user.job(&format!("{job}?wait=20")).await;
        if answer.status == 404 {
            return None;
        }
        let job = answer.json();
        if ["completed", "failed", "cancelled"].iter().any(|end| job["status"] == *end) {
            return Some(job);
        }
        if job["status"] == "parked" {
            // Nothing is held back for one that waits for somebody.
            sleep(SETTLING).await;
        }
        if answer.status != 200 {
            // The stores are there, so this passes; asking on and on would not help.
            sleep(SETTLING).await;
        }
    }
    None
}
