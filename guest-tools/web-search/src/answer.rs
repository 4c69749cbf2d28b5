//! What a search comes to, from SearxNG's JSON. It is read leniently: what engines send differs, and one odd
//! result hides no others.

use agent_tool_sdk::Failure;
use agent_tool_sdk::http::Response;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Results unless the caller says how many, and the most.
const USUAL_RESULTS: u8 = 8;
const MOST_RESULTS: u8 = 20;

/// The longest title, excerpt and address, in characters.
const LONGEST_TITLE: usize = 200;
const LONGEST_EXCERPT: usize = 400;
const LONGEST_ADDRESS: usize = 1000;

/// The most answers, suggestions and names of engines.
const MOST_OTHERS: usize = 5;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Results {
    results: Vec<Found>,
    /// Direct answers of the search service.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    answers: Vec<String>,
    /// Other queries, when nothing was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// Present when nothing was found because search engines failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

/// A page.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Found {
    title: String,
    url: String,
    excerpt: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
}

/// Reads a response.
pub(crate) fn read(response: &Response, most: Option<u8>) -> Result<Results, Failure> {
    if response.status != 200 {
        return Err(refuse_status(response));
    }
    let answer: Value = serde_json::from_slice(&response.body).map_err(|problem| {
        let why = if response.truncated { "it is longer than 1 MiB".to_owned() } else { problem.to_string() };
        Failure::unavailable(format!(
            "the search service's answer is not the JSON of a SearxNG instance: {why}"
        ))
    })?;
    let list = |key: &str| answer.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let most = usize::from(most.unwrap_or(USUAL_RESULTS).clamp(1, MOST_RESULTS));
    let results: Vec<_> = list("results").iter().filter_map(Found::read).take(most).collect();
    let answers = list("answers").iter().filter_map(|answer| {
        let text = answer.get("answer").unwrap_or(answer).as_str()?;
        Some(line(text, LONGEST_EXCERPT))
    });
    let mut read = Results { answers: answers.take(MOST_OTHERS).collect(), results, ..Results::default() };
    if read.results.is_empty() {
        let suggestions = list("suggestions").iter().filter_map(Value::as_str).take(MOST_OTHERS);
        read.suggestions = suggestions.map(|text| line(text, LONGEST_TITLE)).collect();
        let engines = list("unresponsive_engines").iter().filter_map(|engine| {
            let text = |index: usize| engine.get(index).and_then(Value::as_str).map(|text| line(text, 60));
            Some(format!("{} ({})", text(0)?, text(1).unwrap_or_default()))
        });
        let engines: Vec<_> = engines.take(MOST_OTHERS).collect();
        read.note =
            (!engines.is_empty()).then(|| format!("these search engines failed: {}", engines.join(", ")));
    }
    Ok(read)
}

impl Found {
    fn read(result: &Value) -> Option<Self> {
        let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
        let url = text("url");
        let is_page = url.starts_with("https://") || url.starts_with("http://");
        if !is_page || url.chars().nth(LONGEST_ADDRESS).is_some() {
            return None;
        }
        let published = Some(line(text("publishedDate"), 40)).filter(|date| !date.is_empty());
        Some(Self {
            title: line(text("title"), LONGEST_TITLE),
            url: url.to_owned(),
            excerpt: line(text("content"), LONGEST_EXCERPT),
            published,
        })
    }
}

/// Text on one line, cut where it is too long.
fn line(text: &str, longest: usize) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn refuse_status(response: &Response) -> Failure {
    let status = response.status;
    let location = response.header("location").map(|location| line(&location, LONGEST_ADDRESS));
    match (status, location) {
        (300..=399, Some(location)) => Failure::new(
            "not-configured",
            format!(
                "the search service redirects to {location}: the operator sets `endpoint` in the `config` of `web-search` in \
                 the tools policy to where it is now, and grants that host"
            ),
        ),
        (401, _) => Failure::denied(
            "the search service wants a key (HTTP 401): the operator gives `web-search` a [[component.secret]] in the tools \
             policy",
        ),
        (403, _) => Failure::denied(
            "the search service refused (HTTP 403): a SearxNG instance answers JSON only if its settings have `json` in \
             search.formats, and some want a key",
        ),
        (429 | 500..=599, _) => {
            let failure =
                Failure::unavailable(format!("the search service cannot answer now (HTTP {status})"));
            let seconds = response.header("retry-after").and_then(|after| after.trim().parse::<u64>().ok());
            match seconds {
                Some(seconds) => {
                    failure.with_meta("retry-after-ms", seconds.saturating_mul(1000).to_string())
                }
                None => failure,
            }
        }
        _ => Failure::new("search-failed", format!("the search service answered HTTP {status}")),
    }
}

