//! How the readiness report learns that the service is going away.

use std::sync::{Arc, Weak};

use agent_core::ports::{Preparing, ProbeError, StoreFindings, StoreWarning, ToolFault, Toolbox};
use run_service::health::Check;
use serde::Serialize;
use utoipa::ToSchema;

/// Held by whoever runs the service for as long as it wants requests. Dropping it is the event: from then
/// on readiness is denied, and no path through the shutdown can forget to say so.
#[derive(Debug, Default)]
pub struct Latch(Arc<()>);

impl Latch {
    /// What the health report asks.
    pub fn readiness(&self) -> Readiness {
        let stores = StoreFindings::default();
        Readiness { latch: Arc::downgrade(&self.0), tasks_down: Arc::new(Vec::new), stores }
    }
}

/// Whether the [`Latch`] it came from is still held, and whether everything runs that answers depend on.
#[derive(Clone)]
pub struct Readiness {
    latch: Weak<()>,
    tasks_down: TasksDown,
    stores: StoreFindings,
}

/// Names the background tasks that broke off and do not run again yet.
pub type TasksDown = Arc<dyn Fn() -> Vec<&'static str> + Send + Sync>;

impl Readiness {
    pub(crate) fn is_shutting_down(&self) -> bool {
        self.latch.strong_count() == 0
    }

    /// Denied as well while one of those tasks does not run.
    #[must_use]
    pub fn with_tasks(self, tasks_down: TasksDown) -> Self {
        Self { tasks_down, ..self }
    }

    /// Reports as well what is found of the stores' settings, and is denied while a store must not be used.
    #[must_use]
    pub fn with_stores(self, stores: StoreFindings) -> Self {
        Self { stores, ..self }
    }

    /// Settings of the stores under which the service promises less.
    pub(crate) fn store_warnings(&self) -> Vec<StoreWarning> {
        self.stores.warnings()
    }

    /// Reasons to keep requests away whatever the probes say, as failed checks.
    pub(crate) fn refusals(&self, preparing: &Preparing) -> Vec<Check> {
        let failed = |name, why| Check { name, outcome: Err(ProbeError(why)) };
        let mut checks = Vec::new();
        if self.is_shutting_down() {
            checks.push(failed("shutdown", "the service is shutting down".into()));
        }
        let down = self.tasks_down();
        if !down.is_empty() {
            checks.push(failed("tasks", format!("begun anew after a failure: {}", down.join(", "))));
        }
        if preparing.first {
            checks.push(failed("tools", not_prepared(preparing)));
        }
        checks.extend(self.stores.unfit().into_iter().map(|(_source, problem)| failed("stores", problem)));
        checks
    }

    pub(crate) fn tasks_down(&self) -> Vec<&'static str> {
        (self.tasks_down)()
    }
}

/// The files of the tools folder that do not serve, in both variants' readiness reports. The others do, so
/// this makes nothing unhealthy.
#[derive(Serialize, ToSchema)]
pub(crate) struct ToolsReport {
    /// Those that could not be loaded, or for whose tools the catalog has no room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<FailedTool>,
    /// Those that are being loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["search.wasm"]))]
    preparing: Vec<String>,
    /// Why there are none, where the service was set up without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "there are no tools: the default tools folder does not exist")]
    none: Option<String>,
}

/// A file and why it does not serve.
#[derive(Serialize, ToSchema)]
struct FailedTool {
    /// Its name in the tools folder.
    #[schema(example = "search.wasm")]
    file: String,
    /// Why.
    #[schema(example = "search.wasm cannot be read: not a component")]
    error: String,
}

impl From<ToolFault> for FailedTool {
    fn from(ToolFault { file, error }: ToolFault) -> Self {
        Self { file, error }
    }
}

impl ToolsReport {
    /// Nothing when all files serve.
    pub(crate) fn of(toolbox: &dyn Toolbox) -> Option<Self> {
        let failed: Vec<_> = toolbox.faults().into_iter().map(FailedTool::from).collect();
        let (preparing, none) = (toolbox.preparing().files, toolbox.no_tools());
        let has_news = !failed.is_empty() || !preparing.is_empty() || none.is_some();
        has_news.then_some(Self { failed, preparing, none })
    }
}

/// Why a service that has just started is not ready.
fn not_prepared(preparing: &Preparing) -> String {
    let files = preparing.files.join(", ");
    if files.is_empty() {
        "the tools folder has not been read yet".to_owned()
    } else {
        format!("tools are being prepared: {files}")
    }
}
