//! How many files and sockets the process may have open, and how many of them are for connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of the process itself: listeners, log, tools folder, stores and their pools, health checks.
const RESERVED: u64 = 128;

/// Connections cost memory as well. Who wants more has to say so.
const MOST_BY_DEFAULT: usize = 10_000;

/// Raises the soft limit to the hard one, as far as that is possible, and says what it is then; none when
/// there is no limit. The usual soft limit of 1,024 is for programs that cannot deal with higher numbers.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit on open files stays as it is");
            current
        }
    }
}

/// How many connections there may be at once: what was asked for, as far as the descriptors reach. Each may
/// need a second one while its request is answered, for the model provider.
pub(crate) fn connections(wanted: Option<usize>, descriptors: Option<u64>) -> usize {
    let left = left(descriptors);
    match wanted {
        Some(wanted) if wanted > left => {
            tracing::warn!(
                wanted,
                most = left,
                "MAX_CONNECTIONS is more than the limit on open files leaves: raise that (ulimit -n, LimitNOFILE)"
            );
            left
        }
        Some(wanted) => wanted,
        None => (left / 2).min(MOST_BY_DEFAULT),
    }
}

/// Whether the descriptors reach for so many WebSockets beside so many connections.
pub(crate) fn are_enough(descriptors: Option<u64>, connections: usize, websockets: usize) -> bool {
    connections.saturating_add(websockets) <= left(descriptors)
}

fn left(descriptors: Option<u64>) -> usize {
    descriptors.map_or(usize::MAX, |most| {
        usize::try_from(most.saturating_sub(RESERVED)).unwrap_or(usize::MAX).max(2)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websockets_take_what_connections_leave() {
        assert!(are_enough(Some(1024), 448, 256) && are_enough(Some(1024), 640, 256));
        assert!(!are_enough(Some(1024), 641, 256) && !are_enough(Some(200), 36, 1_000));
        assert!(are_enough(None, 10_000, 100_000) && are_enough(Some(10), 1, 0));
    }

    #[test]
    fn connections_get_half_of_what_is_left_unless_told_otherwise() {
        assert_eq!(connections(None, Some(1024)), 448);
        assert_eq!(connections(None, Some(1 << 20)), 10_000);
        assert_eq!(connections(None, None), 10_000);
        assert_eq!(connections(None, Some(10)), 1);
        assert_eq!(connections(Some(7), Some(1024)), 7);
        assert_eq!(connections(Some(900), Some(1024)), 896);
        assert_eq!(connections(Some(50_000), None), 50_000);
    }
}
