//! One kill after the other on the same stores: whoever goes on with a job is killed with the next one.

use std::time::Duration;

use acceptance::{Service, Signal, Token, User};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use super::judge::{Tally, judge};
use super::place::{JobState, Place, Recorded};
use super::plan::{Heir, PlannedKill};
use super::scene::Scene;
use super::stores::Stores;

/// How long a job may take from the kill to its end before it counts as lost. Ten times what is promised.
const PATIENCE: Duration = Duration::from_secs(100);

/// How long a store's server may still carry out what the dead process had sent.
const SETTLING: Duration = Duration::from_millis(50);

/// What came of a kill.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) kill: PlannedKill,
    pub(crate) place: Place,
    pub(crate) tally: Tally,
    /// From the kill until something was asked on the job's behalf again, or until it had ended if nothing was to be asked. None
    /// for a job that was lost or had ended.
    pub(crate) recovery: Option<Duration>,
}

/// A job that was accepted, and its end as whoever submitted it has seen that.
struct Submitted {
    user: String,
    job: String,
    end: Option<Value>,
    hit: Hit,
}

/// Makes these kills, all of one store.
pub(super) async fn run(kills: Vec<PlannedKill>, scene: &Scene) -> Vec<Hit> {
    let Some(first) = kills.first() else { return Vec::new() };
    let stores = Stores::start(first.store).await;
    let mut service = scene.around(stores.service()).start().await;
    let mut submitted = Vec::new();
    for kill in kills {
        let (one, heir) = make(kill, scene, &stores, service).await;
        submitted.push(one);
        service = heir;
    }
    // Once more at the very end, when nothing can happen to any job any more.
    for one in &mut submitted {
        let again = of_user(&service, &one.user).job(&one.job).await;
        let ended_otherwise = one.end.as_ref().is_some_and(|end| *end != again.json());
        one.hit.tally.ended_twice += usize::from(ended_otherwise);
    }
    service.stop().await;
    for one in &mut submitted {
        let runs = stores.journals(&one.hit.kill.query()).await.len();
        let ends = stores.ends(&one.job).await.max(runs);
        one.hit.tally.ended_twice += ends.saturating_sub(1);
    }
    submitted.into_iter().map(|one| one.hit).collect()
}

/// Has a job begun, kills its worker, and has another process end it. That one is answered as well.
async fn make(
    kill: PlannedKill,
    scene: &Scene,
    stores: &Stores,
    mut service: Service,
) -> (Submitted, Service) {
    let user = format!("user-{}", kill.number);
    let job = of_user(&service, &user).job_for(&kill.query()).await;
    scene.reaches(&kill).await;
    pass(kill.delay).await;
    service.signal(Signal::KILL);
    let killed = Instant::now();
    service.ended().await;
    sleep(SETTLING).await;
    let seen = scene.seen(kill.number).until(killed);
    let events = stores.journals(&kill.query()).await.into_iter().next().unwrap_or_default();
    let recorded = Recorded::read(stores.job(&job).await, &events);
    let place = Place::find(&kill, &recorded, &seen);

    let next = scene.around(stores.service());
    let next = match kill.heir {
        Heir::Other => next,
        Heir::Restarted => next.env("PORT", service.address().port().to_string()),
    };
    // What was on its way at the death has arrived by now.
    let begun = Instant::now();
    let service = next.start().await;
    let end = end_of(&of_user(&service, &user), &job).await;
    let ended = Instant::now();
    let seen = scene.seen(kill.number);
    let tally = judge(&kill, &recorded, &seen, end.as_ref());
    let resumed = seen.first_after(begun).unwrap_or(ended);
    let is_recovery = tally.lost == 0 && recorded.job != JobState::Ended;
    let recovery = is_recovery.then(|| resumed.duration_since(killed));
    (Submitted { user, job, end, hit: Hit { kill, place, tally, recovery } }, service)
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
        if answer.status != 200 {
            // The stores are there, so this passes; asking on and on would not help.
            sleep(SETTLING).await;
        }
    }
    None
}
