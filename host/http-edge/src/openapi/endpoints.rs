//! What is served, in a line for each route: for the front page.

use std::sync::Arc;

use super::document::{TAGS, as_in_documents};
use super::operation::Operation;
use super::routes::Described;
use super::serve::made_by;
use crate::pages::index::{Endpoint, Forms, Index};

/// The front page, with a line for each of these routes, grouped as in the document. Left out are the front
/// page itself, the files of the console, and the pages that the documentation's own index lists.
pub(crate) fn endpoints(described: Arc<[Described]>) -> Index {
    made_by(move || {
        let is_listed = |path: &str| path.ends_with("/{file}") || path.starts_with("/docs/{");
        let shown = described.iter().filter(|route| route.path != "/" && !is_listed(&route.path));
        let mut lines: Vec<_> = shown.map(|route| line(route, &route.operation())).collect();
        lines.sort_by_key(|(place, _)| *place);
        Forms::of(&lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>())
    })
}

/// A route's line, and the place of its group.
fn line(route: &Described, operation: &Operation) -> (Option<usize>, Endpoint) {
    let parameters: Vec<_> = operation.required_parameters().map(|name| format!("{name}=")).collect();
    let query = if parameters.is_empty() { String::new() } else { format!("?{}", parameters.join("&")) };
    let body = operation.body_sketch().map(|sketch| format!(": {sketch}")).unwrap_or_default();
    let who = match operation.roles() {
        None => "",
        Some([]) => "; with a bearer token",
        Some(_) => "; for administrators",
    };
    let endpoint = Endpoint {
        method: route.method.to_uppercase(),
        path: as_in_documents(&route.path) + &query,
        what: format!("{}{body}{who}", operation.summary()),
    };
    (TAGS.iter().position(|(tag, _)| *tag == operation.tag()), endpoint)
}
