//! Which components serve: follows the tools folder, loads what is new in it side by side, and settles what
//! of it serves.
//!
//! What happened is a list of events (`event.rs`), what they add up to a value (`state.rs`), and which
//! versions serve a pure function of that (`decide.rs`). Here is what drives it: [`Inventory::advance`] waits
//! for the next thing to happen (the folder was listed, a load ended, the folder changed) and makes events of
//! it, [`Inventory::settle`] decides. Every load publishes by itself, so a slow file delays nobody. What may
//! wait for a disk, a compiler or a guest is a future of `start_loads.rs` and runs elsewhere. `file_loads.rs`
//! has the loads of one file, `attempts.rs` and `retry.rs` when they are tried again, `restart_memory.rs`
//! writes down what outlives a restart. Where versions are kept in a store, `agreed.rs` follows its records
//! in place of the folder, `proposals.rs` has the folder propose, and `signature_search.rs` finds who signed
//! what waits.

mod agreed;
mod agreement;
mod attempts;
mod decide;
mod event;
mod file_loads;
mod missing_files;
mod proposals;
mod restart_memory;
mod retry;
mod signature_search;
mod start_loads;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::{Preparing, Records, ToolFault, VersionsError};
use agent_core::words::FoundDescription;
use futures::future::{Aborted, BoxFuture};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};

use crate::component::Component;
use crate::error::LoadError;
use crate::folder::watch::{FolderId, Watch};
use crate::folder::{Folder, Listing, component_name};
use crate::load::blocking;
use crate::rollout::{Counted, Rollout};
use crate::runtime::Runtime;
use agreement::Agreement;
use attempts::{Looks, looks_of};
use decide::{Decision, decide};
use event::{FileChange, FileEvent};
use file_loads::{Ended, FileLoads};
use state::FolderState;

use crate::folder::memory::{Memory, Remembered};
use missing_files::MissingFiles;

/// What is to serve, and what cannot.
pub(crate) struct Settled {
    /// The components that are to serve, by file name.
    pub(crate) components: Vec<Arc<Component>>,
    /// The files that cannot serve as they are.
    pub(crate) faults: Vec<ToolFault>,
    /// How the versions describe themselves that are refused for it, by component.
    pub(crate) described: BTreeMap<String, FoundDescription>,
    /// The files that are being loaded.
    pub(crate) preparing: Preparing,
    /// The versions whose calls are counted.
    pub(crate) counted: Counted,
    pub(crate) has_no_folder: bool,
    /// The revision of the records that it is, if there are records and all that they say was tried.
    pub(crate) revision: Option<u64>,
}

/// The files of the tools folder and what is known of each.
pub(crate) struct Inventory {
    runtime: Arc<Runtime>,
    folder: Folder,
    watch: Watch,
    state: FolderState,
    file_loads: BTreeMap<String, FileLoads>,
    loads: FuturesUnordered<BoxFuture<'static, Result<Ended, Aborted>>>,
    listing: Option<BoxFuture<'static, io::Result<Listing>>>,
    /// Why the folder cannot be read.
    unreadable: Option<ToolFault>,
    /// Whether nobody has made the folder, which is the default one. Absent until it was listed.
    is_absent: Option<bool>,
    tickets: u64,
    /// How often the folder was listed.
    round: u64,
    /// Whether everything that was in the folder at first has been loaded or refused.
    prepared: bool,
    memory: Option<Memory>,
    /// Present where versions are kept in a store.
    agreement: Option<Agreement>,
    /// The files that were proposed from the folder, with the digests that they had then.
    in_folder: BTreeMap<String, String>,
    /// Files that are gone from the folder, with their digests, until the store has it written down.
    leaving: BTreeMap<String, String>,
    missing: MissingFiles,
    /// What the memory holds, or is to hold while `memory_is_behind`.
    remembered: Remembered,
    /// Whether the memory may hold something else, because the last write of it has failed or was not waited
    /// for.
    memory_is_behind: bool,
    /// Whether the last attempt to write the memory, or to remove copies, failed. The log says so once.
    memory_fails: bool,
    /// Digests of the copies that lie beside the memory because of this folder.
    originals: BTreeSet<String>,
    /// Whether copies that nobody refers to were looked for since the start.
    pruned: bool,
    most_tokens: u64,
}

/// What an MCP server is called where a file would be: in faults, and among what is prepared.
pub(crate) fn shown_server(name: &str) -> String {
    format!("{name} (MCP)")
}

