//! Which components serve: follows the tools folder, loads what is new in it side by side, and settles what of it serves.
//!
//! One owner drives it: [`Inventory::advance`] waits for the next event (the folder was listed, a load ended, the folder
//! changed), [`Inventory::settle`] decides. Every load publishes by itself, so a slow file delays nobody. What may wait for a disk, a compiler or a guest
//! is a future here and runs elsewhere.
//!
//! A version becomes the file's last good one, and owner of its tool names, when no file before it by name is still being
//! loaded: which of two claimants is loaded first must not decide.

mod decide;
mod entry;
mod memory;

use std::collections::BTreeMap;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use agent_core::ports::{Preparing, ToolFault};
use futures::future::{AbortHandle, Abortable, Aborted, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::component::Component;
use crate::error::LoadError;
use crate::folder::{Fingerprint, Folder, Listing, component_name};
use crate::load::{self, Source, blocking};
use crate::runtime::Runtime;
use crate::watch::Watch;
use decide::{Candidate, Choice, decide};
use entry::{Entry, Load};
use memory::Kept;

pub(crate) use memory::Memory;

/// What is to serve, and what cannot.
pub(crate) struct Settled {
    /// The components that are to serve, by file name.
    pub(crate) components: Vec<Arc<Component>>,
    /// The files that cannot serve as they are.
    pub(crate) faults: Vec<ToolFault>,
    /// The files that are being loaded.
    pub(crate) preparing: Preparing,
}

/// The files of the tools folder and what is known of each.
pub(crate) struct Inventory {
    runtime: Arc<Runtime>,
    folder: Folder,
    watch: Watch,
    files: BTreeMap<String, Entry>,
    loads: FuturesUnordered<BoxFuture<'static, Result<Ended, Aborted>>>,
    listing: Option<BoxFuture<'static, io::Result<Listing>>>,
    /// Why the folder cannot be read.
    unreadable: Option<ToolFault>,
    tickets: u64,
    /// Whether everything that was in the folder at first has been looked at.
    prepared: bool,
    memory: Option<Memory>,
    /// What the memory holds.
    remembered: Kept,
    /// Whether the folder was listed since the start.
    listed: bool,
    most_tokens: u64,
}

/// A load that ended.
struct Ended {
    file: String,
    ticket: u64,
    what: What,
}

enum What {
    /// The file was read; this is what it holds.
    Read(Result<(Vec<u8>, String), LoadError>),
    /// The version in the folder was loaded.
    Newest(Result<Arc<Component>, LoadError>),
    /// The last good version was loaded.
    Kept(Result<Arc<Component>, LoadError>),
}

enum Event {
    Listed(io::Result<Listing>),
    Ended(Ended),
    Changed,
}

impl Inventory {
    pub(crate) async fn new(runtime: Arc<Runtime>, path: PathBuf, most_tokens: u64) -> Self {
        let memory = runtime.cache.folder().map(|folder| Memory::new(folder, &path));
        let remembered = match memory.clone() {
            Some(memory) => blocking(move || Ok(memory.read())).await.unwrap_or_default(),
            None => Kept::new(),
        };
        Self {
            runtime,
            folder: Folder::new(path),
            watch: Watch::new(),
            files: BTreeMap::new(),
            loads: FuturesUnordered::new(),
            listing: None,
            unreadable: None,
            tickets: 0,
            prepared: false,
            memory,
            remembered,
            listed: false,
            most_tokens,
        }
    }

    /// Begins to look at the folder.
    pub(crate) fn look(&mut self) {
        if self.listing.is_none() {
            let folder = self.folder.clone();
            self.listing = Some(async move { folder.list().await }.boxed());
        }
    }

    /// Waits until everything that is new is loaded or refused.
    pub(crate) async fn prepare(&mut self) -> Settled {
        loop {
            let settled = self.settle();
            if self.is_idle() {
                return settled;
            }
            self.advance(false).await;
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.listing.is_none() && self.loads.is_empty()
    }

    /// Waits for something to happen, and takes in all that has. With `watching` the folder is looked at when it changes.
    /// May be dropped at any time.
    pub(crate) async fn advance(&mut self, watching: bool) {
        let event = self.next(watching).await;
        let mut listed = self.take_in(event);
        // What happened at the same time makes one change of the tool set, not several.
        while let Some(event) = self.next(false).now_or_never() {
            listed = self.take_in(event).or(listed);
        }
        if let Some(identity) = listed.filter(|_| watching) {
            self.watch.follow(self.folder.path(), identity).await;
        }
    }

    async fn next(&mut self, watching: bool) -> Event {
        let Self { listing, loads, watch, .. } = self;
        let idle = listing.is_none();
        let listed = async {
            match listing.as_mut() {
                Some(listing) => listing.await,
                None => pending().await,
            }
        };
        let ended = async {
            loop {
                match loads.next().await {
                    Some(Ok(ended)) => return ended,
                    Some(Err(Aborted)) => {}
                    None => pending().await,
                }
            }
        };
        tokio::select! {
            listed = listed => { self.listing = None; Event::Listed(listed) }
            ended = ended => Event::Ended(ended),
            () = watch.changed(), if watching && idle => Event::Changed,
        }
    }

    /// Takes in an event. Gives the identity of a folder that was listed.
    fn take_in(&mut self, event: Event) -> Option<(u64, u64)> {
        match event {
            Event::Listed(Ok(listing)) => {
                self.unreadable = None;
                let identity = listing.identity;
                self.compare(listing);
                return Some(identity);
            }
            // Nothing can be said about the files, so what serves goes on serving.
            Event::Listed(Err(error)) => {
                tracing::debug!(folder = %self.folder.path().display(), %error, "the tools folder cannot be read");
                // Without the path: the text stands in the readiness report, which anyone may read.
                let todo = if error.kind() == io::ErrorKind::NotFound {
                    ": create it, or set TOOLS_DIR to the one that is meant"
                } else {
                    ""
                };
                let error = format!("the tools folder (TOOLS_DIR) cannot be read: {}{todo}", error.kind());
                self.unreadable = Some(ToolFault { file: ".".into(), error });
            }
            Event::Ended(ended) => self.end(ended),
            Event::Changed => self.look(),
        }
        None
    }

    /// Compares the folder with what is known of it.
    fn compare(&mut self, listing: Listing) {
        if !self.listed {
            // What is not there any more is forgotten.
            let known = self.remembered.iter().filter(|(file, _)| listing.files.contains_key(*file));
            self.files =
                known.map(|(file, offer)| (file.clone(), Entry::remembered(offer.clone()))).collect();
            self.listed = true;
        }
        self.files.retain(|file, _| listing.files.contains_key(file));
        for (file, fingerprint) in listing.files {
            if self.files.entry(file.clone()).or_default().wants_load(fingerprint) {
                self.read(&file, fingerprint);
            }
        }
    }

    fn read(&mut self, file: &str, fingerprint: Option<Fingerprint>) {
        let source = Source::File(self.folder.clone(), file.to_owned());
        let plain = component_name(file).is_some();
        let read = async move { if plain { source.read().await } else { Err(LoadError::BadFileName) } };
        let (ticket, abort) = self.begin(file, None, read.map(What::Read));
        if let Some(entry) = self.files.get_mut(file) {
            entry.load = Some(Load::new(ticket, fingerprint, abort));
        }
    }

    /// Begins a load, or a part of one that has a ticket already.
    fn begin(
        &mut self,
        file: &str,
        ticket: Option<u64>,
        work: impl Future<Output = What> + Send + 'static,
    ) -> (u64, AbortHandle) {
        self.tickets += 1;
        let ticket = ticket.unwrap_or(self.tickets);
        let (abort, registration) = AbortHandle::new_pair();
        let file = file.to_owned();
        let work = work.map(move |what| Ended { file, ticket, what });
        self.loads.push(Abortable::new(work, registration).boxed());
        (ticket, abort)
    }

    fn end(&mut self, ended: Ended) {
        let Ended { file, ticket, what } = ended;
        let Some(entry) = self.files.get_mut(&file) else { return };
        let is_current = |load: &Option<Load>| load.as_ref().is_some_and(|load| load.ticket == ticket);
        match what {
            What::Read(Ok((bytes, digest))) if is_current(&entry.load) => {
                if let Some(component) = entry.loaded(&digest) {
                    entry.finish(Ok(component));
                } else {
                    self.load(&file, bytes, digest);
                }
            }
            What::Read(Err(error)) if is_current(&entry.load) => entry.finish(Err(error)),
            What::Newest(result) if is_current(&entry.load) => entry.finish(result),
            What::Kept(result) if is_current(&entry.kept_load) => {
                if let Err(error) = entry.finish_kept(result) {
                    tracing::warn!(file, %error, "the last good version of a tool component is lost");
                }
            }
            What::Read(_) | What::Newest(_) | What::Kept(_) => {}
        }
    }

    /// Loads what was read of a file.
    fn load(&mut self, file: &str, bytes: Vec<u8>, digest: String) {
        let Some(name) = component_name(file).map(str::to_owned) else { return };
        let (runtime, memory) = (self.runtime.clone(), self.memory.clone());
        let source = Source::File(self.folder.clone(), file.to_owned());
        let work = {
            let digest = digest.clone();
            async move {
                let (component, bytes) = load::load(runtime, &name, &source, bytes, digest).await?;
                if let Some(memory) = memory {
                    keep_original(memory, component.digest.clone(), bytes).await;
                }
                Ok(Arc::new(component))
            }
        };
        let under_way = self.files.get(file).and_then(|entry| entry.load.as_ref());
        let Some(ticket) = under_way.map(|load| load.ticket) else { return };
        let (_, abort) = self.begin(file, Some(ticket), work.map(What::Newest));
        if let Some(load) = self.files.get_mut(file).and_then(|entry| entry.load.as_mut()) {
            load.go_on(digest, abort);
        }
    }

    /// Loads the last good version of a file, which lies in the folder no longer.
    fn load_kept(&mut self, file: &str) {
        let kept = self.files.get(file).and_then(|entry| entry.kept.as_ref());
        let (Some(kept), Some(memory), Some(name)) = (kept, self.memory.clone(), component_name(file)) else {
            return;
        };
        let (runtime, name, digest) = (self.runtime.clone(), name.to_owned(), kept.offer.digest.clone());
        let source = Source::Original(memory, digest);
        let work = async move {
            let (bytes, digest) = source.read().await?;
            let (component, _) = load::load(runtime, &name, &source, bytes, digest).await?;
            Ok(Arc::new(component))
        };
        let (ticket, abort) = self.begin(file, None, work.map(What::Kept));
        if let Some(entry) = self.files.get_mut(file) {
            entry.kept_load = Some(Load::new(ticket, None, abort));
        }
    }

    /// Decides what is to serve.
    pub(crate) fn settle(&mut self) -> Settled {
        let (refusals, wanted) = self.decide();
        for file in wanted {
            self.load_kept(&file);
        }
        self.prepared |= self.is_idle();
        let mut faults: BTreeMap<&String, ToolFault> =
            self.files.iter().filter_map(|(file, entry)| Some((file, entry.fault(file)?))).collect();
        faults.extend(
            refusals
                .iter()
                .map(|(file, error)| (file, ToolFault { file: file.clone(), error: error.to_string() })),
        );
        Settled {
            components: self.files.values().filter_map(|entry| entry.serving.clone()).collect(),
            faults: self.unreadable.iter().cloned().chain(faults.into_values()).collect(),
            preparing: Preparing { files: self.preparing(), first: !self.prepared },
        }
    }

    /// Why files do not serve that could, and which last good versions have to be loaded.
    fn decide(&mut self) -> (BTreeMap<String, LoadError>, Vec<String>) {
        let candidates: Vec<_> = self
            .files
            .iter()
            .map(|(file, entry)| Candidate {
                file,
                newest: entry.newest.as_ref().and_then(|newest| Some(&newest.as_ref().ok()?.offer)),
                kept: entry.kept.as_ref().map(|kept| &kept.offer),
            })
            .collect();
        let decision = decide(&candidates, self.most_tokens);
        let mut certain = true;
        let mut wanted = Vec::new();
        for ((file, entry), choice) in self.files.iter_mut().zip(decision.choices) {
            certain &= entry.load.is_none();
            let newest = entry.newest.as_ref().and_then(|newest| newest.as_ref().ok());
            let chosen = match choice {
                Choice::Newest => newest.cloned(),
                Choice::Kept => entry.kept.clone(),
                Choice::Nothing => None,
            };
            entry.serving = chosen.as_ref().and_then(|version| version.component.clone());
            if certain {
                entry.kept = chosen;
            }
            if choice == Choice::Kept && entry.serving.is_none() && entry.wants_kept() {
                wanted.push(file.clone());
            }
        }
        (decision.refusals, wanted)
    }

    fn preparing(&self) -> Vec<String> {
        let under_way =
            |entry: &Entry| entry.load.is_some() || (entry.serving.is_none() && entry.kept_load.is_some());
        self.files.iter().filter(|(_, entry)| under_way(entry)).map(|(file, _)| file.clone()).collect()
    }

    /// Writes down what a restart has to know, if that has changed and nothing is under way that may change it again.
    pub(crate) async fn remember(&mut self) {
        let Some(memory) = self.memory.clone().filter(|_| self.listed && self.is_idle()) else { return };
        let kept = self.files.iter().filter_map(|(file, entry)| Some((file, &entry.kept.as_ref()?.offer)));
        let kept: Kept = kept.map(|(file, offer)| (file.clone(), offer.clone())).collect();
        if kept == self.remembered {
            return;
        }
        let outdated = self.remembered.values().any(|old| kept.values().all(|new| new.digest != old.digest));
        self.remembered.clone_from(&kept);
        let runtime = self.runtime.clone();
        let written = blocking(move || {
            for offer in kept.values() {
                runtime.cache.mark_used(&offer.digest);
            }
            let written = memory.write(&kept);
            let pruned = if outdated { memory.prune() } else { Ok(()) };
            written.and(pruned).map_err(LoadError::Unreadable)
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "the tools that serve cannot be remembered: a restart may choose others");
        }
    }
}

async fn keep_original(memory: Memory, digest: String, bytes: Arc<Vec<u8>>) {
    let kept = blocking(move || memory.keep_original(&digest, &bytes).map_err(LoadError::Unreadable)).await;
    if let Err(error) = kept {
        tracing::warn!(%error, "a tool component cannot be kept: should its file be damaged, a restart cannot go back to it");
    }
}
