//! Who asks. The windows are 100 requests per address in 15 minutes and 100 per premium user in one
//! (host/docs/interface/errors-and-limits.md#limits), so the load comes from many users at many addresses,
//! each of which asks rarely.

use std::sync::atomic::{AtomicUsize, Ordering};

use acceptance::Token;

use crate::measuring::request;

/// Users, each at an address of its own.
const CALLERS: usize = 8_000;

/// How often each may ask in one run of the bench: less than any window allows.
const ASKS: usize = 90;

/// The callers of one deployment.
pub(crate) struct Callers {
    headers: Vec<String>,
    asked: AtomicUsize,
}

/// One of them, as its requests say.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a>(&'a str);

impl Callers {
    pub(crate) fn new() -> Self {
        let headers = (0..CALLERS).map(|number| {
            let token = Token::of(format!("user-{number}")).premium();
            let [.., second, third] = number.to_be_bytes();
            format!("Authorization: Bearer {token}\r\nX-Forwarded-For: 10.0.{second}.{third}\r\n")
        });
        Self { headers: headers.collect(), asked: AtomicUsize::new(0) }
    }

    /// The next caller, who is going to ask that many times.
    pub(crate) fn next(&self, times: usize) -> Caller<'_> {
        let asked = self.asked.fetch_add(times, Ordering::Relaxed);
        assert!(
            asked < CALLERS * ASKS,
            "the callers would come to the end of their windows: have more of them"
        );
        self.of(asked / times)
    }

    /// The caller with that number. There are fewer callers than numbers.
    pub(crate) fn of(&self, number: usize) -> Caller<'_> {
        Caller(&self.headers[number % CALLERS])
    }
}

impl Caller<'_> {
    /// Makes a request with a JSON body.
    pub(crate) fn post(self, path: &str, body: &str) -> Vec<u8> {
        request::post(path, self.0, body)
    }

    /// Makes a request without a body.
    pub(crate) fn get(self, path: &str) -> Vec<u8> {
        request::get(path, self.0)
    }
}
