//! What the folder proposes where versions are kept in a store: each file whose bytes no replica ever
//! proposed is loaded, described and written down, and from then on it is the record that says whether it
//! serves. A file that was there and is gone is written down too.

use std::sync::Arc;
use std::time::Instant;

use agent_core::ports::AdminError;
use agent_core::words::{ComponentRecord, ComponentVersion, Millis, VersionSource};
use futures::FutureExt;
use tool_versions::record::{Change, is_approved, says_nothing_new};

use super::Inventory;
use super::attempts::{Load, Looks};
use super::file_loads::{FileLoads, Part, Proposed};
use crate::component::Component;
use crate::error::LoadError;
use crate::folder::{Content, Folder, component_name};
use crate::load::{self, Source};
use crate::rollout::{Proposal, Rollout};
use crate::runtime::Runtime;

/// Who proposes what lies in the folder.
const FOLDER: &str = "folder";

/// Who takes an MCP server away.
const POLICY: &str = "policy";

impl Inventory {
    /// Begins to propose what is new in the folder, as it was listed last, and says what is gone from it.
    pub(super) fn propose_from_folder(&mut self) {
        let Some(agreement) = &mut self.agreement else { return };
        if !self.runtime.remembers {
            return;
        }
        let Some(listing) = agreement.listing.clone().filter(|_| agreement.records.is_some()) else { return };
        let now = Instant::now();
        let gone = self.missing.update(&self.in_folder, &listing, now);
        agreement.proposals.retain(|file, _| listing.files.contains_key(file));
        let (is_first, mut wanted) = (std::mem::take(&mut agreement.was_empty), Vec::new());
        for (file, fingerprint) in listing.files {
            let looks = Looks::File(fingerprint);
            let proposal = agreement.proposals.entry(file.clone()).or_default();
            if is_first {
                proposal.first = Some(looks.clone());
            }
            // What is being loaded already is proposed when that has ended, and not loaded twice.
            let is_loading = self.state.get(&file).is_some_and(|state| state.loading.is_some());
            if !is_loading && proposal.attempts.wants(&looks, now) {
                wanted.push((file, looks));
            }
        }
        gone.into_iter().for_each(|file| self.file_is_gone(&file));
        wanted.into_iter().for_each(|(file, looks)| self.propose(&file, looks));
    }

    fn propose(&mut self, file: &str, looks: Looks) {
        let Some(agreement) = &self.agreement else { return };
        let proposer = Proposer {
            runtime: self.runtime.clone(),
            rollout: agreement.rollout.clone(),
            folder: self.folder.clone(),
            loaded: self.file_loads.get(file).map(FileLoads::all_current).unwrap_or_default(),
            there_since: agreement.there_since(file, &looks),
            is_first: agreement
                .proposals
                .get(file)
                .is_some_and(|proposal| proposal.first.as_ref() == Some(&looks)),
        };
        let named = file.to_owned();
        let work = async move { proposer.propose(&named).await };
        let (ticket, abort) = self.begin(file, None, work.map(Part::Proposed));
        if let Some(proposal) =
            self.agreement.as_mut().and_then(|agreement| agreement.proposals.get_mut(file))
        {
            proposal.attempts.under_way = Some(Load::new(ticket, Some(looks), abort));
        }
    }

    /// Takes in what came of a proposal.
    pub(super) fn proposed(&mut self, file: &str, ticket: u64, result: Result<Proposed, LoadError>) {
        let Some(agreement) = &mut self.agreement else { return };
        let Some(proposal) = agreement.proposals.get_mut(file) else { return };
        if !proposal.attempts.is_under_way(ticket) {
            return;
        }
        match proposal.finish(result) {
            Some(Proposed::Written(component)) => {
                self.in_folder.insert(file.to_owned(), component.digest.clone());
                // The component may serve right away, and then it is not to be loaded twice.
                let loads = self.file_loads.entry(file.to_owned()).or_default();
                let is_it = |other: Arc<Component>| other.signature == component.signature;
                if !loads.current(&component.digest).is_some_and(is_it) {
                    loads.add(component);
                }
                self.poll_records(true);
            }
            Some(Proposed::Known(digest)) => {
                // Another replica has written it down since the records were read: what it says has to be
                // known before all is prepared.
                let records = agreement.records.as_ref();
                let found = component_name(file).and_then(|name| records?.components.get(name));
                let is_news = !found.is_some_and(|found| says_nothing_new(&found.record, &digest));
                self.in_folder.insert(file.to_owned(), digest);
                // A version that was refused is loaded again: its file may have been signed.
                let is_refused = self.state.get(file).is_some_and(|state| state.error().is_some());
                if let Some(loads) = self.file_loads.get_mut(file).filter(|_| is_refused) {
                    loads.newest.forget();
                }
                if is_news {
                    self.poll_records(true);
                }
            }
            None if self.is_unwritten(file) => self.follow_records(),
            None => {}
        }
    }

    /// The version that is to serve, and that the load of this ticket found, is the list of an MCP server
    /// that the policy no longer has. That is written down as with a file that is gone, so that no replica
    /// tries to load it for ever.
    pub(super) fn server_is_gone(&mut self, file: &str, ticket: u64) {
        let loads = self.file_loads.get(file).filter(|loads| loads.newest.is_under_way(ticket));
        let Some(digest) = loads.and_then(|loads| loads.newest.loading_digest()).map(str::to_owned) else {
            return;
        };
        let Some(name) = component_name(file) else { return };
        tracing::warn!(
            server = name,
            "an MCP server is no longer in the policy, so its tools do not serve: put its [[mcp]] back, or remove what is kept \
             of it with agent-host tool delete"
        );
        let Some(agreement) = self.agreement.as_ref().filter(|_| self.runtime.remembers) else { return };
        let (rollout, name) = (agreement.rollout.clone(), name.to_owned());
        let work = async move {
            let change = Change::ServerGone { digest };
            if let Err(error) = rollout.change(&name, POLICY, |_| Ok(change.clone())).await {
                tracing::warn!(server = name, %error, "that it is gone could not be written down yet");
            }
            Part::Written
        };
        self.begin(file, None, work);
    }

