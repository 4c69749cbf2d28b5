//! The user, as a component may know one: a name that is the same in every call of that user to that
//! component, on every replica, tells nobody who it is, and means nothing to another component.

use std::num::NonZeroU32;
use std::sync::OnceLock;

use agent_core::secret::Secret;
use agent_core::words::Principal;
use ring::{digest, hmac, pbkdf2};

/// Bytes of a name before it is written in hex.
const NAME_BYTES: usize = 16;

/// What the key is derived with (PBKDF2). The secret signs tokens as well: a component knows its users' names
/// and may know who they are, so each guess at the secret has to cost it this many hashes.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(99_999);
const SALT: &[u8] = b"agent-host names of users for components v2";

#[derive(Debug)]
pub(crate) struct UserNames {
    secret: Option<Secret>,
    /// Derived when it is needed first: it takes a while, and most components are told no users.
    key: OnceLock<hmac::Key>,
}

impl UserNames {
    /// Names under a key that is derived from a secret which all replicas share. Ids of users are few and
    /// short: without the key, a component could try them all.
    pub(crate) fn new(secret: Option<&Secret>) -> Self {
        Self { secret: secret.cloned(), key: OnceLock::new() }
    }

    /// Derives the key, if there is a secret. Takes some 50 ms: called where a component is loaded that is
    /// told users.
    pub(crate) fn prepare(&self) {
        let _key = self.key();
    }

    fn key(&self) -> Option<&hmac::Key> {
        let secret = self.secret.as_ref()?;
        Some(self.key.get_or_init(|| {
            let mut derived = [0; digest::SHA256_OUTPUT_LEN];
            let secret = secret.expose().as_bytes();
            pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ITERATIONS, SALT, secret, &mut derived);
            hmac::Key::new(hmac::HMAC_SHA256, &derived)
        }))
    }

    /// What the component knows the caller by; nothing where callers are not known.
    pub(crate) fn name(&self, caller: &Principal, component: &str) -> Option<String> {
        let user = caller.user_id.as_deref()?;
        let mut context = hmac::Context::with_key(self.key()?);
        for part in ["agent-host user of a component v1", component, user] {
            // With its length before it, no part can be read as the end of another.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        let tag = context.sign();
        let bytes = tag.as_ref().iter().take(NAME_BYTES);
        Some(bytes.fold("user_".to_owned(), |name, byte| name + &format!("{byte:02x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_stable_and_tells_users_and_nothing_else() {
        let names = |key: &str| UserNames::new(Some(&Secret::new(key.to_owned())));
        let of = |key, user: &str, component| names(key).name(&Principal::user(user), component).unwrap();
        let name = of("k", "u1", "notes");
        assert_eq!(name, of("k", "u1", "notes"));
        assert_eq!(name.len(), "user_".len() + 2 * NAME_BYTES);
        for other in
            [of("k2", "u1", "notes"), of("k", "u2", "notes"), of("k", "u1", "note"), of("k", "su1", "note")]
        {
            assert_ne!(name, other);
        }
        assert_eq!(names("k").name(&Principal::default(), "notes"), None);
        // Stored values may stand under it: another one is said in host/docs/tools/imports.md.
        assert_eq!(name, "user_2f9d563c8d23c0f10f7926575fcf5a5d");
    }
}
