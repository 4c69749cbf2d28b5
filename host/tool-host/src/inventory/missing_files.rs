//! Files that were in the tools folder and are not any more.
//!
//! Where replicas agree on what serves, a file that is gone stops its component on all of them. So it has to
//! be gone for a while, because a file may be replaced by removing it and writing another; and a folder that
//! had several files and has none is taken for a mount that went away.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::folder::Listing;

/// How long a file has to be gone.
const GONE_FOR: Duration = Duration::from_secs(3);

/// The files that are missing, and since when.
#[derive(Debug, Default)]
pub(super) struct MissingFiles(BTreeMap<String, Instant>);

impl MissingFiles {
    /// Compares what was in the folder with what is, and says which files are gone for good. Each is said
    /// until it is no longer among those that were there.
    pub(super) fn update(
        &mut self,
        were_there: &BTreeMap<String, String>,
        listing: &Listing,
        now: Instant,
    ) -> Vec<String> {
        self.0.retain(|file, _| were_there.contains_key(file) && !listing.files.contains_key(file));
        if listing.files.is_empty() && were_there.len() > 1 {
            if self.0.is_empty() {
                tracing::warn!(
                    "the tools folder is empty all of a sudden: what served goes on; delete components to stop them"
                );
            }
            return Vec::new();
        }
        for file in were_there.keys().filter(|file| !listing.files.contains_key(*file)) {
            self.0.entry(file.clone()).or_insert(now);
        }
        let is_gone = |since: &Instant| now.saturating_duration_since(*since) >= GONE_FOR;
        self.0.iter().filter(|(_, since)| is_gone(since)).map(|(file, _)| file.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::watch::FolderId;

    fn listing(files: &[&str]) -> Listing {
        let files = files.iter().map(|file| ((*file).to_owned(), None)).collect();
        Listing { identity: FolderId::default(), files, is_absent: false }
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
}
