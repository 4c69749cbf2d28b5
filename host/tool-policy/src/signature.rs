//! Ed25519 signatures of components: `<name>.wasm.sig` beside `<name>.wasm`.
//!
//! The file holds the 64 bytes of a signature (RFC 8032) over
//!
//! ```text
//! "agent-host component signature v1\0"
//! length of the name, 8 bytes, big-endian · name
//! SHA-256 of the component's bytes · SHA-256 of the manifest's bytes, of no bytes if it has none
//! ```
//!
//! The name is in it because grants go by name and signer: without it, a signed file that is renamed to
//! another signed one's name would have that one's grants. The first line keeps a signature made here from
//! meaning anything elsewhere.
//!
//! In a policy, a key is written `ed25519:` and its 32 bytes in hex, as digests are. Private keys are PKCS#8
//! in PEM, as `openssl genpkey -algorithm ed25519` writes them too.

use std::fmt;

use agent_core::secret::Secret;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

pub(crate) const SIGNATURE_BYTES: usize = 64;

const DOMAIN: &[u8] = b"agent-host component signature v1\0";
const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";

/// Characters of base64 on one line of a PEM file (RFC 7468, 2).
const PEM_LINE: usize = 64;

/// A public key, as policies name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignerKey([u8; 32]);

/// A key whose signature of a component was verified. Only [`verify`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSigner(SignerKey);

pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: SignerKey,
}

/// What a signature is of.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The name of the component's file without `.wasm`.
    pub name: &'a str,
    pub component: &'a [u8],
    /// Empty if there is none.
    pub manifest: &'a [u8],
}

/// Why a signature or a key is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error(
        "the signature has {0} bytes; it must have {SIGNATURE_BYTES}: sign the component anew with `agent-tool sign`"
    )]
    Length(usize),
    #[error(
        "the signature was made by none of the keys that the policy trusts for this name, or the component, its \
         manifest or its name changed since: sign it anew with `agent-tool sign`, or add the key that signed it as `signer`"
    )]
    NotTrusted,
    #[error("the key is no Ed25519 key in PKCS#8 PEM: make one with `openssl genpkey -algorithm ed25519`")]
    BadKey,
    #[error("the system gives no random numbers, so no key can be made")]
    NoRandomness,
}

/// Finds the trusted key that signed the component.
pub fn verify<'a>(
    signed: &Signed<'_>,
    signature: &[u8],
    trusted: impl IntoIterator<Item = &'a SignerKey>,
) -> Result<VerifiedSigner, SignatureError> {
    if signature.len() != SIGNATURE_BYTES {
        return Err(SignatureError::Length(signature.len()));
    }
    let message = signed.message();
    let made_it =
        |key: &&SignerKey| UnparsedPublicKey::new(&ED25519, key.0).verify(&message, signature).is_ok();
    trusted.into_iter().find(made_it).map(|key| VerifiedSigner(*key)).ok_or(SignatureError::NotTrusted)
}

impl Signed<'_> {
    fn message(&self) -> Vec<u8> {
        let mut message = DOMAIN.to_vec();
        message.extend((self.name.len() as u64).to_be_bytes());
        message.extend(self.name.as_bytes());
        message.extend(Sha256::digest(self.component));
        message.extend(Sha256::digest(self.manifest));
        message
    }
}

impl VerifiedSigner {
    /// Whose signature it was.
    pub fn key(&self) -> &SignerKey {
        &self.0
    }
}

impl SigningKey {
    /// A new key, and the PEM text to keep it in.
    pub fn generate() -> Result<(Self, Secret), SignatureError> {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let pkcs8 = pkcs8.map_err(|_| SignatureError::NoRandomness)?;
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|_| SignatureError::BadKey)?;
        let encoded = BASE64.encode(pkcs8.as_ref());
        let mut pem = format!("{PEM_BEGIN}\n");
        for (index, c) in encoded.chars().enumerate() {
            if index > 0 && index.is_multiple_of(PEM_LINE) {
                pem.push('\n');
            }
            pem.push(c);
        }
        pem.push_str(&format!("\n{PEM_END}\n"));
        Ok((Self::of(pair)?, Secret::new(pem)))
    }

    /// Reads a key that [`Self::generate`] or openssl wrote.
    pub fn from_pem(pem: &str) -> Result<Self, SignatureError> {
        let body = pem.trim().strip_prefix(PEM_BEGIN).and_then(|rest| rest.strip_suffix(PEM_END));
        let encoded: String = body.ok_or(SignatureError::BadKey)?.split_ascii_whitespace().collect();
        let pkcs8 = BASE64.decode(encoded).map_err(|_| SignatureError::BadKey)?;
        // openssl leaves the public key out. What ring would have checked it for, it then computes.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8).map_err(|_| SignatureError::BadKey)?;
        Self::of(pair)
    }

    fn of(pair: Ed25519KeyPair) -> Result<Self, SignatureError> {
        let public = pair.public_key().as_ref().try_into().map_err(|_| SignatureError::BadKey)?;
        Ok(Self { pair, public: SignerKey(public) })
    }

    /// The key of that seed (RFC 8032, 5.1.5).
    #[cfg(test)]
    pub(crate) fn from_seed(seed: &[u8; 32]) -> Result<Self, SignatureError> {
        Self::of(Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| SignatureError::BadKey)?)
    }

    /// The content of the signature file.
    pub fn sign(&self, signed: &Signed<'_>) -> Vec<u8> {
        self.pair.sign(&signed.message()).as_ref().to_vec()
    }

    /// What a policy names it by.
    pub fn public(&self) -> SignerKey {
        self.public
    }
}

