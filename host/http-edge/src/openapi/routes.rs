//! A router and the description of each of its routes, in one table.
//!
//! A description is a function, called when the document is made: the operations of all routes are some 6 MiB
//! of JSON values, which a service that nobody asks for it would hold for good.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{self, MethodRouter};

use super::operation::Operation;

/// The paths that clients of the Node deployment call, below their prefix. Express takes a slash at the end
/// of each (host/docs/interface/node-clients.md#bodies).
const OF_NODE: [&str; 10] = [
    "/agent",
    "/agent/async",
    "/agent/invoke",
    "/gateway",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
    "/ready",
    "/serverless",
];

/// Routes that are added with their descriptions. There is no way to add one without.
pub struct Routes<S> {
    router: Router<S>,
    described: Vec<Described>,
}

/// What is said of one method of one path.
pub struct Described {
    /// In lower case, as the document has it.
    pub method: &'static str,
    pub path: String,
    describe: Box<dyn Fn() -> Operation + Send + Sync>,
}

impl<S: Clone + Send + Sync + 'static> Default for Routes<S> {
    fn default() -> Self {
        Self { router: Router::new(), described: vec![] }
    }
}

macro_rules! of_methods {
    ($($method:ident),+) => {$(
        pub fn $method<T: 'static>(
            self,
            path: &str,
            handler: impl Handler<T, S>,
            describe: impl Fn() -> Operation + Send + Sync + 'static,
        ) -> Self {
            self.method(stringify!($method), path, routing::$method(handler), describe)
        }
    )+};
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    // `get` takes `HEAD` as well.
    of_methods!(get, post, put, delete);

    /// A handler that is made for its route, and takes that method only.
    pub fn method(
        mut self,
        method: &'static str,
        path: &str,
        handler: MethodRouter<S>,
        describe: impl Fn() -> Operation + Send + Sync + 'static,
    ) -> Self {
        self.described.push(Described { method, path: path.to_owned(), describe: Box::new(describe) });
        let mut router = self.router;
        if OF_NODE.contains(&path) {
            router = router.route(&format!("{path}/"), handler.clone());
        }
        Self { router: router.route(path, handler), described: self.described }
    }

    /// The router, and what is served by it.
    pub fn split(self) -> (Router<S>, Vec<Described>) {
        (self.router, self.described)
    }
}

impl Described {
    /// Moves the route below a prefix that ends in a slash, as [`Router::nest`] has it.
    pub fn below(mut self, prefix: &str) -> Self {
        self.path = format!("{}{}", prefix.trim_end_matches('/'), self.path);
        self
    }

    /// Whether it is a `POST`.
    pub fn is_post(&self) -> bool {
        self.method == "post"
    }

    /// The route with more said of its operation.
    pub fn map(self, more: impl Fn(Operation) -> Operation + Send + Sync + 'static) -> Self {
        let describe = self.describe;
        Self { describe: Box::new(move || more(describe())), ..self }
    }

    /// What is said of it, made anew with each call.
    pub fn operation(&self) -> Operation {
        (self.describe)()
    }
}