/// What [`Inventory::advance`] waits for.
enum Input {
    Listed(io::Result<Listing>),
    Synced(Result<Option<Records>, VersionsError>),
    SyncIsDue,
    Ended(Ended),
    Changed,
}

impl Inventory {
    pub(crate) async fn new(
        runtime: Arc<Runtime>,
        path: PathBuf,
        may_be_absent: bool,
        most_tokens: u64,
        rollout: Option<Arc<Rollout>>,
    ) -> Self {
        let folder = runtime.cache.folder().filter(|_| runtime.remembers);
        let memory = folder.map(|folder| Memory::new(folder, &path));
        let remembered = match memory.clone() {
            Some(memory) => blocking(move || Ok(memory.read())).await.unwrap_or_default(),
            None => Remembered::default(),
        };
        Self {
            folder: Folder::new(path).that_may_be_absent(may_be_absent).with_servers(runtime.mcp.clone()),
            runtime,
            watch: Watch::new(),
            state: FolderState::default(),
            file_loads: BTreeMap::new(),
            loads: FuturesUnordered::new(),
            listing: None,
            unreadable: None,
            is_absent: None,
            tickets: 0,
            round: 0,
            prepared: false,
            memory,
            agreement: rollout.map(Agreement::new),
            in_folder: remembered.in_folder.clone(),
            leaving: BTreeMap::new(),
            missing: MissingFiles::beside(remembered.servers.clone()),
            originals: remembered.last_good.values().map(|version| version.digest.clone()).collect(),
            remembered,
            memory_is_behind: false,
            memory_fails: false,
            pruned: false,
            most_tokens,
        }
    }

    /// Begins to list the folder.
    pub(crate) fn poll_folder(&mut self) {
        if self.listing.is_none() {
            let folder = self.folder.clone();
            self.listing = Some(async move { folder.list().await }.boxed());
        }
    }

    /// Begins to load every file again: what is granted has changed. What serves goes on serving meanwhile,
    /// under what is granted now.
    pub(crate) fn load_all_anew(&mut self) {
        self.file_loads.values_mut().for_each(FileLoads::forget);
        if let Some(agreement) = &mut self.agreement {
            agreement.forget_refusals();
        }
        self.follow_records();
        self.poll_folder();
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
        let waits = self.agreement.as_ref().is_some_and(|agreement| agreement.is_awaited);
        self.listing.is_none() && self.loads.is_empty() && !waits
    }

    /// Waits for the next input and turns all that are there into events. With `watching` the folder is
    /// listed when it changes. Cancellation-safe.
    pub(crate) async fn advance(&mut self, watching: bool) {
        let input = self.next(watching).await;
        let mut listed = self.take_in(input);
        // What happened at the same time makes one change of the tool set, not several.
        while let Some(input) = self.next(false).now_or_never() {
            listed = self.take_in(input).or(listed);
        }
        if let Some(identity) = listed.filter(|_| watching) {
            self.watch.follow(self.folder.path(), identity).await;
        }
    }

    async fn next(&mut self, watching: bool) -> Input {
        let retry = self.next_retry();
        let Self { listing, loads, watch, agreement, .. } = self;
        let idle = listing.is_none();
        let waits = agreement.as_ref().is_some_and(|agreement| agreement.is_awaited);
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
        let (mut sync, is_due) = match agreement {
            Some(Agreement { sync: Some(sync), .. }) => (Some(sync), None),
            Some(agreement) => (None, Some(agreement.due(retry))),
            None => (None, None),
        };
        let synced = async {
            match &mut sync {
                Some(sync) => sync.await,
                None => pending().await,
            }
        };
        let due = async {
            match is_due {
                Some(due) => due.await,
                None => pending().await,
            }
        };
        tokio::select! {
            synced = synced => Input::Synced(synced),
            () = due, if watching || waits => Input::SyncIsDue,
            listed = listed => { self.listing = None; Input::Listed(listed) }
            ended = ended => Input::Ended(ended),
            () = watch.changed(), if watching && idle => Input::Changed,
        }
    }