impl SignerKey {
    /// `ed25519:` and 64 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("ed25519:")?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
        }
        Some(Self(key))
    }
}

impl fmt::Display for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ed25519:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: Signed<'_> = Signed { name: "web-search", component: b"\0asm", manifest: b"{}" };

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&[seed; 32]).unwrap()
    }

    #[test]
    fn a_signature_holds_for_the_name_the_component_and_the_manifest_together() {
        let own = key(1);
        let signature = own.sign(&SIGNED);
        assert_eq!(signature.len(), SIGNATURE_BYTES);
        let trusted = [key(2).public(), own.public()];
        let signer = verify(&SIGNED, &signature, &trusted).unwrap();
        assert_eq!(*signer.key(), trusted[1]);
        let others = [
            Signed { name: "web-searcher", ..SIGNED },
            Signed { component: b"\0asn", ..SIGNED },
            Signed { manifest: b"", ..SIGNED },
            // Bytes that only moved from one part to the next.
            Signed { name: "web-searc", component: b"h\0asm", ..SIGNED },
            Signed { component: b"\0asm{", manifest: b"}", ..SIGNED },
        ];
        for other in others {
            assert_eq!(verify(&other, &signature, &trusted), Err(SignatureError::NotTrusted), "{other:?}");
        }
        assert_eq!(verify(&SIGNED, &signature, &trusted[..1]), Err(SignatureError::NotTrusted));
        assert_eq!(verify(&SIGNED, &signature, []), Err(SignatureError::NotTrusted));
        assert_eq!(verify(&SIGNED, &signature[..63], &trusted), Err(SignatureError::Length(63)));
        let mut changed = signature;
        changed[10] ^= 1;
        assert_eq!(verify(&SIGNED, &changed, &trusted), Err(SignatureError::NotTrusted));
    }

    #[test]
    fn the_signed_bytes_are_those_that_are_documented() {
        let mut message = b"agent-host component signature v1\0".to_vec();
        message.extend([0, 0, 0, 0, 0, 0, 0, 10]);
        message.extend(b"web-search");
        message.extend(Sha256::digest(b"\0asm"));
        message.extend(Sha256::digest(b"{}"));
        let raw = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap();
        assert_eq!(key(1).sign(&SIGNED), raw.sign(&message).as_ref());
    }

    #[test]
    fn a_generated_key_is_read_back_and_never_shown() {
        let (made, pem) = SigningKey::generate().unwrap();
        let read = SigningKey::from_pem(pem.expose()).unwrap();
        assert_eq!(read.public(), made.public());
        assert!(pem.expose().lines().all(|line| line.len() <= 64), "{}", pem.expose());
        assert_eq!(format!("{made:?} {pem:?}"), "SigningKey(…) Secret(…)");
        assert_ne!(SigningKey::generate().unwrap().0.public(), made.public());
    }

    #[test]
    fn a_key_of_openssl_is_read_and_what_is_none_is_refused() {
        // `openssl genpkey -algorithm ed25519`; RFC 8410, 10.3 has this key.
        let rfc = "-----BEGIN PRIVATE KEY-----\n\
                   MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
                   -----END PRIVATE KEY-----\n";
        let public = SigningKey::from_pem(rfc).unwrap().public();
        let expected = "ed25519:19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1";
        assert_eq!(public.to_string(), expected);
        for bad in [
            "",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY----------END PRIVATE KEY-----",
        ] {
            assert_eq!(SigningKey::from_pem(bad).unwrap_err(), SignatureError::BadKey, "{bad}");
        }
    }

    #[test]
    fn keys_are_written_in_hex() {
        let public = key(1).public();
        let text = public.to_string();
        assert_eq!(SignerKey::parse(&text), Some(public));
        let upper = format!("ed25519:{}", text.trim_start_matches("ed25519:").to_uppercase());
        assert_eq!(SignerKey::parse(&upper), Some(public));
        let longer = format!("{text}0");
        let odd = format!("{}é", &text[..text.len() - 2]);
        for bad in ["", "ed25519:", &text[..text.len() - 1], &longer, &odd, "sha256:00"] {
            assert_eq!(SignerKey::parse(bad), None, "{bad}");
        }
    }
}
