//! `agent-host token`: a bearer token for Variant B.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use clap::Args;
use host_setup::output::{json_line, print};
use http_edge::{Claims, Tokens};
use serde_json::json;

use super::Exit;
use crate::config::{ProcessEnv, VariantB};

/// Signs a token with `JWT_SECRET`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Whom it is for: rate limits and jobs are kept by this id
    #[arg(long)]
    id: String,
    /// The caller's tier; premium has a higher rate limit
    #[arg(long)]
    tier: Option<String>,
    /// The caller's role; admin may invalidate the cache and look after the tools
    #[arg(long)]
    role: Option<String>,
    /// How long it is valid: a number and s, m, h or d
    #[arg(long, default_value = "1h", value_parser = parse_duration)]
    ttl: Duration,
}

pub(crate) fn run(arguments: Arguments, json: bool) -> anyhow::Result<Exit> {
    if arguments.id.is_empty() {
        bail!("--id may not be empty: the service refuses tokens of nobody");
    }
    let secret = VariantB::jwt_secret(&ProcessEnv)?;
    let claims = Claims { id: arguments.id, tier: arguments.tier, role: arguments.role };
    let token = Tokens::new(secret.expose().as_bytes())
        .issue(&claims, arguments.ttl, SystemTime::now())
        .context("signing the token")?;
    print(&match json {
        true => json_line(&json!({ "token": token, "validSeconds": arguments.ttl.as_secs() })),
        false => format!("{token}\n"),
    })?;
    Ok(Exit::Success)
}

/// `90s`, `15m`, `1h`, `30d`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    const HINT: &str = "write a whole number above 0 and s, m, h or d, such as 1h";
    let digits = text.trim_end_matches(char::is_alphabetic);
    let seconds = match text.strip_prefix(digits) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3_600,
        Some("d") => 86_400,
        _ => return Err(HINT.to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| HINT.to_owned())?;
    let total = count.checked_mul(seconds).filter(|total| (1..=100 * 365 * 86_400).contains(total));
    total.map(Duration::from_secs).ok_or_else(|| HINT.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_a_number_and_a_unit() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3_600), ("30d", 2_592_000)] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "1", "h", "-1h", "1.5h", "0s", "1w", "1 h", "99999999999999999999d", "1000000d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