    /// Turns an input into events. Returns the identity of the folder if it was listed.
    fn take_in(&mut self, input: Input) -> Option<FolderId> {
        match input {
            Input::Listed(Ok(listing)) if listing.is_absent && self.had_files(&listing) => {
                self.cannot_be_read(&io::ErrorKind::NotFound.into());
            }
            Input::Listed(Ok(listing)) => {
                self.unreadable = None;
                self.missing.note_servers(&listing);
                if listing.is_absent && self.is_absent.is_none() {
                    let folder = self.folder.path().display();
                    tracing::warn!(%folder, "there is no tools folder, so no tools of one: make it, or set TOOLS_DIR");
                }
                self.is_absent = Some(listing.is_absent);
                let identity = listing.identity;
                self.listed(&listing);
                return Some(identity);
            }
            Input::Listed(Err(error)) => self.cannot_be_read(&error),
            Input::Synced(synced) => self.synced(synced),
            Input::SyncIsDue => self.poll_records(false),
            Input::Ended(ended) => self.end(ended),
            Input::Changed => self.poll_folder(),
        }
        None
    }

    /// Nothing can be said about the files, so what serves goes on serving.
    fn cannot_be_read(&mut self, error: &io::Error) {
        tracing::debug!(folder = %self.folder.path().display(), %error, "the tools folder cannot be read");
        let error = unreadable(error);
        self.unreadable = Some(ToolFault { file: ".".into(), error });
    }

    /// Whether the folder that is absent now was there, so that its mount may have gone away. What served
    /// last tells only where the folder decided: records also name versions that were never files of it.
    fn had_files(&self, listing: &Listing) -> bool {
        let served = self.remembered.last_good.keys().filter(|_| !self.has_agreed());
        let mut before = self.in_folder.keys().chain(served);
        self.is_absent == Some(false)
            || before.any(|file| !listing.files.contains_key(file) && !self.missing.is_of_server(file))
    }

    /// Whether what served here last was decided by records.
    fn has_agreed(&self) -> bool {
        self.agreement.is_some() && self.remembered.has_agreed
    }

    /// Logs an event and adds it to the state: at the level `debug` the log has the history of the tool set.
    fn record(&mut self, file: &str, change: FileChange) {
        tracing::debug!(file, ?change, "a tool file");
        self.state.apply(FileEvent::new(file, change));
    }

    /// Takes in what is in the folder: it is what is to serve, or what is proposed.
    fn listed(&mut self, listing: &Listing) {
        match &mut self.agreement {
            Some(agreement) => {
                let goes_by_folder = agreement.goes_by_folder;
                agreement.first_listing.get_or_insert_with(|| listing.clone());
                agreement.listing = Some(listing.clone());
                if agreement.records.is_some() {
                    self.propose_from_folder();
                    self.load_what_is_due();
                } else if goes_by_folder {
                    self.compare(self.decided_by_folder(listing));
                }
            }
            None => self.compare(looks_of(listing)),
        }
    }

    /// What is to serve until the store has answered: the files of the folder, and the versions that served
    /// here last without being files of it, such as uploaded ones.
    fn decided_by_folder(&self, listing: &Listing) -> BTreeMap<String, Looks> {
        let mut looks = looks_of(listing);
        let served = self.remembered.last_good.iter().filter(|_| self.has_agreed());
        for (file, version) in served.filter(|(file, _)| !self.in_folder.contains_key(*file)) {
            let facts = version.facts.clone().unwrap_or_default();
            looks.entry(file.clone()).or_insert(Looks::Kept { digest: version.digest.clone(), facts });
        }
        looks
    }

    /// Compares what is to serve with what is known of it.
    fn compare(&mut self, wanted: BTreeMap<String, Looks>) {
        if self.round == 0 {
            // Files that are gone are forgotten.
            for (file, version) in self.remembered.last_good.clone() {
                if wanted.contains_key(&file) {
                    self.record(&file, FileChange::Remembered(version));
                }
            }
        }
        self.round += 1;
        let known: Vec<_> = self.state.files().map(|(file, _)| file.clone()).collect();
        for gone in known.iter().filter(|file| !wanted.contains_key(*file)) {
            self.file_loads.remove(gone);
            self.record(gone, FileChange::Removed);
        }
        self.load_wanted(wanted);
    }

    /// Begins to load those of these files that are new, or due again after a failure.
    fn load_wanted(&mut self, wanted: BTreeMap<String, Looks>) {
        for (file, looks) in wanted {
            if self.file_loads.entry(file.clone()).or_default().newest.wants(&looks, Instant::now()) {
                self.record(&file, FileChange::Proposed { round: self.round });
                self.read(&file, looks);
            }
        }
    }

