//! A server that speaks MongoDB's protocol: the Python package SecantusDB. The crate `test-servers` looks for
//! it there.

use super::python::Environment;

/// Pinned: it is young, and the tests hold what this one does.
pub(super) const SERVER: Environment = Environment {
    place: "target/test-servers/secantusdb",
    packages: &[("SecantusDB", "0.7.0b3")],
    modules: &[],
};
