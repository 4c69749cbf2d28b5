//! `/docs`: the pages of `host/docs`, each as HTML and as Markdown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use axum::body::to_bytes;
use http::StatusCode;
use http_edge::document_pages;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::harness::{Answer, Answers, Service, request};
use crate::openapi::files_below;

/// The pages of the repository, as they are named below `/docs/`.
fn pages_of_the_repository() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let found = files_below(&root);
    let names = found.iter().filter(|file| file.extension().is_some_and(|extension| extension == "md"));
    names.map(|file| file.strip_prefix(&root).unwrap().with_extension("").display().to_string()).collect()
}

fn media(answer: &Answer) -> &str {
    answer.header("content-type").unwrap_or_default().split(';').next().unwrap_or_default()
}

#[tokio::test]
async fn every_page_is_served_for_people_and_for_programs_and_listed() {
    let service = Service::with_invoke(Answers);
    let pages = pages_of_the_repository();
    assert!(pages.len() > 70, "the pages are found: {}", pages.len());
    let list = service.get("/llms.txt").await;
    assert_eq!((list.status, media(&list)), (StatusCode::OK, "text/plain"));
    let known: BTreeSet<_> = document_pages().iter().map(|page| page.name.as_str()).collect();
    let index = service.get("/docs").await;
    for name in &pages {
        let place = if name == "README" { String::new() } else { format!("/{name}") };
        let page = service.get(&format!("/docs{place}")).await;
        assert_eq!((page.status, media(&page)), (StatusCode::OK, "text/html"), "{name}");
        let twin = service.get(&format!("/docs/{name}.md")).await;
        assert_eq!((twin.status, media(&twin)), (StatusCode::OK, "text/markdown"), "{name}");
        let title = twin.body.lines().next().unwrap().trim_start_matches("# ");
        assert!(page.body.contains(&format!("<title>{title} ·")) || title.contains('`'), "{name}: {title}");
        assert!(list.body.contains(&format!("](docs/{name}.md): After this page you")), "{name}");
        assert!(known.contains(&**name), "{name}");
        let linked = format!("href=\"docs/{}\"", if name == "README" { "../docs" } else { name });
        assert!(index.body.contains(&linked), "{name} is linked from the index");
    }
    for lost in ["/docs/x", "/docs/api/x", "/docs/api/x.md", "/docs/../README.md", "/docs/%00/x", "/docs/%ff"]
    {
        assert_eq!(service.get(lost).await.status, StatusCode::NOT_FOUND, "{lost}");
    }
}

#[tokio::test]
async fn a_page_runs_the_search_and_nothing_else() {
    let service = Service::with_invoke(Answers);
    for page in document_pages() {
        let place = if page.name == "README" { "/docs".to_owned() } else { format!("/docs/{}", page.name) };
        let answer = service.get(&place).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.body.matches("<script").count(), 1, "{place}");
        for inline in [" style=", " onclick=", "<script>", "<style", "<iframe"] {
            assert!(!answer.body.contains(inline), "{place}: {inline}");
        }
        let ids: Vec<_> = between(&answer.body, " id=\"").collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{place}: an anchor is there twice");
    }
    let script = service.get("/docs/search.js").await;
    assert_eq!(script.status, StatusCode::OK);
    for outside in ["http://", "https://", "innerHTML", "eval("] {
        assert!(!script.body.contains(outside), "{outside}");
    }
}

/// What stands behind each of these, up to the next quote.
fn between<'a>(text: &'a str, from: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(from).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Where a link of a page leads, as a browser finds out.
fn follow(from: &str, link: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Links of a page of HTML or Markdown to this service.
fn links(answer: &Answer) -> Vec<String> {
    let all: Vec<_> = match media(answer) {
        "text/html" => between(&answer.body, " href=\"").chain(between(&answer.body, " src=\"")).collect(),
        "text/markdown" => {
            // Code shows links that are none.
            let prose = answer.body.split("```").step_by(2).flat_map(|text| text.split('`').step_by(2));
            let targets = prose.flat_map(|text| text.split("](").skip(1));
            targets.filter_map(|rest| rest.split(')').next()).collect()
        }
        _ => vec![],
    };
    all.into_iter().filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

/// An answer that may be a picture.
async fn get(service: &Service, place: &str) -> Answer {
    let response = service.router().oneshot(request("GET", place, "")).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, usize::MAX).await.unwrap();
    let body = String::from_utf8_lossy(&bytes).into_owned();
    Answer { status: parts.status, headers: parts.headers, body }
}

#[tokio::test]
async fn every_link_leads_somewhere_from_where_the_page_is_served() {
    let service = Service::with_invoke(Answers);
    let mut seen: BTreeMap<String, Answer> = BTreeMap::new();
    let mut open = VecDeque::from(["/docs".to_owned()]);
    let (mut anchors, mut dead) = (vec![], vec![]);
    while let Some(place) = open.pop_front() {
        if seen.contains_key(&place) {
            continue;
        }
        let answer = get(&service, &place).await;
        if !answer.status.is_success() && !answer.status.is_redirection() {
            dead.push(format!("{place}: {}", answer.status));
        }
        open.extend(answer.header("location").map(|to| follow(&place, to)));
        // The reference makes its links by script.
        for link in links(&answer).into_iter().filter(|_| place != "/docs/api") {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { place.clone() } else { follow(&place, path) };
            anchors.push((place.clone(), target.clone(), anchor.to_owned()));
            open.push_back(target);
        }
        seen.insert(place, answer);
    }
    for (from, to, anchor) in anchors.iter().filter(|(_, _, anchor)| !anchor.is_empty()) {
        let page = &seen[to];
        let is_there = match media(page) {
            "text/html" => page.body.contains(&format!(" id=\"{anchor}\"")),
            _ => true,
        };
        if !is_there {
            dead.push(format!("{from}: {to} has no #{anchor}"));
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
    let pictures = seen.values().filter(|answer| media(answer).starts_with("image/")).count();
    assert!(anchors.len() > 5_000 && pictures > 1, "{} links, {pictures} pictures", anchors.len());
}

#[tokio::test]
async fn folders_lead_to_their_first_page_behind_any_prefix() {
    let service = Service::with_invoke(Answers);
    for (place, to) in
        [("/docs/tools", "tools/README"), ("/docs/operate", "operate/README"), ("/docs/README", "../docs")]
    {
        let answer = service.get(place).await;
        assert_eq!(
            (answer.status, answer.header("location")),
            (StatusCode::PERMANENT_REDIRECT, Some(to)),
            "{place}"
        );
        assert_eq!(service.get(&follow(place, to)).await.status, StatusCode::OK, "{place}");
    }
    // The reference is not hidden by the folder of its name.
    assert!(service.get("/docs/api").await.body.contains("openapi.json"));
}

#[tokio::test]
async fn the_search_has_every_page_in_sections() {
    let service = Service::with_invoke(Answers);
    let index = service.get("/docs/search.json").await.json();
    let entries = index["sections"].as_array().unwrap();
    let places: BTreeSet<_> = entries.iter().map(|entry| entry["place"].as_str().unwrap()).collect();
    for page in document_pages() {
        assert!(places.contains(&*page.name), "{}", page.name);
    }
    let resume = entries.iter().find(|entry| entry["place"] == "api/streams#resume-a-stream").unwrap();
    assert_eq!(resume["title"], "Streams: Resume a stream");
    let finds = |word: &str| {
        let has = |entry: &&Value| entry["text"].as_str().unwrap().contains(word);
        entries.iter().filter(has).count()
    };
    assert!(finds("RATE_LIMIT_IP") > 1 && finds("no such word") == 0);
}
