//! Idempotency keys.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{IdempotencyError, IdempotencyKey, IdempotencyStore, KeyClaim, KeyTerms, Renewal};
use backends::memory::MemoryIdempotency;
use boxed_async::boxed_async;

use super::Ported;
use crate::faults::gate::Call;
use crate::faults::mutation::Mutation;
use crate::stores::ReferenceKeys;

impl Ported<ReferenceKeys> {
    /// The keys, of which something is about to be written.
    fn keys(&self) -> Arc<MemoryIdempotency> {
        if let Some(redis) = &self.gate.world.redis {
            redis.before_write();
        }
        self.store.lock().clone()
    }
}

/// What a key is claimed, renewed and settled with, to outlast its caller.
struct OwnedKey {
    caller: String,
    key: String,
    request: String,
    owner: String,
}

impl OwnedKey {
    fn of(key: IdempotencyKey<'_>, owner: &str) -> Self {
        let IdempotencyKey { caller, key, request } = key;
        let owned = str::to_owned;
        Self { caller: owned(caller), key: owned(key), request: owned(request), owner: owned(owner) }
    }

    fn key(&self) -> IdempotencyKey<'_> {
        IdempotencyKey { caller: &self.caller, key: &self.key, request: &self.request }
    }
}

#[boxed_async]
impl IdempotencyStore for Ported<ReferenceKeys> {
    async fn claim(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        terms: KeyTerms,
    ) -> Result<KeyClaim, IdempotencyError> {
        let (this, of) = (self.clone(), OwnedKey::of(key, owner));
        let claim = async move {
            let world = &this.gate.world;
            let claim = this.keys().claim(of.key(), &of.owner, terms).await?;
            if matches!(&claim, KeyClaim::Claimed { id } if *id != of.owner) {
                world.reached("a key was claimed again");
            }
            match claim {
                KeyClaim::Claimed { .. } if world.has(Mutation::KeyIdChanges) => {
                    Ok(KeyClaim::Claimed { id: of.owner })
                }
                claim => Ok(claim),
            }
        };
        self.gate.write(Call::rare("key.claim", key.caller), IdempotencyError, claim).await
    }

    async fn renew(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        lease: Duration,
    ) -> Result<Renewal, IdempotencyError> {
        let (this, of) = (self.clone(), OwnedKey::of(key, owner));
        let renew = async move { this.keys().renew(of.key(), &of.owner, lease).await };
        self.gate.write(Call::poll("key.renew"), IdempotencyError, renew).await
    }

    async fn settle(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        answer: &[u8],
    ) -> Result<bool, IdempotencyError> {
        let (this, of, answer) = (self.clone(), OwnedKey::of(key, owner), answer.to_vec());
        let settle = async move { this.keys().settle(of.key(), &of.owner, &answer).await };
        self.gate.write(Call::rare("key.settle", key.caller), IdempotencyError, settle).await
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> Result<(), IdempotencyError> {
        let (this, of) = (self.clone(), OwnedKey::of(key, owner));
        let release = async move { this.keys().release(of.key(), &of.owner).await };
        self.gate.write(Call::rare("key.release", key.caller), IdempotencyError, release).await
    }
}
