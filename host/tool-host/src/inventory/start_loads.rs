//! The loads that the inventory begins: of what is new in the folder, and of last good versions from their copies. Each
//! is a future of the inventory's and ends in an event.

use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use futures::future::{AbortHandle, Abortable};

use super::event::Change;
use super::file_loads::{Ended, Load, Part};
use super::{Inventory, Memory};
use crate::error::LoadError;
use crate::folder::{Content, Fingerprint, component_name};
use crate::load::{self, Source, blocking};

impl Inventory {
    /// Begins to load a file that looks like this: reads it first.
    pub(super) fn read(&mut self, file: &str, fingerprint: Option<Fingerprint>) {
        let source = Source::File(self.folder.clone(), file.to_owned());
        let plain = component_name(file).is_some();
        let read = async move { if plain { source.read().await } else { Err(LoadError::BadFileName) } };
        let (ticket, abort) = self.begin(file, None, read.map(Part::Read));
        if let Some(loads) = self.file_loads.get_mut(file) {
            loads.newest = Some(Load::new(ticket, fingerprint, abort));
        }
    }

    /// Begins a load, or a part of one that has a ticket already.
    fn begin(
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
        let Some(loads) = self.file_loads.get_mut(&file) else { return };
        let now = Instant::now();
        let is_current = |load: &Option<Load>| load.as_ref().is_some_and(|load| load.ticket == ticket);
        let change = match part {
            Part::Read(Ok(content)) if is_current(&loads.newest) => match loads.loaded(&content) {
                Some(component) => loads.finish(Ok(component), now),
                None => return self.load(&file, content),
            },
            Part::Read(Err(error)) if is_current(&loads.newest) => loads.finish(Err(error), now),
            Part::Newest(result) if is_current(&loads.newest) => loads.finish(result, now),
            Part::LastGood(result) if is_current(&loads.last_good) => {
                let Err(error) = loads.finish_last_good(result, now) else { return };
                tracing::warn!(file, %error, "the last good version of a tool component is lost");
                Change::Lost
            }
            Part::Read(_) | Part::Newest(_) | Part::LastGood(_) => return,
        };
        self.record(&file, change);
    }

    /// Loads what was read of a file.
    fn load(&mut self, file: &str, content: Content) {
        let Some(name) = component_name(file).map(str::to_owned) else { return };
        let (runtime, memory) = (self.runtime.clone(), self.memory.clone());
        let source = Source::File(self.folder.clone(), file.to_owned());
        let digest = content.digest.clone();
        let work = async move {
            let (component, content) = load::load(runtime, &name, &source, content).await?;
            // Before the version is anybody's last good one: a memory names only what is there.
            if let Some(memory) = memory {
                keep_original(memory, content).await;
            }
            Ok(Arc::new(component))
        };
        let under_way = self.file_loads.get(file).and_then(|loads| loads.newest.as_ref());
        let Some(ticket) = under_way.map(|load| load.ticket) else { return };
        let (_, abort) = self.begin(file, Some(ticket), work.map(Part::Newest));
        self.originals.insert(digest.clone());
        if let Some(load) = self.file_loads.get_mut(file).and_then(|loads| loads.newest.as_mut()) {
            load.go_on(digest, abort);
        }
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
        let source = Source::Original(memory, digest);
        let work = async move {
            let content = source.read().await?;
            let (component, _) = load::load(runtime, &name, &source, content).await?;
            Ok(Arc::new(component))
        };
        let (ticket, abort) = self.begin(file, None, work.map(Part::LastGood));
        if let Some(loads) = self.file_loads.get_mut(file) {
            loads.last_good = Some(Load::new(ticket, None, abort));
        }
    }
}

async fn keep_original(memory: Memory, content: Content) {
    let kept = blocking(move || memory.keep_original(&content).map_err(LoadError::Unreadable)).await;
    if let Err(error) = kept {
        tracing::warn!(%error, "a tool component cannot be kept: should its file be damaged, a restart cannot go back to it");
    }
}
