//! Verifying a token: its signature, its times, and who bears it.

use std::time::SystemTime;

use serde_json::Value;

use super::{Claims, TokenError, Tokens, is_usable, seconds};

impl Tokens {
    /// Who bears this token, at that time.
    pub(crate) fn verify(&self, token: &[u8], now: SystemTime) -> Result<Claims, TokenError> {
        let token = jsonwebtoken::decode::<Value>(token, &self.verifying, &self.rules);
        let payload = token.map_err(|error| TokenError::from_library(&error))?.claims;
        check_times(&payload, seconds(now))?;
        let id = payload.get("id").and_then(read_id).ok_or(TokenError::Nobody)?;
        let text = |name: &str| payload.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(Claims { id, tier: text("tier"), role: text("role") })
    }
}

/// As in Node: whole seconds of the clock against whatever number the token holds, no leeway, and a token
/// that expires now has expired.
fn check_times(payload: &Value, now: u64) -> Result<(), TokenError> {
    let time = |name: &'static str| match payload.get(name) {
        None => Ok(None),
        Some(time) => time.as_f64().map(Some).ok_or(TokenError::NotATime(name)),
    };
    let now = now as f64;
    if time("nbf")?.is_some_and(|not_before| not_before > now) {
        return Err(TokenError::NotYet);
    }
    if time("exp")?.is_some_and(|expires| now >= expires) {
        return Err(TokenError::Expired);
    }
    Ok(())
}

/// Strings and numbers tell users apart, everything else does not
/// (host/docs/interface/decisions-http.md#callers).
fn read_id(id: &Value) -> Option<String> {
    match id {
        Value::String(text) => is_usable(text).then(|| text.clone()),
        Value::Number(number) => Some(match number.as_f64() {
            // 5.0 and 5 are one number in JSON, and one text in JavaScript.
            Some(float) if !number.is_i64() && !number.is_u64() => float.to_string(),
            Some(_) | None => number.to_string(),
        }),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
