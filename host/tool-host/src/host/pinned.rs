//! The tools of a run that is taken up: in the versions that it began with, as far as those can still be had.
//!
//! What its caller may not use any more, and what was taken away altogether, it does not get back: only
//! versions are pinned. A version that the policy has for other callers is replaced by the one that serves
//! (`Serving::of_versions`).

use std::sync::Arc;

use agent_core::ports::Versions;
use agent_core::words::{Principal, Trial, TrialState};

use super::ToolHost;
use crate::component::Component;
use crate::load::approved::Approved;
use crate::load::{self, Source};
use crate::serving::Snapshot;

impl ToolHost {
    /// The tools of a run that began with these versions.
    pub(crate) async fn pin(&self, caller: &Principal, run_id: &str, versions: &Versions) -> Arc<Snapshot> {
        let serving = self.published.load().serving.clone();
        // Journals of older versions do not say.
        if versions.is_empty() {
            return serving.of_run(caller, run_id);
        }
        let set = serving.of(caller);
        let mut components = Vec::with_capacity(set.components().len());
        for current in set.components() {
            let Some(digest) = versions.get(&*current.name) else { continue };
            let pinned =
                if *digest == current.digest { None } else { self.version(&current.name, digest).await };
            components.push(pinned.unwrap_or_else(|| current.clone()));
        }
        serving.of_versions(caller, &components)
    }

    /// How a version has to describe itself. Nothing when it was taken back: its trial has failed, or its
    /// component has it no longer.
    async fn approved(&self, name: &str, digest: &str) -> Option<Approved> {
        let Some(rollout) = &self.rollout else { return Some(Approved::Unrecorded) };
        // While the store is away a run goes on as it began.
        let Ok(found) = rollout.store().record(name).await else { return Some(Approved::Unrecorded) };
        let found = found?;
        let has_failed =
            |trial: &Trial| trial.digest == digest && matches!(trial.state, TrialState::Failed { .. });
        if found.record.trial.as_ref().is_some_and(has_failed) {
            return None;
        }
        Approved::of(&found.record, digest)
    }

    /// A version that does not serve.
    async fn version(&self, name: &str, digest: &str) -> Option<Arc<Component>> {
        let approved = self.approved(name, digest).await?;
        let kept = || self.published.retired().get(name, digest).filter(|retired| approved.admits(retired));
        if let Some(component) = kept() {
            return Some(component);
        }
        // One load at a time: of many runs that are taken up at once the first loads their version, and the
        // bytes of one component are held.
        let _one_at_a_time = self.published.retired().one_load().await;
        if let Some(component) = kept() {
            return Some(component);
        }
        let rollout = self.rollout.clone();
        let source = Source::Kept { rollout, memory: None, name: name.to_owned(), digest: digest.to_owned() };
        let loaded = load::load_from(self.runtime.clone(), name, &source).await;
        match loaded.and_then(|component| approved.check(&component).map(|()| component)) {
            Ok(component) => {
                let component = Arc::new(component);
                self.published.retired().add(component.clone());
                Some(component)
            }
            Err(error) => {
                tracing::warn!(
                    component = name,
                    digest,
                    %error,
                    "a run goes on with another version of a tool than it began with"
                );
                None
            }
        }
    }
}
