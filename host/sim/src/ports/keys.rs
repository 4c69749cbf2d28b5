//! Idempotency keys.

use std::sync::Arc;
use std::time::Duration;

use agent_core::ports::{IdempotencyError, IdempotencyKey, IdempotencyStore, KeyClaim, KeyTerms, Renewal};
use async_trait::async_trait;
use backends::memory::MemoryIdempotency;

use super::Ported;
use crate::gate::Call;
use crate::mutation::Mutation;
use crate::stores::ReferenceKeys;

impl Ported<ReferenceKeys> {
    /// The keys, of which something is about to be written.
    fn keys(&self) -> Arc<MemoryIdempotency> {
        if let Some(redis) = &self.gate.world.redis {
            redis.before_write();
        }
        self.store.now()
    }
}

#[async_trait]
impl IdempotencyStore for Ported<ReferenceKeys> {
    async fn claim(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        terms: KeyTerms,
    ) -> Result<KeyClaim, IdempotencyError> {
        let world = &self.gate.world;
        let claim = async {
            let claim = self.keys().claim(key, owner, terms).await?;
            Ok(match claim {
                KeyClaim::Claimed { .. } if world.has(Mutation::KeyIdChanges) => {
                    KeyClaim::Claimed { id: owner.to_owned() }
                }
                KeyClaim::Claimed { id } => {
                    if id != owner {
                        world.reached("a key was claimed again");
                    }
                    KeyClaim::Claimed { id }
                }
                other => other,
            })
        };
        self.gate.pass(Call::rare("key.claim", key.caller), IdempotencyError, claim).await
    }

    async fn renew(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        lease: Duration,
    ) -> Result<Renewal, IdempotencyError> {
        let renew = async { self.keys().renew(key, owner, lease).await };
        self.gate.pass(Call::poll("key.renew"), IdempotencyError, renew).await
    }

    async fn settle(
        &self,
        key: IdempotencyKey<'_>,
        owner: &str,
        answer: &[u8],
    ) -> Result<bool, IdempotencyError> {
        let settle = async { self.keys().settle(key, owner, answer).await };
        self.gate.pass(Call::rare("key.settle", key.caller), IdempotencyError, settle).await
    }

    async fn release(&self, key: IdempotencyKey<'_>, owner: &str) -> Result<(), IdempotencyError> {
        let release = async { self.keys().release(key, owner).await };
        self.gate.pass(Call::rare("key.release", key.caller), IdempotencyError, release).await
    }
}
