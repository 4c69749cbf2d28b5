//! The sources with the bugs of `build.rs`, under the same scenarios.

crate::subjects::subjects!("planted");
