//! Requests whose answers are JSON, and the failures that HTTP statuses mean.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Method, Response, send};
use crate::Failure;

/// Most bytes that are read of an answer.
const MOST_BYTES: usize = 1 << 20;

/// Sends a `GET` and reads the answer's JSON.
///
/// # Errors
/// Those of [`get`](super::get), [`Response::check`] and [`Response::json`].
pub fn get_json<T: DeserializeOwned>(url: &str) -> Result<T, Failure> {
    let head = send(&Method::Get, url, &[("accept", "application/json")], &[])?;
    head.read(MOST_BYTES)?.check()?.json()
}

/// Sends a value as the JSON of a `POST` and reads the answer's JSON.
///
/// # Errors
/// As [`get_json`], and `invalid-arguments` for what JSON cannot say.
pub fn post_json<T: DeserializeOwned>(url: &str, value: &impl Serialize) -> Result<T, Failure> {
    let body = serde_json::to_vec(value)
        .map_err(|problem| Failure::invalid_arguments(format!("this cannot be put as JSON: {problem}")))?;
    let headers = [("accept", "application/json"), ("content-type", "application/json")];
    send(&Method::Post, url, &headers, &body)?.read(MOST_BYTES)?.check()?.json()
}

/// Text as one segment of a URL's path, or as one value of its query.
#[must_use]
pub fn encode_segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
        encoded
    })
}

impl Response {
    /// The response when its status is 2xx.
    ///
    /// # Errors
    /// What else a status means: `denied` (401, 403), `not-found` (404, 410), `unavailable` (408, 425, 429,
    /// 5xx; with `retry-after-ms` when the server says when), or `http-status`.
    pub fn check(self) -> Result<Self, Failure> {
        let message = format!("the server answered HTTP {}", self.status);
        Err(match self.status {
            200..=299 => return Ok(self),
            401 | 403 => Failure::denied(
                message + ": the operator's policy has to give this tool a secret that it accepts",
            ),
            404 | 410 => Failure::not_found(message),
            408 | 425 | 429 | 500..=599 => {
                let seconds = self.header("retry-after").and_then(|after| after.trim().parse::<u64>().ok());
                let failure = Failure::unavailable(message);
                match seconds {
                    Some(seconds) => failure.retry_after_ms(seconds.saturating_mul(1000)),
                    None => failure,
                }
            }
            _ => Failure::new("http-status", message),
        })
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// `too-large` when the server had more than was read, `unavailable` when it is something else.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        if self.truncated {
            let read = self.body.len();
            return Err(Failure::new(
                "too-large",
                format!("the server's answer has more than {read} bytes: ask for less"),
            ));
        }
        serde_json::from_slice(&self.body).map_err(|problem| {
            Failure::unavailable(format!("the server answered something other than was expected: {problem}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{Method, Response, double};
    use super::{encode_segment, get_json, post_json};
    use crate::Failure;

    type Numbers = BTreeMap<String, u32>;

    #[test]
    fn json_goes_there_and_comes_back() {
        double::answer(|request| {
            assert!(matches!(request.method, Method::Post), "{request:?}");
            assert_eq!(request.body, br#"{"a":1}"#);
            Response::new(201, r#"{"b":2}"#)
        });
        let sent = Numbers::from([("a".to_owned(), 1)]);
        let received: Numbers = post_json("https://a.example/x", &sent).unwrap();
        assert_eq!(received, Numbers::from([("b".to_owned(), 2)]));
        assert_eq!(get_json::<Numbers>("a.example").unwrap_err().code, "invalid-arguments");
    }

    #[test]
    fn a_status_becomes_the_failure_that_it_means() {
        for (status, code) in [
            (302, "http-status"),
            (400, "http-status"),
            (401, "denied"),
            (403, "denied"),
            (404, "not-found"),
            (410, "not-found"),
            (429, "unavailable"),
            (500, "unavailable"),
            (599, "unavailable"),
        ] {
            double::answer(move |_| Response::new(status, "").with_header("retry-after", "7"));
            let failure = get_json::<Numbers>("https://a.example/").unwrap_err();
            assert_eq!(failure.code, code, "{status}");
            let waits = failure.meta == [("retry-after-ms".to_owned(), "7000".to_owned())];
            assert_eq!(waits, code == "unavailable", "{failure:?}");
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        double::answer(|_| Response::new(200, "<html>"));
        assert_eq!(get_json::<Numbers>("https://a.example/").unwrap_err().code, "unavailable");
        double::answer(|_| Response::new(200, vec![b' '; (1 << 20) + 1]));
        assert_eq!(get_json::<Numbers>("https://a.example/").unwrap_err().code, "too-large");
        double::respond(|_| Err(Failure::denied("not granted")));
        assert_eq!(get_json::<Numbers>("https://a.example/").unwrap_err(), Failure::denied("not granted"));
    }

    #[test]
    fn segments_hold_anything() {
        assert_eq!(encode_segment("A 1/2?é"), "A%201%2F2%3F%C3%A9");
    }
}
