//! The loads that the inventory begins: of what is new in the folder, and of last good versions from their
//! copies. Each is a future of the inventory's and ends in an event.

use std::future::ready;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{AbortHandle, Abortable};

use super::Inventory;
use super::attempts::{Load, Looks};
use super::event::FileChange;
use super::file_loads::{Ended, Part};
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::memory::Memory;
use crate::folder::{Content, component_name};
use crate::load::approved::{self, Approved};
use crate::load::{self, Source, blocking};
use crate::rollout::Rollout;

/// What a file of the folder needs to serve.
#[derive(Debug, Clone, Copy)]
enum Gate {
    /// Nothing.
    Open,
    /// The policy has to name the file.
    Policy,
    /// The file does not serve.
    Closed,
}

impl Inventory {
    /// Begins to load a file that looks like this: reads it first.
    pub(super) fn read(&mut self, file: &str, looks: Looks) {
        if let Looks::Kept { digest, .. } = &looks
            && let Some(component) = self.file_loads.get(file).and_then(|loads| loads.current(digest))
            && self.approved(file, &looks, digest).is_ok_and(|approved| approved.admits(&component))
        {
            let (ticket, abort) = self.begin(file, None, ready(Part::Newest(Ok(component))));
            if let Some(loads) = self.file_loads.get_mut(file) {
                loads.newest.under_way = Some(Load::new(ticket, Some(looks), abort));
            }
            return;
        }
        let source = self.source(file, &looks);
        let (runtime, name) = (self.runtime.clone(), component_name(file).map(str::to_owned));
        let read = async move {
            let name = name.ok_or(LoadError::BadFileName)?;
            load::read_counted(&runtime, &runtime.loaded_content, &name, &source).await
        };
        let (ticket, abort) = self.begin(file, None, read.map(Part::Read));
        if let Some(loads) = self.file_loads.get_mut(file) {
            loads.newest.under_way = Some(Load::new(ticket, Some(looks), abort));
        }
    }

    /// Begins a load, or a part of one that has a ticket already.
    pub(super) fn begin(
        &mut self,
        file: &str,
        ticket: Option<u64>,
        work: impl Future<Output = Part> + Send + 'static,
    ) -> (u64, AbortHandle) {
        self.tickets += 1;
        let ticket = ticket.unwrap_or(self.tickets);
        let (abort, registration) = AbortHandle::new_pair();
        let file = file.to_owned();
        let work = work.map(move |part| Ended { file, ticket, part });
        self.loads.push(Abortable::new(work, registration).boxed());
        (ticket, abort)
    }

    /// Takes in the end of a load, or of a part of one.
    pub(super) fn end(&mut self, ended: Ended) {
        let Ended { file, ticket, part } = ended;
        let part = match part {
            Part::Proposed(result) => return self.proposed(&file, ticket, result),
            Part::Trial(id, result) => return self.trial_loaded(&id, result),
            Part::Written => {
                self.leaving.remove(&file);
                return self.poll_records(false);
            }
            Part::StillTried(id) => return self.still_tried(&id),
            Part::StillWaiting => return self.still_waiting(),
            Part::StillInFolder(digest) => {
                self.leaving.remove(&file);
                self.in_folder.entry(file).or_insert(digest);
                return;
            }
            part => part,
        };
        if let Part::Newest(Err(LoadError::McpServerGone)) = &part {
            self.server_is_gone(&file, ticket);
        }
        let Some(loads) = self.file_loads.get_mut(&file) else { return };
        let now = Instant::now();
        let is_current = loads.newest.is_under_way(ticket);
        let is_last_good = loads.last_good.as_ref().is_some_and(|load| load.ticket == ticket);
        let change = match part {
            Part::Read(Ok(content)) if is_current => return self.was_read(&file, content, now),
            Part::Read(Err(error)) if is_current => loads.finish(Err(error), now),
            Part::Newest(result) if is_current => loads.finish(result, now),
            Part::LastGood(result) if is_last_good => {
                let Err(error) = loads.finish_last_good(result, now) else { return };
                tracing::warn!(file, %error, "the last good version of a tool component is lost");
                FileChange::Lost
            }
            Part::Read(_) | Part::Newest(_) | Part::LastGood(_) => return,
            Part::Proposed(_) | Part::Trial(..) | Part::Written => return,
            Part::StillTried(_) | Part::StillInFolder(_) | Part::StillWaiting => return,
        };
        self.record(&file, change);
    }

    /// Takes in what was read of a file: loads it, unless it is loaded and still what was approved.
    fn was_read(&mut self, file: &str, content: Content, now: Instant) {
        let Some(loads) = self.file_loads.get_mut(file) else { return };
        let (loaded, looks) = (loads.loaded(&content), loads.newest.looks().cloned());
        let is_approved = |component: &Component| {
            let approved = looks.as_ref().map(|looks| self.approved(file, looks, &component.digest));
            approved.is_some_and(|approved| approved.is_ok_and(|approved| approved.admits(component)))
        };
        let Some(component) = loaded.filter(|component| is_approved(component)) else {
            return self.load(file, content);
        };
        let Some(loads) = self.file_loads.get_mut(file) else { return };
        let change = loads.finish(Ok(component), now);
        self.record(file, change);
    }

