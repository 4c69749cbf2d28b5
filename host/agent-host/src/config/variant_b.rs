//! What Variant B cannot do without.

use agent_core::secret::Secret;

use super::context::Variant;
use super::problem::{Problem, Problems};
use super::process_env::EnvVars;
use super::reader::{self, Reader, Reported};
use super::setting::{Need, one_of, secret, settings};
use super::stores::{Database, KeyValue, Stores};

settings! {
    /// Signs and verifies the bearer tokens of Variant B. In production one of less than 32 bytes is warned
    /// of.
    JWT_SECRET = secret().needed(Need::VariantB);
    /// Whether clients of OpenAI find the agent under /v1/, with the same bearer tokens. Only Variant B has
    /// those.
    OPENAI_API = one_of(&["on", "off"]).or_derived("on with Variant B, off without");
}

/// Bytes of a secret that cannot be found by trying (RFC 7518, section 3.2: as many as the hash has).
const SAFE_SECRET_BYTES: usize = 32;

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
        let secret = reader.secret(&JWT_SECRET)?;
        let is_used = reader.is_production() && reader.variant().is_none_or(Variant::serves_b);
        if is_used && secret.as_ref().is_some_and(|it| it.expose().len() < SAFE_SECRET_BYTES) {
            reader.warn(
                "JWT_SECRET has less than 32 bytes: who sees a token can find it by trying and sign tokens of an \
                 administrator; set a random one, as `openssl rand -base64 48` prints",
            );
        }
        Ok(secret)
    }

    /// Whether clients of OpenAI are answered, which needs the tokens of Variant B.
    pub(super) fn read_openai(reader: &mut Reader<'_>) -> Result<bool, Reported> {
        let has_tokens = reader.variant().is_none_or(Variant::serves_b);
        let is_built_in = cfg!(feature = "openai");
        let wanted = reader.optional(&OPENAI_API, |word| match word {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        if wanted == Some(true) && !(has_tokens && is_built_in) {
            let mut problem = Problem::refused(&OPENAI_API, "on");
            problem.allowed = match has_tokens {
                true => "off, as this binary was built without the Cargo feature openai".to_owned(),
                false => "off while SERVICE_VARIANT is a".to_owned(),
            };
            return Err(reader.report(problem));
        }
        Ok(wanted.unwrap_or(has_tokens && is_built_in))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::config::Config;

    #[test]
    fn a_short_secret_in_production_is_a_warning_and_no_error() {
        let warns = |variant: &str, environment: &str, bytes: usize| {
            let secret = "s".repeat(bytes);
            let vars = BTreeMap::from([
                ("SERVICE_VARIANT", variant),
                ("NODE_ENV", environment),
                ("LLM_API_KEY", "sk-1"),
                ("DATABASE_URL", "sqlite://agent.db"),
                ("REDIS_URL", "memory://"),
                ("JWT_SECRET", &secret),
            ]);
            let warnings = Config::from_vars(&vars).unwrap().warnings;
            warnings.iter().any(|warning| warning.starts_with("JWT_SECRET has less than 32 bytes"))
        };
        assert!(warns("b", "production", 31) && warns("both", "production", 1));
        assert!(
            !warns("b", "production", 32) && !warns("b", "development", 31) && !warns("a", "production", 1)
        );
    }
}
