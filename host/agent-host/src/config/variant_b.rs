//! What Variant B cannot do without.

use agent_core::secret::Secret;

use super::context::Variant;
use super::problem::Problems;
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Need, secret, settings};
use super::stores::{Database, KeyValue, Stores};

settings! {
    /// Signs and verifies the bearer tokens of Variant B.
    JWT_SECRET = secret().needed(Need::VariantB);
}

/// What Variant B cannot do without.
#[derive(Debug, Clone)]
pub struct VariantB {
    /// Signs and verifies bearer tokens (`JWT_SECRET`).
    pub jwt_secret: Secret,
    /// The same as in [`Stores`].
    pub database: Database,
    /// The same as in [`Stores`].
    pub key_value: KeyValue,
}

impl VariantB {
    /// The secret if it is set; it has to be when Variant B is served.
    pub(super) fn read_secret(reader: &mut Reader<'_>) -> Result<Option<Secret>, Reported> {
        reader.secret(&JWT_SECRET)
    }

    /// Reads nothing but `JWT_SECRET`, for the command that signs.
    pub fn jwt_secret(vars: &impl EnvVars) -> Result<Secret, Problems> {
        reader::collect(vars, SETTINGS, |reader| reader.needed(&JWT_SECRET, |text| Some(Secret::new(text))))
    }

    pub(super) fn from(variant: Variant, jwt_secret: Option<Secret>, stores: &Stores) -> Option<Self> {
        if !variant.serves_b() {
            return None;
        }
        // The table says that Variant B needs all three, so the reader has refused to go without them.
        Some(Self {
            jwt_secret: jwt_secret?,
            database: stores.database.clone()?,
            key_value: stores.key_value.clone()?,
        })
    }
}
