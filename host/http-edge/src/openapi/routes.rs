//! A router and the description of each of its routes, in one table.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};

use super::operation::Operation;

/// Routes that are added with their descriptions. There is no way to add one without.
pub(crate) struct Routes<S> {
    router: Router<S>,
    described: Vec<Described>,
}

/// What is said of one method of one path.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// In lower case, as the document has it.
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) operation: Operation,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub(crate) fn new() -> Self {
        Self { router: Router::new(), described: vec![] }
    }

    /// `GET` and `HEAD`.
    pub(crate) fn get<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.method("get", path, routing::get(handler), operation)
    }

    pub(crate) fn post<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.method("post", path, routing::post(handler), operation)
    }

    pub(crate) fn put<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.method("put", path, routing::put(handler), operation)
    }

    pub(crate) fn delete<T: 'static>(
        self,
        path: &str,
        handler: impl Handler<T, S>,
        operation: Operation,
    ) -> Self {
        self.method("delete", path, routing::delete(handler), operation)
    }

    /// A handler that is made for its route, and takes that method only.
    pub(crate) fn method(
        mut self,
        method: &'static str,
        path: &str,
        handler: MethodRouter<S>,
        operation: Operation,
    ) -> Self {
        self.described.push(Described { method, path: path.to_owned(), operation });
        Self { router: self.router.route(path, handler), described: self.described }
    }

    /// The router, and what is served by it.
    pub(crate) fn split(self) -> (Router<S>, Vec<Described>) {
        (self.router, self.described)
    }
}

impl Described {
    /// Moves the route below a prefix that ends in a slash, as [`Router::nest`] has it.
    pub(crate) fn below(mut self, prefix: &str) -> Self {
        self.path = format!("{}{}", prefix.trim_end_matches('/'), self.path);
        self
    }

    /// Whether it is a `POST`.
    pub(crate) fn is_post(&self) -> bool {
        self.method == "post"
    }

    /// The route with more said of its operation.
    pub(crate) fn map(mut self, more: impl FnOnce(Operation) -> Operation) -> Self {
        self.operation = more(self.operation);
        self
    }
}