    fn file_is_gone(&mut self, file: &str) {
        let Some(digest) = self.in_folder.remove(file) else { return };
        let (Some(agreement), Some(name)) = (&self.agreement, component_name(file)) else { return };
        let (rollout, name) = (agreement.rollout.clone(), name.to_owned());
        self.leaving.insert(file.to_owned(), digest.clone());
        let work = async move {
            let change = Change::FileGone { digest: digest.clone() };
            match rollout.change(&name, FOLDER, |_| Ok(change.clone())).await {
                Ok(_) => Part::Written,
                Err(error) => {
                    tracing::warn!(component = name, %error, "that its file is gone could not be written down yet");
                    Part::StillInFolder(digest)
                }
            }
        };
        self.begin(file, None, work);
    }
}

/// The version of a file that is signed. It may have been signed since it was proposed.
fn signed_version<'a>(record: &'a ComponentRecord, content: &Content) -> Option<&'a ComponentVersion> {
    let found = record.versions.iter().find(|version| version.digest == content.digest);
    found.filter(|_| content.signature.is_some())
}

/// What a proposal needs.
struct Proposer {
    runtime: Arc<Runtime>,
    rollout: Arc<Rollout>,
    folder: Folder,
    loaded: Vec<Arc<Component>>,
    /// Since when the file has been there, if it was at the start.
    there_since: Option<Millis>,
    /// Whether it was there before there were any records.
    is_first: bool,
}

impl Proposer {
    /// The digests that were known when the file was found. What lay there before there were any records is
    /// older than all of them.
    fn known_before(&self, record: ComponentRecord) -> Vec<String> {
        let ComponentRecord { versions, mut known, .. } = record;
        let is_later = |version: &ComponentVersion| {
            self.is_first || self.there_since.is_some_and(|since| version.proposed_at >= since)
        };
        let later: Vec<_> = versions.iter().filter(|version| is_later(version)).collect();
        known.retain(|digest| !later.iter().any(|version| version.digest == *digest));
        known
    }

    /// Refuses a file that would wait, while too much waits already: before it is compiled.
    async fn check_room(&self, name: &str, content: &Content) -> Result<(), LoadError> {
        if !self.runtime.needs_approval || load::is_in_policy(&self.runtime, name, content).await? {
            return Ok(());
        }
        let checked = self.rollout.check_room(&content.digest, content.bytes.len() as u64).await;
        checked.map_err(|error| LoadError::NotWrittenDown(error.to_string()))
    }

    /// The component of what was read of a file. One that the folder has loaded already is taken: with
    /// another one beside it, its code would be mapped and its memories prepared twice for as long as both
    /// are held.
    async fn loaded(
        &self,
        name: &str,
        source: &Source,
        content: Content,
    ) -> Result<(Arc<Component>, Content), LoadError> {
        let is_it = |component: &&Arc<Component>| {
            component.digest == content.digest && component.signature == content.signature
        };
        if let Some(component) = self.loaded.iter().find(is_it) {
            return Ok((component.clone(), content));
        }
        let (component, content) = load::load(self.runtime.clone(), name, source, content).await?;
        Ok((Arc::new(component), content))
    }

    async fn propose(self, file: &str) -> Result<Proposed, LoadError> {
        let name = component_name(file).ok_or(LoadError::BadFileName)?;
        let source = Source::File(self.folder.clone(), file.to_owned());
        let memory = &self.runtime.proposed_content;
        let content = load::read_counted(&self.runtime, memory, name, &source).await?;
        let store = self.rollout.store();
        let found = store.record(name).await.map_err(|error| LoadError::NotWrittenDown(error.to_string()))?;
        let is_known = |record: &ComponentRecord| {
            let waits = |version: &ComponentVersion| !is_approved(version);
            says_nothing_new(record, &content.digest) && !signed_version(record, &content).is_some_and(waits)
        };
        if let Some(found) = found.as_ref().filter(|found| is_known(&found.record)) {
            // Replicas without the file have the signature from the store. One that nobody trusts shall not
            // take the place of a good one there.
            let is_signed = signed_version(&found.record, &content).is_some();
            if is_signed && load::is_in_policy(&self.runtime, name, &content).await? {
                let kept = self.rollout.keep(name, &content).await;
                kept.map_err(|error| LoadError::NotWrittenDown(error.to_string()))?;
            }
            return Ok(Proposed::Known(content.digest));
        }
        let known = found.map(|found| self.known_before(found.record)).unwrap_or_default();
        self.check_room(name, &content).await?;
        let (component, content) = self.loaded(name, &source, content).await?;
        let is_in_policy = self.runtime.grants.names(component.identity());
        let proposal = Proposal {
            component: &component,
            content: &content,
            source: VersionSource::Folder,
            by: FOLDER.to_owned(),
            expected: None,
            known_when_found: Some(known),
            is_in_policy,
        };
        match self.rollout.propose(proposal).await {
            Ok(_) => Ok(Proposed::Written(component)),
            Err(AdminError::Unavailable(text)) => Err(LoadError::NotWrittenDown(text)),
            Err(error) => Err(LoadError::NotProposed(error.to_string())),
        }
    }
}
