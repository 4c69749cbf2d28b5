//! Bearer tokens for Variant B, right and wrong. They are made by hand, so that those can be made which no
//! library would make. What the service should think of them is not said here.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, Mac};
use serde_json::{Value, json};
use sha2::{Sha256, Sha384, Sha512};

/// For `JWT_SECRET`. No log shows it.
pub const SECRET: &str = "a-signing-secret-never-to-be-seen";

/// A token to be signed. Its text is what stands behind `Bearer `.
#[derive(Debug, Clone)]
pub struct Token {
    header: Value,
    payload: Value,
    secret: String,
}

impl Token {
    /// Of that user: `{"id": …}`, signed with HS256 and [`SECRET`], without an end.
    pub fn of(id: impl Into<Value>) -> Self {
        Self::with_payload(json!({ "id": id.into() }))
    }

    pub fn with_payload(payload: Value) -> Self {
        Self { header: json!({ "alg": "HS256", "typ": "JWT" }), payload, secret: SECRET.to_owned() }
    }

    /// With the tier that may ask more often.
    #[must_use]
    pub fn premium(self) -> Self {
        self.claim("tier", "premium")
    }

    /// With the role that may empty the cache.
    #[must_use]
    pub fn admin(self) -> Self {
        self.claim("role", "admin")
    }

    /// With a claim more, or another.
    #[must_use]
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.payload[name] = value.into();
        self
    }

    /// With a header more, or another. `alg` says how it is signed: HS256, HS384, HS512, or not at all with
    /// `none`; under any other name it is signed as HS256 would be.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.header[name] = value.into();
        self
    }

    #[must_use]
    pub fn signed_with(mut self, secret: &str) -> Self {
        secret.clone_into(&mut self.secret);
        self
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let encode = |part: &Value| BASE64.encode(part.to_string());
        let signed = format!("{}.{}", encode(&self.header), encode(&self.payload));
        let (key, message) = (self.secret.as_bytes(), signed.as_bytes());
        let signature = match self.header["alg"].as_str() {
            Some("none") => Vec::new(),
            Some("HS384") => sign::<Hmac<Sha384>>(key, message),
            Some("HS512") => sign::<Hmac<Sha512>>(key, message),
            _ => sign::<Hmac<Sha256>>(key, message),
        };
        write!(f, "{signed}.{}", BASE64.encode(signature))
    }
}

fn sign<M: Mac + hmac::digest::KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = <M as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

/// What a signed token claims. The signature is not looked at.
pub fn claims(token: &str) -> Value {
    let payload = token.split('.').nth(1).expect("a token has three parts");
    let payload = BASE64.decode(payload).expect("the payload is base64url");
    serde_json::from_slice(&payload).expect("the payload is JSON")
}

/// The time now in whole seconds since 1970, as tokens give times.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs()
}
