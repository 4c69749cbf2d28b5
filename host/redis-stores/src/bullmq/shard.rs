//! Shards of the queue. On one Redis there is one. In a cluster each is a BullMQ queue of the same name under
//! a prefix of its own, whose braces put all its keys into one hash slot.
//!
//! With more than one shard the ids that others see name it: `2-57` is BullMQ's job 57 of shard 2. An id that
//! its submitter chose stays as it is; its digest says which shard it lies in.

use sha2::{Digest, Sha256};

/// Tells a shard from the rest of an id.
const SEPARATOR: char = '-';

/// One of so many shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) index: usize,
    pub(super) count: usize,
}

impl Shard {
    /// BullMQ's prefix, if it is not the usual one.
    pub(super) fn prefix(self, is_cluster: bool) -> Option<String> {
        match (is_cluster, self.count) {
            (false, _) => None,
            (true, 1) => Some("{bull}".into()),
            (true, _) => Some(format!("{{bull:{}}}", self.index)),
        }
    }

    /// The id under which others know a job of this shard.
    pub(super) fn public_id(self, local: &str) -> String {
        match locate(local, self.count) {
            Some((index, same)) if index == self.index && same == local => local.to_owned(),
            _ => format!("{}{SEPARATOR}{local}", self.index),
        }
    }

    /// The id under which this shard knows the job.
    pub(super) fn local_id(self, public: &str) -> &str {
        locate(public, self.count).map_or(public, |(_, local)| local)
    }
}

/// The shard of a job among so many, and the job's id there.
pub(super) fn locate(public: &str, count: usize) -> Option<(usize, &str)> {
    if count <= 1 {
        return Some((0, public));
    }
    let named = public.split_once(SEPARATOR).and_then(|(index, local)| Some((parse(index)?, local)));
    match named {
        Some((index, local)) if index < count && !local.is_empty() => Some((index, local)),
        // What BullMQ counts says nothing without its shard.
        _ if public.bytes().all(|byte| byte.is_ascii_digit()) => None,
        _ => Some((index_of(public, count), public)),
    }
}

/// A number as it is written.
fn parse(index: &str) -> Option<usize> {
    index.parse::<usize>().ok().filter(|number| number.to_string() == index)
}

/// Where a job lies whose id was chosen.
fn index_of(id: &str, count: usize) -> usize {
    let digest = Sha256::digest(id);
    digest.iter().take(4).fold(0, |number, byte| (number << 8) | usize::from(*byte)) % count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_of_one_shard_are_bullmqs_own() {
        let only = Shard { index: 0, count: 1 };
        for id in ["57", "2-57", "", "a"] {
            assert_eq!(
                (only.public_id(id), only.local_id(id), locate(id, 1)),
                (id.to_owned(), id, Some((0, id)))
            );
        }
        assert_eq!((only.prefix(false), only.prefix(true)), (None, Some("{bull}".into())));
    }

    #[test]
    fn ids_of_several_shards_name_theirs() {
        let third = Shard { index: 2, count: 3 };
        assert_eq!((third.public_id("57"), third.local_id("2-57")), ("2-57".into(), "57"));
        assert_eq!(third.prefix(true), Some("{bull:2}".into()));
        assert_eq!(locate("57", 3), None, "it may be any shard's");
        assert_eq!(locate("", 3), None);
        // None of these names a shard.
        for chosen in ["3-57", "02-57", "2-", "-2", "0199d3a4-5c1e", "report"] {
            assert!(locate(chosen, 3).is_some_and(|(_, local)| local == chosen), "{chosen}");
        }
    }

    proptest! {
        #[test]
        fn every_job_is_found_under_the_id_that_is_shown(local in ".+", count in 1usize..9, index in 0usize..9) {
            let shard = Shard { index: index % count, count };
            let public = shard.public_id(&local);
            prop_assert_eq!(locate(&public, count), Some((shard.index, &*local)));
        }

        #[test]
        fn a_chosen_id_stays_as_it_is(id in "[a-z][a-z0-9-]{0,20}", count in 1usize..9) {
            let (index, local) = locate(&id, count).unwrap();
            prop_assert_eq!(local, &*id);
            prop_assert_eq!(Shard { index, count }.public_id(local), id);
        }
    }
}
