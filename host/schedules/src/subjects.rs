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

pub(crate) use subject;
