//! Files that were in the tools folder and are not any more.
//!
//! Where replicas agree on what serves, a file that is gone stops its component on all of them. So it has to
//! be gone for a while, because a file may be replaced by removing it and writing another; and a folder that
//! had several files and has none is taken for a mount that went away. The lists of MCP servers are files of
//! the listing as well, but not of the folder: they neither hide that it lost all others, nor count as lost
//! with it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::folder::Listing;

/// How long a file has to be gone.
const GONE_FOR: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
pub(super) struct MissingFiles {
    since: BTreeMap<String, Instant>,
    /// The files of MCP servers, also of those that are no longer in the policy: without them, a policy that
    /// loses several servers would look like a folder that lost its files.
    servers: BTreeSet<String>,
    /// Whether the folder had lost all its files when it was last compared.
    lost_all: bool,
}

impl MissingFiles {
    /// None is missing yet. These are lists of MCP servers.
    pub(super) fn beside(servers: BTreeSet<String>) -> Self {
        Self { servers, ..Self::default() }
    }

    /// Whether it is the list of an MCP server, or was one.
    pub(super) fn is_of_server(&self, file: &str) -> bool {
        self.servers.contains(file)
    }

    /// Compares what was in the folder with what is, and says which files are gone for good. Each is said
    /// until it is no longer among those that were there.
    pub(super) fn update(
        &mut self,
        were_there: &BTreeMap<String, String>,
        listing: &Listing,
        now: Instant,
    ) -> Vec<String> {
        self.since.retain(|file, _| were_there.contains_key(file) && !listing.files.contains_key(file));
        let servers = &self.servers;
        let is_of_server = |file: &str| servers.contains(file);
        let had_several = were_there.keys().filter(|file| !is_of_server(file)).count() > 1;
        let lost_all = had_several && listing.files.keys().all(|file| is_of_server(file));
        if lost_all && !self.lost_all {
            tracing::warn!(
                "the tools folder is empty all of a sudden: what served goes on; delete components to stop them"
            );
        }
        self.lost_all = lost_all;
        let may_be_gone = |file: &str| !lost_all || is_of_server(file);
        for file in were_there.keys().filter(|file| !listing.files.contains_key(*file)) {
            if may_be_gone(file) {
                self.since.entry(file.clone()).or_insert(now);
            }
        }
        let is_over = |since: &Instant| now.saturating_duration_since(*since) >= GONE_FOR;
        let gone = self.since.iter().filter(|(file, since)| may_be_gone(file) && is_over(since));
        gone.map(|(file, _)| file.clone()).collect()
    }

    /// Notes which files are those of servers. One that is listed otherwise now has lost its server and got a
    /// file of the folder, or the other way round.
    pub(super) fn note_servers(&mut self, listing: &Listing) {
        self.servers.retain(|file| !listing.files.contains_key(file));
        self.servers.extend(listing.servers.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::watch::FolderId;

    fn listing(files: &[&str]) -> Listing {
        let files = files.iter().map(|file| ((*file).to_owned(), None)).collect();
        Listing { identity: FolderId::default(), files, servers: BTreeSet::new(), is_absent: false }
    }

    /// A folder without files, and MCP servers.
    fn listing_of_servers(servers: &[&str]) -> Listing {
        Listing { servers: servers.iter().map(|file| (*file).to_owned()).collect(), ..listing(servers) }
    }

    /// Which of these are gone for good, looked at so many times [`GONE_FOR`] behind a moment.
    fn looking_at(were_there: &[&str]) -> impl FnMut(&Listing, u32) -> Vec<String> {
        let were_there = were_there.iter().map(|file| ((*file).to_owned(), String::new())).collect();
        let (mut missing, now) = (MissingFiles::default(), Instant::now());
        move |listing, after| {
            missing.note_servers(listing);
            missing.update(&were_there, listing, now + GONE_FOR * after)
        }
    }

    #[test]
    fn a_file_is_gone_after_a_while_and_a_folder_that_lost_all_is_not() {
        let were_there = ["a", "b"].map(|file| (file.to_owned(), String::new())).into();
        let (mut missing, now) = (MissingFiles::default(), Instant::now());
        assert!(missing.update(&were_there, &listing(&["b"]), now).is_empty());
        assert!(missing.update(&were_there, &listing(&["a", "b"]), now + GONE_FOR).is_empty());
        assert!(
            missing.update(&were_there, &listing(&["b"]), now + GONE_FOR).is_empty(),
            "it was back meanwhile"
        );
        assert_eq!(missing.update(&were_there, &listing(&["b"]), now + GONE_FOR * 2), ["a"]);
        assert!(missing.update(&were_there, &listing(&[]), now + GONE_FOR * 9).is_empty());
        let one = [("a".to_owned(), String::new())].into();
        assert_eq!(missing.update(&one, &listing(&[]), now + GONE_FOR * 9), ["a"]);
    }

    #[test]
    fn a_server_beside_them_does_not_hide_that_all_files_went_away() {
        let mut look = looking_at(&["a", "b", "docs"]);
        for rounds in 0..3 {
            let gone = look(&listing_of_servers(&["docs"]), rounds);
            assert!(gone.is_empty(), "{gone:?}");
        }
        // The server is taken out of the policy while the mount is away.
        assert!(look(&listing(&[]), 3).is_empty());
        assert_eq!(look(&listing(&[]), 4), ["docs"]);
        // The mount is back without one of the files.
        assert!(look(&listing(&["a", "docs"]), 5).is_empty());
        assert_eq!(look(&listing(&["a", "docs"]), 6), ["b"]);
    }

    #[test]
    fn servers_that_are_taken_out_of_the_policy_at_once_are_no_mount_that_went_away() {
        let mut look = looking_at(&["docs", "mail", "time"]);
        let all = listing_of_servers(&["docs", "mail", "time"]);
        assert!(look(&all, 0).is_empty());
        let one = listing_of_servers(&["time"]);
        assert!(look(&one, 0).is_empty());
        assert_eq!(look(&one, 1), ["docs", "mail"]);
    }
}
