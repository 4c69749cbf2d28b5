//! Bounds the bytes of components that are held at the same time. A file is read only when the largest one
//! would fit, because its size may change until then; what it does not take is given back.
//!
//! Whoever waits here holds neither bytes nor a compiler. Only the inventory waits: elsewhere, loads would be
//! waited for that nobody drives.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::LoadError;
use crate::limits::MOST_COMPONENT_BYTES;

/// How many of the largest components fit.
const LARGEST: u64 = 2;

/// What permits count. A permit for each byte would be more than a semaphore has.
const BLOCK_BYTES: u64 = 64 << 10;

/// The memory for the bytes of components that are being loaded or proposed.
#[derive(Debug, Clone)]
pub(crate) struct ContentMemory(Arc<Semaphore>);

/// Part of it. Clones are the same part.
#[derive(Debug, Clone)]
pub(crate) struct ContentPermit(Arc<OwnedSemaphorePermit>);

impl ContentPermit {
    /// What it is a part of.
    pub(crate) fn memory(&self) -> ContentMemory {
        ContentMemory(self.0.semaphore().clone())
    }
}

impl PartialEq for ContentPermit {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ContentPermit {}

impl ContentMemory {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(blocks(LARGEST * MOST_COMPONENT_BYTES) as usize)))
    }

    /// Waits until the largest component fits.
    pub(crate) async fn reserve(&self) -> Result<Reserved, LoadError> {
        let permit = self.0.clone().acquire_many_owned(blocks(MOST_COMPONENT_BYTES)).await;
        let permit = permit.map_err(|closed| LoadError::Unreadable(std::io::Error::other(closed)))?;
        Ok(Reserved(permit))
    }
}

/// Room for the largest component.
#[derive(Debug)]
pub(crate) struct Reserved(OwnedSemaphorePermit);

impl Reserved {
    /// The part for so many bytes. The rest is free again.
    pub(crate) fn keep(mut self, bytes: usize) -> ContentPermit {
        let kept = blocks(u64::try_from(bytes).unwrap_or(u64::MAX)) as usize;
        drop(self.0.split(self.0.num_permits().saturating_sub(kept)));
        ContentPermit(Arc::new(self.0))
    }
}

fn blocks(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(BLOCK_BYTES).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    // Outside of a runtime, whose tasks have to yield after some hundred permits.
    #[test]
    fn two_of_the_largest_or_many_small_ones_are_held() {
        let memory = ContentMemory::new();
        let reserve = || memory.reserve().now_or_never().map(Result::unwrap);
        let largest = usize::try_from(MOST_COMPONENT_BYTES).unwrap();
        let one = reserve().unwrap().keep(largest);
        let clone = one.clone();
        let two = reserve().unwrap();
        assert!(reserve().is_none());
        drop(one);
        assert!(reserve().is_none(), "the bytes are held elsewhere, too");
        drop(clone);
        drop((reserve().unwrap(), two));
        let small: Vec<_> = (0..1000).map(|_| reserve().unwrap().keep(1)).collect();
        assert_eq!(small.len(), 1000);
        drop(reserve().unwrap().keep(largest));
        let more: Vec<_> = (0..24).map(|_| reserve().unwrap().keep(1)).collect();
        assert!(reserve().is_some(), "half is free");
        let last = reserve().unwrap().keep(1);
        assert!(reserve().is_none());
        drop((small, more, last));
    }
}
