//! The user, as a component may know one: a name that is the same in every call of that user to that component, on every
//! replica, tells nobody who it is, and means nothing to another component.

use agent_core::secret::Secret;
use agent_core::words::Principal;
use ring::hmac;

/// Bytes of a name before it is written in hex.
const NAME_BYTES: usize = 16;

/// Makes the names.
#[derive(Debug)]
pub(crate) struct UserNames(Option<hmac::Key>);

impl UserNames {
    /// Names under a key that all replicas share. Ids of users are few and short: without the key, a component could try
    /// them all.
    pub(crate) fn new(key: Option<&Secret>) -> Self {
        Self(key.map(|key| hmac::Key::new(hmac::HMAC_SHA256, key.expose().as_bytes())))
    }

    /// What the component knows the caller by; nothing where callers are not known.
    pub(crate) fn name(&self, caller: &Principal, component: &str) -> Option<String> {
        let user = caller.user_id.as_deref()?;
        let mut context = hmac::Context::with_key(self.0.as_ref()?);
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
    }
}
