//! What the checks of the stores' settings found last, for readiness reports. Each finding is logged once,
//! when it is new, and once when it is gone.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::StoreWarning;

/// The findings by their source. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct StoreFindings(Arc<Mutex<BTreeMap<&'static str, Finding>>>);

/// Warnings, or why the store must not be used.
type Finding = Result<Vec<StoreWarning>, String>;

impl StoreFindings {
    /// Takes the place of what `source` found before.
    pub fn set(&self, source: &'static str, finding: Finding) {
        let before = self.0.lock().get(source).cloned();
        log_difference(source, before.as_ref(), &finding);
        self.0.lock().insert(source, finding);
    }

    /// The warnings of all sources.
    pub fn warnings(&self) -> Vec<StoreWarning> {
        self.0.lock().values().flatten().flatten().cloned().collect()
    }

    /// Why stores must not be used: each source with its reason.
    pub fn unfit(&self) -> Vec<(&'static str, String)> {
        let findings = self.0.lock();
        let unfit =
            findings.iter().filter_map(|(source, found)| Some((*source, found.as_ref().err()?.clone())));
        unfit.collect()
    }
}

fn log_difference(source: &str, before: Option<&Finding>, now: &Finding) {
    let known = warnings_of(before);
    for StoreWarning { store, setting, problem } in warnings_of(Some(now)) {
        if !known.iter().any(|known| known.problem == *problem) {
            tracing::warn!(store, setting, "{problem}");
        }
    }
    let was_unfit = before.and_then(|finding| finding.as_ref().err());
    match now {
        Err(problem) if was_unfit != Some(problem) => tracing::error!(store = source, "{problem}"),
        Ok(warnings) if was_unfit.is_some() || (warnings.is_empty() && !known.is_empty()) => {
            tracing::info!(
                store = source,
                warnings = warnings.len(),
                "the settings of the store were changed"
            );
        }
        Ok(_) | Err(_) => {}
    }
}

fn warnings_of(finding: Option<&Finding>) -> &[StoreWarning] {
    finding.and_then(|finding| finding.as_ref().ok()).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(problem: &str) -> StoreWarning {
        StoreWarning { store: "redis", setting: "appendfsync", problem: problem.into() }
    }

    #[test]
    fn a_source_replaces_what_it_found_and_leaves_the_others() {
        let findings = StoreFindings::default();
        findings.set("redis", Ok(vec![warning("weak")]));
        findings.set("database", Ok(vec![warning("old")]));
        assert_eq!(findings.warnings(), [warning("old"), warning("weak")]);
        findings.set("redis", Err("it evicts".into()));
        assert_eq!(findings.warnings(), [warning("old")]);
        assert_eq!(findings.unfit(), [("redis", "it evicts".to_owned())]);
        findings.set("redis", Ok(vec![]));
        assert!(findings.unfit().is_empty());
    }
}
