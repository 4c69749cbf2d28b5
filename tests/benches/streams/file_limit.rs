//! How many sockets this process and the service that it starts may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A thousand streams are four thousand sockets at most: both ends of those that are read directly, the
/// provider's ends of those that the service keeps for later, and some.
const NEEDED: u64 = 4_096;

/// Raises the soft limit to the hard one; what is started inherits it.
pub(crate) fn raise() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    assert!(
        maximum.is_none_or(|maximum| maximum >= NEEDED),
        "1,000 streams need {NEEDED} open files and the hard limit is {maximum:?}: raise it (ulimit -Hn, LimitNOFILE)"
    );
}