#[cfg(test)]
mod tests {
    use agent_tool_sdk::http::Response;
    use proptest::prelude::*;

    use super::read;

    fn response(status: u16, headers: &[(&str, &str)], body: &str) -> Response {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response { status, headers, body: body.as_bytes().to_vec(), truncated: false }
    }

    fn shown(body: &str, most: Option<u8>) -> String {
        serde_json::to_string(&read(&response(200, &[], body), most).unwrap()).unwrap()
    }

    #[test]
    fn results_are_read() {
        let body = r#"{"query":"tea","number_of_results":0,"results":[
            {"url":"https://a.example/1","title":" Tea\n time","content":"A  drink","engine":"x","publishedDate":"2026-01-02T00:00:00"},
            {"url":"javascript:alert(1)","title":"no"}, "odd", {"title":"no url"},
            {"url":"http://b.example/","title":"B","content":null,"publishedDate":null}],
            "answers":["42",{"answer":"forty two","url":"https://c.example"}],"suggestions":["teas"],"unresponsive_engines":[]}"#;
        assert_eq!(
            shown(body, None),
            r#"{"results":[{"title":"Tea time","url":"https://a.example/1","excerpt":"A drink","published":"2026-01-02T00:00:00"},{"title":"B","url":"http://b.example/","excerpt":""}],"answers":["42","forty two"]}"#
        );
        assert!(!shown(body, Some(1)).contains("b.example"));
    }

    #[test]
    fn when_nothing_is_found_it_says_why_perhaps() {
        let body = r#"{"results":[],"suggestions":["tea"],"unresponsive_engines":[["x","timeout"],["y"]]}"#;
        assert_eq!(
            shown(body, None),
            r#"{"results":[],"suggestions":["tea"],"note":"these search engines failed: x (timeout), y ()"}"#
        );
    }

    #[test]
    fn results_are_bounded() {
        let result =
            format!(r#"{{"url":"https://a.example/","title":"{0}","content":"{0}"}}"#, "é".repeat(500));
        let body = format!(r#"{{"results":[{}]}}"#, vec![result; 40].join(","));
        let shown = shown(&body, Some(255));
        assert_eq!(shown.matches("\"url\"").count(), 20);
        assert_eq!(shown.matches('é').count(), 20 * 600);
    }

    #[test]
    fn what_is_no_answer_is_refused_with_what_to_do() {
        for (status, headers, code, part) in [
            (
                302,
                &[("location", "https://new.example/search")][..],
                "not-configured",
                "redirects to https://new.example/search",
            ),
            (401, &[], "denied", "[[component.secret]]"),
            (403, &[], "denied", "search.formats"),
            (429, &[("retry-after", "7")], "unavailable", "HTTP 429"),
            (503, &[], "unavailable", "HTTP 503"),
            (404, &[], "search-failed", "HTTP 404"),
            (200, &[], "unavailable", "is not the JSON of a SearxNG instance"),
        ] {
            let failure = read(&response(status, headers, "<html>"), None).unwrap_err();
            assert!(failure.code == code && failure.message.contains(part), "{failure:?}");
            let waits = failure.meta.iter().any(|(key, value)| key == "retry-after-ms" && value == "7000");
            assert_eq!(waits, status == 429);
        }
    }

    proptest! {
        #[test]
        fn any_json_is_read(body in "(\\{|\\}|\\[|\\]|\"results\"|\"answers\"|\"url\"|\"https://x\"|:|,|1|null){0,20}") {
            drop(read(&response(200, &[], &body), None));
        }
    }
}
