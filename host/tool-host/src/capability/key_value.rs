//! `agent:tool/key-value`: values that outlive the call, in the space that the policy gives the component.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agent_core::ports::{KeyValueError, KeyValueStore, Space};

use super::imports::Imports;
use crate::bindings::agent::tool::key_value::Host;
use crate::bindings::agent::tool::types::Fault;

pub(super) const IMPORTS: Imports = Imports::Contract("key-value");

/// Most operations of one call: each is a round trip to a store that others use too.
const MOST_OPERATIONS: u32 = 1_000;

/// What a call may keep; absent where nothing is granted.
#[derive(Default)]
pub(crate) struct KeyValueState(pub(crate) Option<OwnSpace>);

/// The space of a call.
pub(crate) struct OwnSpace {
    pub(crate) store: Arc<dyn KeyValueStore>,
    pub(crate) component: Arc<str>,
    pub(crate) owner: Owner,
    /// Most bytes of the space.
    pub(crate) quota: u64,
    pub(crate) deadline: Instant,
    /// How many the call has made, in all attempts.
    pub(crate) operations: Arc<AtomicU32>,
}

/// Whose values they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Owner {
    /// All callers' of the component.
    Shared,
    /// Values of that user.
    User(String),
    /// A user's, and there is none: every operation is denied.
    Anonymous,
}

impl OwnSpace {
    fn space(&self) -> Result<Space<'_>, Fault> {
        let user = match &self.owner {
            Owner::Shared => None,
            Owner::User(user) => Some(user.as_str()),
            Owner::Anonymous => {
                return Err(fault("denied", "the values are each user's own, and the caller is not known"));
            }
        };
        Ok(Space { component: &self.component, user, quota: self.quota })
    }
}

impl KeyValueState {
    /// The space for one more operation.
    fn own(&self) -> Result<&OwnSpace, Fault> {
        let Some(own) = &self.0 else {
            return Err(fault("denied", "the operator does not let this tool keep values"));
        };
        if own.operations.fetch_add(1, Ordering::Relaxed) >= MOST_OPERATIONS {
            let text = format!("one call may make {MOST_OPERATIONS} operations");
            return Err(fault("denied", &text));
        }
        Ok(own)
    }
}

/// What an operation comes to before the call's deadline.
async fn within<T>(
    own: &OwnSpace,
    operation: impl Future<Output = Result<T, KeyValueError>>,
) -> Result<T, Fault> {
    let late = |_| fault("unavailable", "the call has no time left");
    tokio::time::timeout_at(own.deadline.into(), operation).await.map_err(late)?.map_err(refused)
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
fn refused(error: KeyValueError) -> Fault {
    let code = match &error {
        KeyValueError::TooLarge { .. } => "too-large",
        KeyValueError::QuotaExceeded { .. } => "quota-exceeded",
        KeyValueError::NotANumber => "not-a-number",
        KeyValueError::Unavailable(cause) => {
            // What is wrong with the store is the operator's business.
            tracing::warn!(cause, "values of a tool could not be read or written");
            return fault("unavailable", "the store of values does not answer");
        }
    };
    fault(code, &error.to_string())
}

fn fault(code: &str, message: &str) -> Fault {
    Fault { code: code.into(), message: message.into() }
}

impl Host for KeyValueState {
    async fn get(&mut self, key: String) -> Result<Option<Vec<u8>>, Fault> {
        let own = self.own()?;
        within(own, own.store.get(own.space()?, &key)).await
    }

    async fn set(&mut self, key: String, value: Vec<u8>, ttl_ms: Option<u64>) -> Result<(), Fault> {
        let own = self.own()?;
        within(own, own.store.set(own.space()?, &key, &value, ttl_ms.map(Duration::from_millis))).await
    }

    async fn swap(&mut self, key: String, expected: Option<Vec<u8>>, value: Vec<u8>) -> Result<bool, Fault> {
        let own = self.own()?;
        within(own, own.store.swap(own.space()?, &key, expected.as_deref(), &value)).await
    }

    async fn add(&mut self, key: String, delta: i64) -> Result<i64, Fault> {
        let own = self.own()?;
        within(own, own.store.add(own.space()?, &key, delta)).await
    }

    async fn delete(&mut self, key: String) -> Result<bool, Fault> {
        let own = self.own()?;
        within(own, own.store.delete(own.space()?, &key)).await
    }

    async fn list_keys(
        &mut self,
        prefix: String,
        after: Option<String>,
        most: u32,
    ) -> Result<Vec<String>, Fault> {
        let own = self.own()?;
        within(own, own.store.list_keys(own.space()?, &prefix, after.as_deref(), most)).await
    }
}
