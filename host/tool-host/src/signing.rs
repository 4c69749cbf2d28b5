//! Signing components, for whoever ships them. What a signature is of is said in `policy/signature.rs`.

use agent_core::secret::Secret;

use crate::policy::signature::{SignatureError, Signed, SigningKey};

/// A private key.
#[derive(Debug)]
pub struct Key {
    private: SigningKey,
    public: String,
}

/// Why a key is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(String);

impl Key {
    /// A new key, and the PEM text to keep it in.
    pub fn generate() -> Result<(Self, Secret), KeyError> {
        let (private, pem) = SigningKey::generate().map_err(wrong)?;
        Ok((Self::new(private)?, pem))
    }

    /// Reads a key: PKCS#8 in PEM.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        Self::new(SigningKey::from_pem(pem).map_err(wrong)?)
    }

    fn new(private: SigningKey) -> Result<Self, KeyError> {
        let public = private.public().map_err(wrong)?.to_string();
        Ok(Self { private, public })
    }

    /// As policies name it: `ed25519:` and hex.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// What belongs into `<name>.wasm.sig`, beside the component of that name.
    pub fn sign(&self, name: &str, component: &[u8]) -> Vec<u8> {
        self.private.sign(&Signed { name, component, manifest: &[] })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
fn wrong(error: SignatureError) -> KeyError {
    KeyError(error.to_string())
}
