//! What runs wait for: shown to those who may decide, and decided once.
//!
//! A wait stands in its run's journal and nowhere else. A decision is an event behind it, so that of two
//! decisions at once the journal takes one and refuses the other. Around that, the job of the run is told
//! twice to go on ([`JobQueue::resume`]): with some seconds before the decision is written, and at once
//! behind it. Whoever decides may be killed anywhere: either nothing was decided and the job waits on, or it
//! goes on.

mod decide;
mod events;
mod forgotten;
mod last_approved;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use agent_core::agent_loop::{OpenWait, Run, UnexpectedEvent};
use agent_core::ports::{
    JobQueue, JournalError, KeyValueStore, Observer, QueueError, RunStore, Toolbox, Unobserved,
};
use agent_core::words::{Decision, Event, Job, JobQuery, JobStatus, ParentCall, Principal, Wait, WaitKind};
use futures::future::join_all;

pub(crate) use decide::ARMED;
pub use decide::{Decided, NotDecided, Proposal, ProposedDecision};
pub use events::Delivery;
pub use last_approved::{Change, LastApproved};

use self::last_approved::ApprovedCalls;

/// Most jobs of others that are looked at for one page: most of them may be nothing to the caller.
const MOST_OF_OTHERS: usize = 20;

/// Most waits of a run and its children that are looked at.
const MOST_OF_FAMILY: usize = 100;

/// What people do with waits.
#[derive(Clone)]
pub struct Waits {
    queue: Arc<dyn JobQueue>,
    journal: Arc<dyn RunStore>,
    /// Says what a call would be by now; absent beside the service, where the run says so when it goes on.
    toolbox: Option<Arc<dyn Toolbox>>,
    observer: Arc<dyn Observer>,
    approved: ApprovedCalls,
}

/// A wait of a job's run.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWait {
    /// By which it is shown and decided.
    pub id: String,
    /// The job whose run waits.
    pub job_id: String,
    pub run_id: String,
    /// On whose behalf the run was begun.
    pub owner: Principal,
    /// What it is about, and what was decided so far.
    pub open: OpenWait,
    /// Of a child run: where its job stands, if there is one yet.
    pub child: Option<JobStatus>,
    /// Of an approval that is to be decided, where it is shown by itself or listed to be decided: the last
    /// approved call of the same tool for the same user.
    pub last_approved: Option<LastApproved>,
    /// The call of another run that this run answers.
    pub parent: Option<ParentCall>,
}

/// Some of the waits of a user's jobs.
#[derive(Debug, Clone)]
pub struct WaitPage {
    /// Waits of the newest job first, or those that expire first.
    pub waits: Vec<JobWait>,
    /// Where to go on; absent when there are no more.
    pub next_cursor: Option<String>,
}

/// What a run waits for together with the runs that it began.
#[derive(Debug, Clone, Default)]
pub struct FamilyWaits {
    /// What is not decided: that of a run before that of its children.
    pub waits: Vec<JobWait>,
    /// Whether any of the runs goes on, or is about to, although nobody decides anything.
    pub is_under_way: bool,
}

impl FamilyWaits {
    /// Whether the runs go on for as long as `by` need not approve anything.
    pub fn is_under_way_for(&self, by: &Principal) -> bool {
        self.is_under_way && !self.waits.iter().any(|wait| wait.is_approved_by(by))
    }
}

/// What reading waits results in.
pub type WaitResult<T = ()> = Result<T, WaitError>;

/// Why waits cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WaitError {
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal of the run is damaged.
    #[error(transparent)]
    Run(#[from] UnexpectedEvent),
}

impl WaitError {
    /// Whether one journal cannot be read by this program, although its store answers.
    fn is_of_one_journal(&self) -> bool {
        self.is_damage() || matches!(self, Self::Journal(JournalError::Newer { .. }))
    }

    /// Whether the journal is damaged, so that reading it again does not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Journal(JournalError::Damaged { .. }))
    }
}

impl Waits {
    /// The waits of the jobs of `queue`, whose runs have their journals in `journal`.
    pub fn new(queue: Arc<dyn JobQueue>, journal: Arc<dyn RunStore>, toolbox: Arc<dyn Toolbox>) -> Self {
        Self { toolbox: Some(toolbox), ..Self::beside_the_service(queue, journal) }
    }

