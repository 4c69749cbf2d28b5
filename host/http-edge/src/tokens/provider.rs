//! The cryptography behind tokens: HMAC over SHA-2, and nothing else.
//!
//! The providers that `jsonwebtoken` brings along know every algorithm there is and come with crates for RSA
//! and elliptic curves, which a shared secret has no use for.

use hmac::{Hmac, Mac};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

static HMAC_ONLY: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key: &EncodingKey| {
        Ok(match Keyed::new(*algorithm, key.as_bytes())? {
            Keyed::Sha256(hmac) => Box::new(hmac),
            Keyed::Sha384(hmac) => Box::new(hmac),
            Keyed::Sha512(hmac) => Box::new(hmac),
        })
    },
    verifier_factory: |algorithm, key: &DecodingKey| {
        Ok(match Keyed::new(*algorithm, key.try_get_as_bytes()?)? {
            Keyed::Sha256(hmac) => Box::new(hmac),
            Keyed::Sha384(hmac) => Box::new(hmac),
            Keyed::Sha512(hmac) => Box::new(hmac),
        })
    },
    // `key_utils` is about keys in JSON, which nobody here reads.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes this the process's provider. The library asks for one of the whole process; whoever installed one
/// before us, in a test for example, installed this one.
pub(super) fn install() {
    let _installed_before = HMAC_ONLY.install_default();
}

/// HMAC-SHA256 of the purpose under the secret.
pub(super) fn derive(secret: &[u8], purpose: &str) -> [u8; 32] {
    match <Hmac<Sha256> as Mac>::new_from_slice(secret) {
        Ok(hmac) => hmac.chain_update(purpose).finalize().into_bytes().into(),
        // HMAC takes keys of every length.
        Err(_) => Sha256::new().chain_update(secret).chain_update(purpose).finalize().into(),
    }
}

enum Keyed {
    Sha256(Key<Hmac<Sha256>>),
    Sha384(Key<Hmac<Sha384>>),
    Sha512(Key<Hmac<Sha512>>),
}

/// A hash that has taken in the key, and the algorithm it stands for.
struct Key<M> {
    hmac: M,
    algorithm: Algorithm,
}

impl Keyed {
    fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self, Error> {
        Ok(match algorithm {
            Algorithm::HS256 => Self::Sha256(Key::new(algorithm, secret)?),
            Algorithm::HS384 => Self::Sha384(Key::new(algorithm, secret)?),
            Algorithm::HS512 => Self::Sha512(Key::new(algorithm, secret)?),
            _ => return Err(ErrorKind::InvalidAlgorithm.into()),
        })
    }
}

impl<M: Mac + hmac::digest::KeyInit> Key<M> {
    fn new(algorithm: Algorithm, secret: &[u8]) -> Result<Self, Error> {
        // HMAC takes keys of every length.
        let hmac = <M as Mac>::new_from_slice(secret).map_err(|_| ErrorKind::InvalidKeyFormat)?;
        Ok(Self { hmac, algorithm })
    }
}

impl<M: Mac + Clone> Signer<Vec<u8>> for Key<M> {
    fn try_sign(&self, message: &[u8]) -> Result<Vec<u8>, signature::Error> {
        Ok(self.hmac.clone().chain_update(message).finalize().into_bytes().to_vec())
    }
}

impl<M: Mac + Clone> Verifier<Vec<u8>> for Key<M> {
    /// Takes the same time wherever the two differ.
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let hmac = self.hmac.clone().chain_update(message);
        hmac.verify_slice(signature).map_err(signature::Error::from_source)
    }
}

impl<M: Mac + Clone> JwtSigner for Key<M> {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

impl<M: Mac + Clone> JwtVerifier for Key<M> {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
