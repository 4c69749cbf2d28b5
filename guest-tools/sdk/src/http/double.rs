//! A native test's network: what the test answers, on its own thread.

use std::cell::RefCell;
use std::rc::Rc;

use super::Method;
use super::response::Response;
use crate::Failure;

/// A request as a tool sent it.
#[derive(Debug, Clone)]
pub struct Request {
    /// Method of the request.
    pub method: Method,
    /// The whole URL.
    pub url: String,
    /// As the tool wrote them.
    pub headers: Vec<(String, String)>,
    /// Body of the request.
    pub body: Vec<u8>,
}

type Server = Rc<dyn Fn(&Request) -> Result<Response, Failure>>;

thread_local! {
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

/// Has requests answered from now on.
pub fn answer(server: impl Fn(&Request) -> Response + 'static) {
    respond(move |request| Ok(server(request)));
}

/// Has requests answered or refused from now on: a failure is what the host says of a request that it does
/// not send, or that fails on the way.
pub fn respond(server: impl Fn(&Request) -> Result<Response, Failure> + 'static) {
    SERVER.with_borrow_mut(|present| *present = Some(Rc::new(server)));
}

#[derive(Debug)]
pub(super) struct Incoming(Response);

pub(super) fn send(
    method: &Method,
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Result<Incoming, Failure> {
    let server = SERVER.with_borrow(Clone::clone).ok_or_else(|| {
        Failure::denied("the test answers no requests: call agent_tool_sdk::http::double::answer first")
    })?;
    if !url.contains("://") {
        return Err(Failure::invalid_arguments("the URL has to begin with https://"));
    }
    let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let request = Request { method: method.clone(), url: url.to_owned(), headers, body: body.to_vec() };
    server(&request).map(Incoming)
}

impl Incoming {
    pub(super) fn read(self, most: usize) -> Result<Response, Failure> {
        let mut response = self.0;
        response.truncated |= response.body.len() > most;
        response.body.truncate(most);
        Ok(response)
    }
}