    /// [`Self::new`] in a process that has no tools.
    pub fn beside_the_service(queue: Arc<dyn JobQueue>, journal: Arc<dyn RunStore>) -> Self {
        let (observer, approved) = (Arc::new(Unobserved), ApprovedCalls::default());
        Self { queue, journal, toolbox: None, observer, approved }
    }

    /// Decisions are told to `observer`.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn Observer>) -> Self {
        Self { observer, ..self }
    }

    /// Keeps approved calls there, for whoever decides about the next one.
    #[must_use]
    pub fn keeping_approved_in(self, store: Arc<dyn KeyValueStore>) -> Self {
        Self { approved: ApprovedCalls::new(store), ..self }
    }

    /// What the jobs of this user wait for that is not decided: of up to `limit` jobs.
    pub async fn list(&self, user_id: &str, limit: usize, cursor: Option<&str>) -> WaitResult<WaitPage> {
        let wanted = JobQuery { user_id, status: Some(JobStatus::Parked), limit, cursor };
        let page = self.queue.list(&wanted).await?;
        let mut waits = Vec::new();
        for job in &page.jobs {
            let of_job = self.readable(job).await?.into_iter().flatten();
            waits.extend(of_job.filter(|wait| wait.open.decided().is_none()));
        }
        Ok(WaitPage { waits, next_cursor: page.next_cursor })
    }

    /// What is not decided of the waits of anybody's jobs about which this caller may decide and has not
    /// decided yet, the next to expire first. The waits of `limit` jobs are looked at, so that a page
    /// may be short or empty although there is another one.
    pub async fn list_decidable(
        &self,
        caller: &Principal,
        limit: usize,
        cursor: Option<&str>,
    ) -> WaitResult<WaitPage> {
        let page = self.queue.list_parked(limit.min(MOST_OF_OTHERS), cursor).await?;
        let mut waits = Vec::new();
        for job in &page.jobs {
            let of_job = self.readable(job).await?.into_iter().flatten();
            waits.extend(of_job.filter(|wait| wait.is_asked_of(caller)));
        }
        // At once: a store that does not answer holds up the list as long as one wait.
        join_all(waits.iter_mut().map(|wait| self.add_last_approved(wait, caller))).await;
        Ok(WaitPage { waits, next_cursor: page.next_cursor })
    }

    /// What the run of the job with that id waits for or waited for; nothing where there is no such job.
    pub async fn of(&self, job_id: &str) -> WaitResult<Vec<JobWait>> {
        match self.queue.read(job_id).await? {
            Some(job) => self.of_job(&job).await,
            None => Ok(Vec::new()),
        }
    }

    /// What a job's run waits for or waited for since its last model call.
    pub async fn of_job(&self, job: &Job) -> WaitResult<Vec<JobWait>> {
        let events = self.journal.read(&job.run_id, 0).await?;
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let run = Run::waiting(events)?;
        let mut waits: Vec<_> = run.waits().map(|open| JobWait::of(job, &run, open)).collect();
        for wait in &mut waits {
            self.add_child(wait).await?;
        }
        Ok(waits)
    }

    /// One wait of a job's run, also one that was decided and that the run has gone on from.
    async fn one_of(&self, job: &Job, id: &str) -> WaitResult<Option<JobWait>> {
        let events = self.journal.read(&job.run_id, 0).await?;
        if events.is_empty() {
            return Ok(None);
        }
        let (_, mut waits) = waits_of(job, events, [id])?;
        let Some(mut wait) = waits.pop().flatten() else { return Ok(None) };
        self.add_child(&mut wait).await?;
        Ok(Some(wait))
    }

    async fn add_child(&self, wait: &mut JobWait) -> WaitResult {
        if let Some(child) = &wait.open.wait.child {
            wait.child = self.queue.read(&child.job_id).await?.map(|job| job.status);
        }
        Ok(())
    }

    /// What a job's run waits for, and the runs that it began, and theirs. A run whose journal this program
    /// cannot read hides nothing of the others, and goes on when it is due: nobody decides about it here.
    pub async fn of_family(&self, job: &Job) -> WaitResult<FamilyWaits> {
        let (mut family, mut jobs) = (FamilyWaits::default(), VecDeque::from([job.clone()]));
        while let Some(job) = jobs.pop_front() {
            family.is_under_way |= job.status != JobStatus::Parked;
            let Some(mut open) = self.readable(&job).await? else { continue };
            open.retain(|wait| wait.decided().is_none());
            family.is_under_way |= open.is_empty();
            open.truncate(MOST_OF_FAMILY.saturating_sub(family.waits.len()));
            for wait in open {
                if let Some(child) = &wait.open.wait.child {
                    match self.queue.read(&child.job_id).await? {
                        Some(child) if child.status == JobStatus::Parked => jobs.push_back(child),
                        Some(_) | None => family.is_under_way = true,
                    }
                }
                family.waits.push(wait);
            }
        }
        Ok(family)
    }

    /// [`Self::of_job`] for a list: a journal that this program cannot read hides no other one.
    async fn readable(&self, job: &Job) -> WaitResult<Option<Vec<JobWait>>> {
        match self.of_job(job).await {
            Err(error) if error.is_of_one_journal() => {
                tracing::warn!(job_id = job.id, %error, "what a job waits for cannot be read by this program");
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// A wait that this caller may see: of their own run, or one about which they may decide.
    pub async fn show(&self, caller: &Principal, id: &str) -> WaitResult<Option<JobWait>> {
        let Some(job_id) = Wait::job_of(id) else { return Ok(None) };
        let Some(job) = self.queue.read(job_id).await? else { return Ok(None) };
        let wait = self.one_of(&job, id).await?;
        let Some(mut wait) = wait.filter(|wait| wait.is_visible_to(caller)) else { return Ok(None) };
        self.add_last_approved(&mut wait, caller).await;
        Ok(Some(wait))
    }

    /// [`Self::show`] for whoever may read the stores.
    pub async fn show_to_operator(&self, id: &str) -> WaitResult<Option<JobWait>> {
        let Some(job_id) = Wait::job_of(id) else { return Ok(None) };
        let Some(job) = self.queue.read(job_id).await? else { return Ok(None) };
        let Some(mut wait) = self.one_of(&job, id).await? else { return Ok(None) };
        let owner = wait.owner.clone();
        self.add_last_approved(&mut wait, &owner).await;
        Ok(Some(wait))
    }

    async fn add_last_approved(&self, wait: &mut JobWait, caller: &Principal) {
        if wait.open.wait.kind == WaitKind::Approval && wait.decided().is_none() {
            wait.last_approved = self.approved.before(&wait.owner, &wait.open, caller).await;
        }
    }
}

/// The waits with these ids, and the run that `events` come to.
fn waits_of<'a>(
    job: &Job,
    events: Vec<Event>,
    ids: impl IntoIterator<Item = &'a str>,
) -> WaitResult<(Run, Vec<Option<JobWait>>)> {
    let wanted = ids.into_iter().map(|id| (id, OpenWait::decided_in(&events, id))).collect::<Vec<_>>();
    let run = Run::waiting(events)?;
    let wait = |(id, decided): &(&str, Option<OpenWait>)| {
        let open = run.waits().find(|open| open.wait.id == *id).or(decided.as_ref())?;
        Some(JobWait::of(job, &run, open))
    };
    let waits = wanted.iter().map(wait).collect();
    Ok((run, waits))
}

impl JobWait {
    pub(crate) fn of(job: &Job, run: &Run, open: &OpenWait) -> Self {
        Self {
            id: open.wait.id.clone(),
            job_id: job.id.clone(),
            run_id: job.run_id.clone(),
            owner: run.principal().clone(),
            open: open.clone(),
            child: None,
            last_approved: None,
            parent: run.parent().cloned(),
        }
    }

    /// Whether this caller may know of it.
    pub fn is_visible_to(&self, caller: &Principal) -> bool {
        caller.is_same_user(&self.owner) || self.may_be_decided_by(caller)
    }

    /// Whether this caller is among those who decide.
    pub fn may_be_decided_by(&self, caller: &Principal) -> bool {
        self.open.wait.deciders.allow(caller, &self.owner)
    }

    /// Whether it is an approval of which that of this caller alone is missing.
    pub fn is_approved_by(&self, caller: &Principal) -> bool {
        let missing = (self.open.wait.deciders.count as usize).saturating_sub(self.open.decisions.len());
        self.open.wait.kind == WaitKind::Approval && self.is_asked_of(caller) && missing <= 1
    }

    /// Whether a decision of this caller is missing.
    fn is_asked_of(&self, caller: &Principal) -> bool {
        let has_decided = || caller.user_id.as_deref().is_some_and(|user| self.open.has_decided(user));
        !self.open.wait.kind.is_child()
            && self.decided().is_none()
            && self.may_be_decided_by(caller)
            && !has_decided()
    }

    /// What was decided, once it is.
    pub fn decided(&self) -> Option<&Decision> {
        self.open.decided()
    }
}
