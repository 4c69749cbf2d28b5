//! The sources with the bugs of `build.rs`, under the same scenarios.

// What the sources of `admission` take from the module above.
use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};

use crate::subjects::subject;

subject!(admission, "planted");
subject!(claim_wakeup, "planted");
subject!(group_commit, "planted");
subject!(live, "planted");
subject!(retired, "planted");
subject!(single_flight, "planted");
subject!(wakeups, "planted");

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
