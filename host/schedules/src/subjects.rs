//! How sources that `build.rs` has copied are included.

/// A module of a place's sources, of the real ones or of those with a bug.
macro_rules! subject {
    ($name:ident, $of:literal) => {
        #[allow(
            dead_code,
            unreachable_pub,
            unused_imports,
            reason = "a scenario uses less than the service, and what is planted leaves code behind"
        )]
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", $of, "/", stringify!($name), ".rs"));
        }
    };
}

/// All sources, under the scenarios: the real ones, or those with the bugs of `build.rs`.
macro_rules! subjects {
    ($of:literal) => {
        // What the sources of `admission` take from the module above.
        use run_service::layers::{Ask, Invoke, InvokeError, RunAnswer};

        $crate::subjects::subject!(admission, $of);
        $crate::subjects::subject!(claim_wakeup, $of);
        $crate::subjects::subject!(group_commit, $of);
        $crate::subjects::subject!(live, $of);
        $crate::subjects::subject!(retired, $of);
        $crate::subjects::subject!(single_flight, $of);
        $crate::subjects::subject!(wakeups, $of);

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
    };
}

pub(crate) use {subject, subjects};
