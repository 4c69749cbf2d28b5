//! The path of an event within the service: without the stage and the base path that API Gateway puts before
//! it.
//!
//! - A REST API's `path` has no stage, but the base path of a custom domain's mapping; an HTTP API's has the
//!   stage, or the mapping's base path. The library puts the stage before either (`/prod/api/serverless`).
//! - The route that API Gateway matched (`resourcePath`, or `routeKey` without its method) starts at the
//!   API's root. The last segments of the path, as many as the route has, are therefore the path within the
//!   API.
//! - The route `$default` says nothing. Only the stage is taken away then.

use lambda_http::http::Uri;
use lambda_http::http::uri::PathAndQuery;
use lambda_http::request::RequestContext;
use lambda_http::{Request, RequestExt as _};
use percent_encoding::percent_decode_str;

/// The stage whose name stands in no path.
const DEFAULT: &str = "$default";

/// Takes away the stage and the base path.
pub(super) fn strip_prefix(event: &mut Request) {
    let path = event.uri().path();
    let within = match event.request_context_ref() {
        Some(RequestContext::ApiGatewayV1(context)) => {
            within_api(event, path, context.resource_path.as_deref(), context.stage.as_deref())
        }
        Some(RequestContext::ApiGatewayV2(context)) => {
            let route = context.route_key.as_deref().and_then(|key| key.split_once(' '));
            within_api(event, path, route.map(|(_method, path)| path), context.stage.as_deref())
        }
        Some(_) | None => return,
    };
    if within.len() != path.len()
        && let Some(uri) = with_path(event.uri(), within)
    {
        *event.uri_mut() = uri;
    }
}

fn within_api<'a>(event: &Request, path: &'a str, route: Option<&str>, stage: Option<&str>) -> &'a str {
    let by_route = route.filter(|route| route.starts_with('/')).and_then(|route| {
        let parameters = event.path_parameters_ref();
        let value = |name: &str| parameters.and_then(|all| all.first(name));
        last_segments(path, route, value)
    });
    by_route.unwrap_or_else(|| without_stage(path, stage))
}

/// The end of `path` that the route matched. Of the values of `{name+}` only the segments are counted: they
/// may be encoded otherwise. Nothing when the route cannot have matched the path.
fn last_segments<'a, 'b>(
    path: &'a str,
    route: &str,
    value: impl Fn(&str) -> Option<&'b str>,
) -> Option<&'a str> {
    let mut matched: Vec<Option<&str>> = Vec::new();
    for segment in segments(route) {
        match segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            None => matched.push(Some(segment)),
            Some(name) => match name.strip_suffix('+') {
                None => matched.push(None),
                Some(name) => matched.extend(vec![None; segments_of(value(name)?, path)]),
            },
        }
    }
    if matched.is_empty() {
        return Some("/");
    }
    let trimmed = path.trim_end_matches('/');
    let mut start = trimmed.len();
    for expected in matched.iter().rev() {
        let end = start;
        start = trimmed[..end].rfind('/')?;
        if expected.is_some_and(|expected| expected != &trimmed[start + 1..end]) {
            return None;
        }
    }
    Some(&path[start..])
}

/// How many segments of the path a `{name+}` of that value has matched, which is the last one of its route. A
/// `/` in the value may be a `%2F` of the path.
fn segments_of(value: &str, path: &str) -> usize {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let (value, path) = (value.trim_matches('/'), path.trim_end_matches('/'));
    let mut ends = path.rmatch_indices('/').map(|(at, _)| &path[at + 1..]);
    let others = ends.position(|end| decoded(end) == decoded(value));
    others.map_or_else(|| segments(value).count(), |others| others + 1)
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn without_stage<'a>(path: &'a str, stage: Option<&str>) -> &'a str {
    let Some(stage) = stage.filter(|stage| *stage != DEFAULT) else { return path };
    let after = |path: &'a str| path.strip_prefix('/')?.strip_prefix(stage);
    match after(path) {
        Some("") => "/",
        // The library put the stage before a path that is the stage itself.
        Some(rest) if rest.starts_with('/') => {
            if after(rest) == Some("") {
                "/"
            } else {
                rest
            }
        }
        Some(_) | None => path,
    }
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path = match uri.query() {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}")),
        None => PathAndQuery::try_from(path),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_says_where_the_path_within_the_api_begins() {
        let proxy = |name: &str| (name == "proxy").then_some("api/agent/jobs");
        for (path, route, within) in [
            ("/prod/api/agent/jobs", "/{proxy+}", Some("/api/agent/jobs")),
            ("/api/agent/jobs", "/{proxy+}", Some("/api/agent/jobs")),
            ("/v1/prod/api/agent/jobs/", "/{proxy+}", Some("/api/agent/jobs/")),
            ("/prod/api/agent/jobs", "/api/agent/{id}", Some("/api/agent/jobs")),
            ("/prod/api/agent/jobs", "/api/{proxy+}", None),
            ("/prod/v1/models", "/v1/models", Some("/v1/models")),
            ("/prod", "/", Some("/")),
            ("/prod/", "/", Some("/")),
            ("/prod/v1/models", "/{other+}", None),
            ("/v1/models", "/api/{id}", None),
            ("/models", "/api/v1/models", None),
        ] {
            assert_eq!(last_segments(path, route, proxy), within, "{path} by {route}");
        }
    }

    #[test]
    fn an_encoded_slash_of_a_value_separates_no_segments() {
        for (path, value, within) in [
            ("/prod/api/a%2Fb", "api/a/b", "/api/a%2Fb"),
            ("/prod/api/a%2fb/", "api/a/b", "/api/a%2fb/"),
            ("/prod/api/a%2Fb", "api/a%2Fb", "/api/a%2Fb"),
            ("/prod/api/a%20b", "api/a b", "/api/a%20b"),
            ("/prod/api//a", "api//a", "/api//a"),
            // Encoded in a way of its own.
            ("/prod/api/a+b", "api/a b", "/api/a+b"),
        ] {
            assert_eq!(last_segments(path, "/{proxy+}", |_| Some(value)), Some(within), "{path} of {value}");
        }
    }

    #[test]
    fn without_a_route_the_stage_is_taken_away_once() {
        for (path, stage, within) in [
            ("/prod/health", Some("prod"), "/health"),
            ("/v1/v1/models", Some("v1"), "/v1/models"),
            ("/prod", Some("prod"), "/"),
            ("/prod/prod", Some("prod"), "/"),
            ("/production", Some("prod"), "/production"),
            ("/health", Some("prod"), "/health"),
            ("/health", Some("$default"), "/health"),
            ("/health", None, "/health"),
        ] {
            assert_eq!(without_stage(path, stage), within, "{path} of {stage:?}");
        }
    }

    #[test]
    fn the_query_stays() {
        let uri = "https://example.test/prod/health?a=1".parse().unwrap();
        assert_eq!(with_path(&uri, "/health").unwrap(), "https://example.test/health?a=1");
    }
}
