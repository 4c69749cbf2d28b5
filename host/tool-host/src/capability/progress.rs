//! `agent:tool/progress`: how far a call has got, for whoever watches it, and as lines of the tool's log
//! within their bounds.

use std::sync::Arc;

use agent_core::ports::ProgressSink;
use agent_core::words::ToolProgress;

use super::imports::Imports;
use super::log::LogState;
use crate::bindings::agent::tool::progress::Host;
use crate::limits::progress::Progress;

pub(super) const IMPORTS: Imports = Imports::Contract("progress");

/// Where reports go, and whether anybody still waits.
pub(crate) struct ProgressState {
    pub(crate) log: LogState,
    pub(crate) progress: Arc<Progress>,
    /// Whoever watches, if anybody does.
    pub(crate) reports: Option<Arc<dyn ProgressSink>>,
}

impl Host for ProgressState {
    fn report(&mut self, message: String, fraction: Option<f64>) -> bool {
        // A guest may report anything; a share that is none is left out.
        let fraction = fraction.filter(|fraction| (0.0..=1.0).contains(fraction));
        if let Some(reports) = &self.reports {
            let message = self.log.shown(&message, ToolProgress::MOST_BYTES).into();
            reports.report(ToolProgress { message, fraction });
        }
        let fields: Vec<_> =
            fraction.map(|it| ("progress".to_owned(), format!("{it:.3}"))).into_iter().collect();
        self.log.write_line("debug", &message, &fields);
        !self.progress.is_cancelled()
    }
}
