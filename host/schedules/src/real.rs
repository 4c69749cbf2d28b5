//! The sources as they are, under the scenarios.

// What the sources of `admission` take from the module above.
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};

use crate::subjects::subject;

subject!(admission, "real");
subject!(claim_wakeup, "real");
subject!(group_commit, "real");
subject!(live, "real");
subject!(retired, "real");
subject!(single_flight, "real");
subject!(wakeups, "real");

#[path = "places/admission.rs"]
pub(crate) mod of_admission;
#[path = "places/claim_wakeup.rs"]
pub(crate) mod of_claim_wakeup;
#[path = "places/group_commit.rs"]
pub(crate) mod of_group_commit;
#[path = "places/live.rs"]
pub(crate) mod of_live;
#[path = "places/retired.rs"]
pub(crate) mod of_retired;
#[path = "places/single_flight.rs"]
pub(crate) mod of_single_flight;
#[path = "places/wakeups.rs"]
pub(crate) mod of_wakeups;
