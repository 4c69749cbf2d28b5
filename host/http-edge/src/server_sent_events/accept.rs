//! Whether a client asks for events.

use http::HeaderMap;
use http::header::ACCEPT;

/// Whether `Accept` names `text/event-stream` by itself. `*/*` and `text/*`, which clients send without
/// meaning anything by it, do not.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(is_wanted_stream)
}

fn is_wanted_stream(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let is_stream = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("text/event-stream"));
    let refused = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("q") && value.trim().parse().is_ok_and(|quality: f64| quality <= 0.0)
    };
    is_stream && !parts.any(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_names_the_media_type_gets_a_stream() {
        for (accept, wanted) in [
            ("text/event-stream", true),
            ("Text/Event-Stream", true),
            ("application/json, text/event-stream", true),
            ("text/event-stream;q=0.5", true),
            ("text/event-stream; q=0", false),
            ("text/event-stream; q=0.0", false),
            ("text/event-streams", false),
            ("*/*", false),
            ("text/*", false),
            ("application/json", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())]);
            assert_eq!(accepts_events(&headers), wanted, "{accept:?}");
        }
        assert!(!accepts_events(&HeaderMap::new()));
    }
}
