//! Which tokens are accepted: host/docs/interface/node-clients.md#tokens, a row each.

use std::fmt::Write;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use proptest::prelude::*;
use serde_json::json;
use sha2::{Sha256, Sha384, Sha512};

use super::*;

const SECRET: &[u8] = b"a secret of this test";
const NOW: u64 = 1_795_232_990;

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// What a token is made of, by hand, so that no mistake of the library can hide itself.
fn signed<M: Mac + hmac::digest::KeyInit>(header: &str, payload: &str, secret: &[u8]) -> String {
    let mut token = format!("{}.{}", base64(header.as_bytes()), base64(payload.as_bytes()));
    let hmac = <M as Mac>::new_from_slice(secret).unwrap().chain_update(token.as_bytes());
    write!(token, ".{}", base64(&hmac.finalize().into_bytes())).unwrap();
    token
}

fn token(payload: &str) -> String {
    signed::<Hmac<Sha256>>(r#"{"alg":"HS256","typ":"JWT"}"#, payload, SECRET)
}

fn verify(token: &str) -> Result<Claims, TokenError> {
    Tokens::new(SECRET).verify(token.as_bytes(), at(NOW))
}

/// The id, or why there is none.
fn outcome(token: &str) -> String {
    verify(token).map_or_else(|error| error.to_string(), |claims| claims.id)
}

/// Whether nothing that the token says is believed.
fn is_unverified(token: &str) -> bool {
    matches!(verify(token), Err(TokenError::Forged | TokenError::Malformed))
}

#[test]
fn the_token_that_every_introduction_shows_is_verified() {
    // The example of jwt.io: made by others, signed with this secret, and without an `id`.
    let example = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0Ijox\
                   NTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c";
    let verify = |secret: &[u8]| Tokens::new(secret).verify(example.as_bytes(), at(NOW)).unwrap_err();
    assert!(matches!(verify(b"your-256-bit-secret"), TokenError::Nobody));
    assert!(matches!(verify(b"your-256-bit-secreT"), TokenError::Forged));
}

#[test]
fn the_three_algorithms_of_a_shared_secret_are_accepted() {
    let payload = r#"{"id":"u1"}"#;
    for token in [
        signed::<Hmac<Sha256>>(r#"{"alg":"HS256"}"#, payload, SECRET),
        signed::<Hmac<Sha384>>(r#"{"alg":"HS384"}"#, payload, SECRET),
        signed::<Hmac<Sha512>>(r#"{"alg":"HS512"}"#, payload, SECRET),
    ] {
        assert_eq!(outcome(&token), "u1", "{token}");
    }
}

#[test]
fn no_other_algorithm_is() {
    let payload = r#"{"id":"u1"}"#;
    let unsigned = format!("{}.{}.", base64(br#"{"alg":"none"}"#), base64(payload.as_bytes()));
    for token in [
        unsigned,
        signed::<Hmac<Sha256>>(r#"{"alg":"none"}"#, payload, SECRET),
        signed::<Hmac<Sha256>>(r#"{"alg":"RS256"}"#, payload, SECRET),
        signed::<Hmac<Sha256>>(r#"{"alg":"ES256"}"#, payload, SECRET),
        signed::<Hmac<Sha256>>(r#"{"alg":"EdDSA"}"#, payload, SECRET),
        signed::<Hmac<Sha256>>(r#"{"alg":"hs256"}"#, payload, SECRET),
        signed::<Hmac<Sha256>>(r#"{"typ":"JWT"}"#, payload, SECRET),
        // The right name for another hash.
        signed::<Hmac<Sha256>>(r#"{"alg":"HS512"}"#, payload, SECRET),
    ] {
        assert!(is_unverified(&token), "{token}");
    }
}

#[test]
fn what_was_not_signed_with_our_secret_is_refused() {
    let good = token(r#"{"id":"u1"}"#);
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = message.split_once('.').unwrap();
    for token in [
        signed::<Hmac<Sha256>>(r#"{"alg":"HS256"}"#, r#"{"id":"u1"}"#, b"another secret"),
        format!("{header}.{}.{signature}", base64(br#"{"id":"u2"}"#)),
        format!("{good}="),
        format!("{message}.{}", &signature[..42]),
        format!("{message}."),
        message.to_owned(),
        format!("{good}.x"),
        format!(".{good}"),
        good.replace('.', ","),
        "..".to_owned(),
        "x".to_owned(),
        String::new(),
    ] {
        assert!(is_unverified(&token), "{token}");
    }
}

#[test]
fn times_are_read_as_node_reads_them() {
    let rows = [
        (json!({}), "u1"),
        (json!({"exp": NOW + 1}), "u1"),
        (json!({"exp": NOW}), "the token has expired"),
        (json!({"exp": NOW - 1}), "the token has expired"),
        (json!({"exp": NOW as f64 + 0.5}), "u1"),
        (json!({"exp": NOW as f64 - 0.5}), "the token has expired"),
        (json!({"exp": 0}), "the token has expired"),
        (json!({"exp": -1}), "the token has expired"),
        (json!({"exp": 1e300}), "u1"),
        (json!({"exp": (NOW + 1).to_string()}), "the token's `exp` is not a number"),
        (json!({"exp": null}), "the token's `exp` is not a number"),
        (json!({"exp": [NOW + 1]}), "the token cannot be read"),
        (json!({"nbf": NOW}), "u1"),
        (json!({"nbf": NOW + 1}), "the token is not valid yet"),
        (json!({"nbf": NOW as f64 + 0.5}), "the token is not valid yet"),
        (json!({"nbf": "0"}), "the token's `nbf` is not a number"),
        (json!({"nbf": null}), "the token's `nbf` is not a number"),
        (json!({"iat": NOW + 1_000}), "u1"),
        (json!({"iat": "whenever"}), "u1"),
    ];
    for (mut payload, expected) in rows {
        payload["id"] = "u1".into();
        assert_eq!(outcome(&token(&payload.to_string())), expected, "{payload}");
    }
}

#[test]
fn what_else_a_token_says_does_not_matter() {
    for payload in [
        json!({"id": "u1", "aud": "somebody", "iss": "somewhere", "sub": "u2"}),
        json!({"id": "u1", "aud": ["a", "b"], "iss": 5}),
        json!({"id": "u1", "more": {"of": [1, 2]}}),
    ] {
        assert_eq!(outcome(&token(&payload.to_string())), "u1", "{payload}");
    }
    for header in [r#"{"alg":"HS256"}"#, r#"{"alg":"HS256","crit":["b64"],"kid":"1","x":{}}"#] {
        assert_eq!(outcome(&signed::<Hmac<Sha256>>(header, r#"{"id":"u1"}"#, SECRET)), "u1", "{header}");
    }
}

#[test]
fn a_user_is_a_text_or_a_number() {
    let nobody = "the token has no usable `id`";
    for (id, expected) in [
        (r#""u1""#, "u1"),
        (r#""5""#, "5"),
        ("5", "5"),
        ("5.0", "5"),
        ("-5", "-5"),
        ("0", "0"),
        ("2.5", "2.5"),
        ("9007199254740993", "9007199254740993"),
        (r#""Grüße""#, "Grüße"),
        (r#""""#, nobody),
        (r#""a\u0000b""#, nobody),
        (r#""a\nb""#, nobody),
        ("null", nobody),
        ("true", nobody),
        ("[]", nobody),
        ("{}", nobody),
    ] {
        assert_eq!(outcome(&token(&format!(r#"{{"id":{id}}}"#))), expected, "{id}");
    }
    for (bytes, fits) in [(ID_BYTES, true), (ID_BYTES + 1, false)] {
        let id = "x".repeat(bytes);
        let expected = if fits { id.as_str() } else { nobody };
        assert_eq!(outcome(&token(&json!({ "id": id }).to_string())), expected, "{bytes}");
    }
    assert_eq!(outcome(&token("{}")), nobody);
    for payload in [r#""u1""#, "[]", "5", "null", "not JSON"] {
        assert_eq!(outcome(&token(payload)), "the token cannot be read", "{payload}");
    }
}

#[test]
fn tier_and_role_are_texts_or_absent() {
    let claims = verify(&token(r#"{"id":"u1","tier":"premium","role":"admin"}"#)).unwrap();
    assert_eq!((claims.tier.as_deref(), claims.role.as_deref()), (Some("premium"), Some("admin")));
    let claims = verify(&token(r#"{"id":"u1","tier":5,"role":["admin"]}"#)).unwrap();
    assert_eq!((claims.tier, claims.role), (None, None));
}

#[test]
fn an_issued_token_is_accepted_until_its_time_is_over() {
    let tokens = Tokens::new(SECRET);
    let claims = Claims { id: "u1".into(), tier: Some("premium".into()), role: None };
    let token = tokens.issue(&claims, Duration::from_hours(1), at(NOW)).unwrap();
    assert_eq!(tokens.verify(token.as_bytes(), at(NOW)).unwrap(), claims);
    assert_eq!(tokens.verify(token.as_bytes(), at(NOW + 3_599)).unwrap(), claims);
    let late = tokens.verify(token.as_bytes(), at(NOW + 3_600)).unwrap_err();
    assert!(matches!(late, TokenError::Expired), "{late}");
}

#[test]
fn a_token_for_nobody_is_not_issued() {
    let claims = Claims { id: String::new(), tier: None, role: None };
    let error = Tokens::new(SECRET).issue(&claims, Duration::from_secs(1), at(NOW)).unwrap_err();
    assert!(matches!(error, IssueError::Id), "{error}");
}

#[test]
fn no_error_quotes_a_token() {
    for token in [
        signed::<Hmac<Sha256>>(r#"{"alg":"zebra"}"#, r#"{"id":"u1"}"#, SECRET),
        signed::<Hmac<Sha256>>(r#"{"alg":"HS256"}"#, "zebra", SECRET),
        "zebra.zebra.zebra".into(),
    ] {
        let error = verify(&token).unwrap_err();
        assert_eq!(format!("{error} {error:?}"), "the token cannot be read Malformed");
    }
    assert_eq!(
        outcome(&signed::<Hmac<Sha256>>(r#"{"alg":"HS256"}"#, "{}", b"zebra")),
        "the token was not signed by us"
    );
}

#[test]
fn no_secret_is_printed() {
    let printed = format!("{:?}", Tokens::new(b"zebra"));
    assert!(!printed.contains("zebra") && !printed.contains("122, 101"), "{printed}");
}

proptest! {
    #[test]
    fn no_signed_payload_panics(payload in ".{0,100}", times in any::<(i64, f64)>()) {
        let _any = verify(&token(&payload));
        let _any = verify(&token(&format!(r#"{{"id":"u1","exp":{},"nbf":{}}}"#, times.0, times.1)));
    }

    #[test]
    fn whoever_is_issued_a_token_is_who_it_verifies(
        id in "[^\\p{Cc}]{1,40}", tier in prop::option::of(".{0,9}"), role in prop::option::of(".{0,9}"),
    ) {
        let (tokens, claims) = (Tokens::new(SECRET), Claims { id, tier, role });
        let token = tokens.issue(&claims, Duration::from_secs(1), at(NOW)).unwrap();
        prop_assert_eq!(tokens.verify(token.as_bytes(), at(NOW)).unwrap(), claims);
    }
}