    fn load(&mut self, file: &str, content: Content) {
        let Some(name) = component_name(file).map(str::to_owned) else { return };
        let (runtime, memory) = (self.runtime.clone(), self.memory.clone());
        let Some(looks) = self.file_loads.get(file).and_then(|loads| loads.newest.looks()) else { return };
        let digest = content.digest.clone();
        let (source, gate) = (self.source(file, looks), self.gate(file, looks, &digest));
        let (approved, rollout) = (self.approved(file, looks, &digest), self.rollout());
        let work = async move {
            match gate {
                Gate::Open => {}
                Gate::Closed => return Err(LoadError::NotAgreed),
                Gate::Policy if load::is_in_policy(&runtime, &name, &content).await? => {}
                Gate::Policy => return Err(LoadError::NotApproved { digest: content.digest }),
            }
            let approved = approved?;
            let (component, content) = load::load(runtime.clone(), &name, &source, content).await?;
            approved::hold(&runtime, rollout.as_deref(), &approved, &component).await?;
            // Before the version is anybody's last good one: a memory names only what is there.
            if let Some(memory) = memory {
                keep_original(memory, name, content).await;
            }
            Ok(Arc::new(component))
        };
        let under_way = self.file_loads.get(file).and_then(|loads| loads.newest.under_way.as_ref());
        let Some(ticket) = under_way.map(|load| load.ticket) else { return };
        let (_, abort) = self.begin(file, Some(ticket), work.map(Part::Newest));
        self.originals.insert(digest.clone());
        if let Some(load) = self.file_loads.get_mut(file).and_then(|loads| loads.newest.under_way.as_mut()) {
            load.go_on(digest, abort);
        }
    }

    fn source(&self, file: &str, looks: &Looks) -> Source {
        match looks {
            Looks::File(_) => Source::File(self.folder.clone(), file.to_owned()),
            Looks::Kept { digest, .. } => self.kept(component_name(file).unwrap_or_default(), digest),
        }
    }

    /// What a file of the folder that is to serve needs, because nobody else said that it may.
    ///
    /// With a store its records say so. While it has not answered yet, what served last may go on. Nothing
    /// else may where approvals are asked for, whatever the policy names, or once replicas have ever agreed
    /// on anything: what lies in the folder may have been disabled or taken back. When it has answered, what
    /// served before goes on until it is written down. Where nobody is asked, what it has no record of and
    /// cannot write down serves as well, or replicas would begin with fewer tools than there are.
    fn gate(&self, file: &str, looks: &Looks, digest: &str) -> Gate {
        if matches!(looks, Looks::Kept { .. }) {
            return Gate::Open;
        }
        let by_policy = if self.runtime.needs_approval { Gate::Policy } else { Gate::Open };
        if self.agreement.is_none() {
            return by_policy;
        }
        let last_good = self.state.get(file).and_then(|state| state.last_good.as_ref());
        let served = self.remembered.last_good.get(file).into_iter().chain(last_good);
        match () {
            () if served.into_iter().any(|version| version.digest == digest) => Gate::Open,
            () if !self.runtime.needs_approval && self.is_unwritten(file) => Gate::Open,
            () if self.runtime.needs_approval || self.remembered.has_agreed || !self.folder_decides() => {
                Gate::Closed
            }
            () => by_policy,
        }
    }

    /// How a version of a file has to describe itself: as its record says, or while that is not known as it
    /// did when it served last.
    fn approved(&self, file: &str, looks: &Looks, digest: &str) -> Result<Approved, LoadError> {
        match looks {
            Looks::Kept { .. } if !self.folder_decides() => {
                self.recorded(file, digest).ok_or(LoadError::NotAgreed)
            }
            Looks::Kept { .. } | Looks::File(_) => Ok(self.remembered_as(file, digest)),
        }
    }

    /// How a version describes itself by the records.
    pub(super) fn recorded(&self, file: &str, digest: &str) -> Option<Approved> {
        let records = self.agreement.as_ref()?.records.as_ref()?;
        Approved::of(&records.components.get(component_name(file)?)?.record, digest)
    }

    /// How a version described itself when it served last. Where there is no store nobody approves
    /// descriptions.
    fn remembered_as(&self, file: &str, digest: &str) -> Approved {
        if self.agreement.is_none() {
            return Approved::Unrecorded;
        }
        let last_good = self.state.get(file).and_then(|state| state.last_good.as_ref());
        let mut served = self.remembered.last_good.get(file).into_iter().chain(last_good);
        Approved::remembered(
            served.find(|version| version.digest == digest).and_then(|version| version.facts.as_ref()),
        )
    }

    pub(super) fn rollout(&self) -> Option<Arc<Rollout>> {
        self.agreement.as_ref().map(|agreement| agreement.rollout.clone())
    }

    /// Loads the last good version of a file, which lies in the folder no longer, from its copy.
    pub(super) fn load_last_good(&mut self, file: &str) {
        let last_good = self.state.get(file).and_then(|state| state.last_good.as_ref());
        let (Some(version), Some(memory), Some(name)) =
            (last_good, self.memory.clone(), component_name(file))
        else {
            return;
        };
        let (runtime, name, digest) = (self.runtime.clone(), name.to_owned(), version.digest.clone());
        let approved = self.recorded(file, &digest).unwrap_or_else(|| self.remembered_as(file, &digest));
        let source = Source::Original { memory, name: name.clone(), digest };
        let work = async move {
            let content = load::read_counted(&runtime, &runtime.loaded_content, &name, &source).await?;
            let (component, _) = load::load(runtime, &name, &source, content).await?;
            approved.check(&component)?;
            Ok(Arc::new(component))
        };
        let (ticket, abort) = self.begin(file, None, work.map(Part::LastGood));
        if let Some(loads) = self.file_loads.get_mut(file) {
            loads.last_good = Some(Load::new(ticket, None, abort));
        }
    }
}

async fn keep_original(memory: Memory, name: String, content: Content) {
    let kept = blocking(move || memory.keep_original(&name, &content).map_err(LoadError::Unreadable)).await;
    if let Err(error) = kept {
        tracing::warn!(%error, "a tool component cannot be kept: should its file be damaged, a restart cannot go back to it");
    }
}
