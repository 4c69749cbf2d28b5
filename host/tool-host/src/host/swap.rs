//! The swap of what serves, in one atomic step: runs under way keep the tools that they began with.

use std::sync::Arc;

use agent_core::ports::{ToolFault, ToolSet as _};

use super::{Published, ToolHost};
use crate::component::Component;
use crate::error::LoadError;
use crate::inventory::{Settled, shown_server};
use crate::observer::SetReport;
use crate::rollout::Counted;
use crate::serving::{self, Clash, Serving};

impl ToolHost {
    /// Swaps the tool set if that makes a difference.
    pub(super) fn publish(&self, settled: Settled) {
        let prepared = !settled.preparing.first;
        let (components, faults) = (settled.components.len(), settled.faults.len());
        self.swap(settled);
        // After the swap, so that callers of `prepared` find the tools there.
        if prepared && !self.prepared.send_replace(true) {
            let seconds = self.begun.elapsed().as_secs_f64();
            tracing::info!(components, faults, seconds, "all tools are prepared");
        }
    }

    fn swap(&self, settled: Settled) {
        let before = self.published.load();
        let Settled { components, mut faults, described, preparing, has_no_folder, counted, revision: _ } =
            settled;
        let swapped = !before.serving.all.is_of(&components, &self.runtime.grants.current());
        let counts_others = !before.serving.is_counting(&counted);
        faults.extend(self.runtime.grants.fault().map(|(file, error)| ToolFault { file, error }));
        let not_loaded = faults.len();
        faults.extend(self.clashes(&components, &counted));
        let is_same =
            faults == before.faults && preparing == before.preparing && has_no_folder == before.has_no_folder;
        if !swapped && !counts_others && is_same {
            return;
        }
        let is_new = |fault: &&ToolFault| !before.faults.contains(fault);
        let (unloaded, clashes) = faults.split_at(not_loaded);
        for fault in unloaded.iter().filter(is_new) {
            tracing::error!(file = fault.file, error = fault.error, "a tool component cannot be loaded");
        }
        for fault in clashes.iter().filter(is_new) {
            tracing::error!(file = fault.file, error = fault.error, "a canary does not serve its runs");
        }
        let serving = if swapped || counts_others {
            if let Some(rollout) = &self.rollout {
                rollout.set_counted(counted.clone());
            }
            Arc::new(Serving::new(self.runtime.clone(), components, counted))
        } else {
            before.serving.clone()
        };
        let tools = serving.all.list();
        if swapped {
            let names: Vec<_> = tools.iter().map(|tool| tool.tool.as_str()).collect();
            let digest = serving.all.catalog().digest();
            tracing::info!(tools = names.join(","), digest, "the tool set was swapped");
        }
        let changed = swapped || faults != before.faults;
        let published = Published { serving, faults, described, preparing, has_no_folder };
        if changed {
            let report = SetReport { tools: &tools, faults: &published.faults, swapped };
            self.runtime.observer.set_changed(&report);
        }
        self.published.swap(published, |published| published.serving.all.components());
    }

    /// Why versions that are tried do not serve their runs.
    fn clashes(&self, components: &[Arc<Component>], counted: &Counted) -> Vec<ToolFault> {
        let policy = self.runtime.grants.current();
        let shown = |name: &str| match policy.mcp(name) {
            Some(_) => shown_server(name),
            None => format!("{name}.wasm"),
        };
        let fault = |Clash { name, tool, other, is_with_canary }: Clash| {
            let other = shown(&other);
            let runs = match is_with_canary {
                true => format!("that has the canary of {other} as well"),
                false => "until one of the two is changed".to_owned(),
            };
            let error = LoadError::Duplicate { tool, other };
            let error = format!("has a canary that serves no run {runs}: it {error}");
            ToolFault { file: shown(&name), error }
        };
        serving::clashes(components, counted).into_iter().map(fault).collect()
    }
}