    /// Decides what is to serve.
    pub(crate) fn settle(&mut self) -> Settled {
        let Decision { serves, refusals, replaced } = decide(&self.state, self.most_tokens);
        for FileEvent { file, change } in replaced {
            if let Some(loads) = self.file_loads.get_mut(&file) {
                loads.replaced();
            }
            self.record(&file, change);
        }
        let mut components = Vec::with_capacity(serves.len());
        let mut missing = Vec::new();
        for (file, version) in serves {
            match self.file_loads.get(&file).and_then(|loads| loads.component(&version.digest)) {
                Some(component) => components.push(component),
                None => missing.push(file),
            }
        }
        let now = Instant::now();
        for file in &missing {
            let (loads, state) = (self.file_loads.get(file), self.state.get(file));
            if loads.zip(state).is_some_and(|(loads, state)| loads.wants_last_good(state, now)) {
                self.load_last_good(file);
            }
        }
        for (file, loads) in &mut self.file_loads {
            let state = self.state.get(file);
            loads.keep_only(|digest| state.is_some_and(|state| state.needs(digest)));
        }
        // Who only looks takes what the store says of a server for its tools.
        let may_be_called = |component: &Arc<Component>| component.call_interface.has_answered();
        components.retain(|component| !self.runtime.remembers || may_be_called(component));
        self.prepared |= self.is_idle();
        if self.is_idle() {
            self.tell_of_waiting();
        }
        Settled {
            preparing: Preparing { files: self.preparing(&components), first: !self.prepared },
            components,
            has_no_folder: self.is_absent == Some(true),
            faults: self.faults(refusals),
            described: self.described(),
            counted: self.agreement.as_ref().map(Agreement::counted).unwrap_or_default(),
            revision: self.revision().filter(|_| self.is_idle()),
        }
    }

    /// The revision of the records that are followed.
    fn revision(&self) -> Option<u64> {
        Some(self.agreement.as_ref()?.records.as_ref()?.revision)
    }

    /// The files that cannot serve as they are, by name. That a version was refused for others' sake comes
    /// before what was wrong with it.
    fn faults(&self, refusals: BTreeMap<String, LoadError>) -> Vec<ToolFault> {
        // An MCP server that is no longer in the policy is no fault of anything: it was taken away.
        let is_fault = |error: &&Arc<LoadError>| !matches!(***error, LoadError::McpServerGone);
        let own = self
            .state
            .files()
            .filter_map(|(file, state)| Some((file.clone(), state.error().filter(is_fault)?.to_string())));
        let mut faults: BTreeMap<String, String> = own.collect();
        faults.extend(self.agreement.iter().flat_map(Agreement::faults));
        faults.extend(refusals.into_iter().map(|(file, error)| (file, error.to_string())));
        let faults = faults.into_iter().map(|(file, error)| ToolFault { file: self.shown(file), error });
        self.unreadable.iter().cloned().chain(faults).collect()
    }

    fn described(&self) -> BTreeMap<String, FoundDescription> {
        let described = self.state.files().filter_map(|(_, state)| match &**state.error()? {
            LoadError::DescribedOtherwise { name, found, .. } => Some((name.clone(), (**found).clone())),
            _ => None,
        });
        described.collect()
    }

    /// A file as it is called before others: the list of an MCP server is none.
    fn shown(&self, file: String) -> String {
        let policy = self.runtime.grants.current();
        match component_name(&file).filter(|name| policy.mcp(name).is_some()) {
            Some(name) => shown_server(name),
            None => file,
        }
    }

    fn preparing(&self, serving: &[Arc<Component>]) -> Vec<String> {
        let serves =
            |file: &str| serving.iter().any(|component| component_name(file) == Some(&component.name));
        let under_way = |(file, loads): &(&String, &FileLoads)| {
            loads.newest.under_way.is_some() || (loads.last_good.is_some() && !serves(file))
        };
        let loading = self.file_loads.iter().filter(under_way).map(|(file, _)| file.clone());
        let proposing = self.agreement.iter().flat_map(Agreement::proposing);
        let files = loading.chain(proposing).collect::<BTreeSet<_>>();
        files.into_iter().map(|file| self.shown(file)).collect()
    }
}

/// What is said of a folder that cannot be read. Errors of the file system name no path, so that the text may
/// stand in the readiness report, which anyone may read.
fn unreadable(error: &io::Error) -> String {
    let todo = if error.kind() == io::ErrorKind::NotFound {
        ": create it, or set TOOLS_DIR to the one that is meant"
    } else {
        ""
    };
    format!("the tools folder (TOOLS_DIR) cannot be read: {error}{todo}")
}
