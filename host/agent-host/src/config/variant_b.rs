//! What Variant B cannot do without.

use agent_core::secret::Secret;

use super::context::Variant;
use super::problem::{Problem, Problems};
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Need, one_of, secret, settings};
use super::stores::{Database, KeyValue, Stores};

settings! {
    /// Signs and verifies the bearer tokens of Variant B.
    JWT_SECRET = secret().needed(Need::VariantB);
    /// Whether clients of OpenAI find the agent under /v1/, with the same bearer tokens. Only Variant B has those.
    OPENAI_API = one_of(&["on", "off"]).or_derived("on with Variant B, off without");
}

/// What Variant B cannot do without.
#[derive(Debug, Clone)]
pub struct VariantB {
    /// Signs and verifies bearer tokens (`JWT_SECRET`).
    pub jwt_secret: Secret,
    /// Whether clients of OpenAI are answered (`OPENAI_API`).
    pub openai: bool,
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

    /// Whether clients of OpenAI are answered, which needs the tokens of Variant B.
    pub(super) fn read_openai(reader: &mut Reader<'_>) -> Result<bool, Reported> {
        let is_served = reader.variant().is_none_or(Variant::serves_b);
        let wanted = reader.optional(&OPENAI_API, |word| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        if wanted == Some(true) && !is_served {
            let mut problem = Problem::refused(&OPENAI_API, "on");
            "off while SERVICE_VARIANT is a".clone_into(&mut problem.allowed);
            return Err(reader.report(problem));
        }
        Ok(wanted.unwrap_or(is_served))
    }

    /// Reads nothing but `JWT_SECRET`, for the command that signs.
    pub fn jwt_secret(vars: &impl EnvVars) -> Result<Secret, Problems> {
        reader::collect(vars, SETTINGS, |reader| reader.needed(&JWT_SECRET, |text| Some(Secret::new(text))))
    }

    pub(super) fn from(
        variant: Variant,
        jwt_secret: Option<Secret>,
        openai: bool,
        stores: &Stores,
    ) -> Option<Self> {
        if !variant.serves_b() {
            return None;
        }
        // The table says that Variant B needs all three, so the reader has refused to go without them.
        Some(Self {
            jwt_secret: jwt_secret?,
            openai,
            database: stores.database.clone()?,
            key_value: stores.key_value.clone()?,
        })
    }
}
