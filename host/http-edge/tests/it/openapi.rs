//! `/openapi.json` says everything that is served, as it is; `/docs/api` shows it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_core::ports::{ClaimTerms, ConversationStore as _, Epoch, Journal as _};
use agent_core::testing::{EchoTools, says};
use agent_core::words::{ConversationKey, Event, Turn};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use http_edge::VariantA;
use insta::assert_snapshot;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::harness::{Answer, Answers, Fakes, Service, bearer, request, with};

/// Both variants and the admin API.
pub(crate) fn both() -> Fakes {
    Fakes::configured(Answers, |edge| {
        let toolbox = Arc::new(EchoTools::new(&[]));
        edge.a = Some(VariantA { invoke: Arc::new(Answers), streams: None, toolbox, probes: vec![] });
    })
}

pub(crate) async fn document(service: &Service) -> Value {
    let answer = service.get("/openapi.json").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (StatusCode::OK, Some("application/json; charset=utf-8"))
    );
    answer.json()
}

/// Every operation: its method, its path, and what is said of it.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    paths
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(|(method, operation)| (method.to_uppercase(), path.clone(), operation))
        })
        .collect()
}

#[tokio::test]
async fn the_document_of_both_variants() {
    let document = document(&both().service).await;
    let lines = operations(&document).into_iter().map(|(method, path, operation)| {
        let statuses: Vec<_> =
            operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        format!("{method} {path} {}: {}\n", operation["operationId"].as_str().unwrap(), statuses.join(" "))
    });
    let schemas = serde_json::to_string_pretty(&document["components"]).unwrap();
    assert_snapshot!(format!("{}{schemas}", lines.collect::<String>()));
}

#[tokio::test]
async fn the_document_says_how_large_bodies_may_be_here() {
    for bytes in [102_400, 7_777] {
        let fakes = Fakes::configured(Answers, |edge| edge.settings.max_body_bytes = bytes);
        let description = document(&fakes.service).await["info"]["description"].to_string();
        assert!(description.contains(&format!("at most {bytes} bytes (`MAX_BODY_BYTES`)")), "{description}");
    }
}

#[tokio::test]
async fn each_variant_has_its_part_of_the_document_and_no_more() {
    let (a, b) = (Service::with_invoke(Answers), Fakes::with_invoke(Answers));
    let without_admin = Fakes::configured(Answers, |edge| crate::harness::b(edge).tool_admin = None);
    let (both, a, b) = (document(&both().service).await, document(&a).await, document(&b.service).await);
    let parts = operations(&a).into_iter().chain(operations(&b));
    let of_both: Vec<_> = operations(&both).into_iter().map(|(method, path, _)| (method, path)).collect();
    let of_parts: BTreeSet<_> = parts.map(|(method, path, _)| (method, path)).collect();
    assert_eq!(of_both.iter().cloned().collect::<BTreeSet<_>>(), of_parts);
    let paths = |document: &Value| -> Vec<String> {
        document["paths"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(
        paths(&a),
        [
            "/",
            "/agent/invoke",
            "/agent/runs/{runId}/cancel",
            "/agent/runs/{runId}/events",
            "/docs",
            "/docs/api",
            "/docs/{folder}/{page}",
            "/docs/{page}",
            "/health/live",
            "/health/ready",
            "/llms.txt",
            "/metrics",
            "/openapi.json"
        ]
    );
    assert!(!paths(&b).iter().any(|path| path.starts_with("/agent/") || path.starts_with("/health/")));
    let without_admin = document(&without_admin.service).await;
    assert!(!paths(&without_admin).iter().any(|path| path.starts_with("/admin/tools")));
    // What has the same name is the same.
    for part in [&a, &b] {
        for (name, schema) in part["components"]["schemas"].as_object().unwrap() {
            assert_eq!(&both["components"]["schemas"][name], schema, "{name}");
        }
    }
}

#[tokio::test]
async fn every_path_has_the_methods_that_the_document_names() {
    let fakes = both();
    let document = document(&fakes.service).await;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let mut named: BTreeSet<_> =
            methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        if named.contains("GET") {
            named.insert("HEAD".to_owned());
        }
        let answer = fakes.service.ask("PATCH", &path.replace(['{', '}'], "")).await;
        let allowed = answer.header("allow").unwrap_or_default();
        let allowed: BTreeSet<_> = allowed.split(',').map(str::to_owned).collect();
        assert_eq!((answer.status, allowed), (StatusCode::METHOD_NOT_ALLOWED, named), "{path}");
        assert!(answer.body.contains("Method not allowed"), "{path}: {answer}");
    }
}

/// Only `Routes` and what serves the document itself call axum's `route`, so that no route is without a
/// description.
#[test]
fn routes_are_added_with_their_descriptions_only() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed = [sources.join("openapi/routes.rs"), sources.join("openapi/serve.rs")];
    let mut found = vec![];
    for file in files_below(&sources) {
        let adds = fs::read_to_string(&file).unwrap().contains(".route(");
        if adds && !allowed.contains(&file) {
            found.push(file);
        }
    }
    assert!(
        found.is_empty(),
        "add these routes by `Routes::get` and the like, with what is said of them: {found:?}"
    );
}

pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn every_field_is_described_with_an_example() {
    let document = document(&both().service).await;
    let mut missing = vec![];
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        look_for_gaps(name, schema, &mut missing);
    }
    for (method, path, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let place = format!("{method} {path} {}", parameter["name"]);
            let has_example = ["examples", "enum"].iter().any(|key| !parameter["schema"][key].is_null());
            if parameter["description"].is_null() || !has_example {
                missing.push(place);
            }
        }
    }
    assert!(missing.is_empty(), "without a description or an example: {missing:#?}");
}

/// The fields below that lack something. What a field refers to has examples of its own.
fn look_for_gaps(place: &str, schema: &Value, missing: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let place = format!("{place}.{name}");
        let explained = ["examples", "$ref", "items", "enum", "properties", "additionalProperties", "const"];
        // A value of any kind has no type.
        let has_example = field["type"].is_null() || explained.iter().any(|key| !field[key].is_null());
        if field["description"].is_null() || !has_example {
            missing.push(place.clone());
        }
        look_for_gaps(&place, field, missing);
    }
    for part in ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten() {
        look_for_gaps(place, part, missing);
    }
}

#[tokio::test]
async fn real_answers_are_what_the_document_says() {
    let fakes = both();
    let document = document(&fakes.service).await;
    let told = |method: &str, path: &str, answer: &Answer| is_told(&document, method, path, answer);
    for path in ["/", "/console", "/health/live", "/health/ready", "/metrics", "/health", "/ready"] {
        told("GET", path, &fakes.service.get(path).await);
    }
    told("POST", "/agent/invoke", &fakes.service.invoke(r#"{"input":"hi"}"#).await);
    told("POST", "/agent/invoke", &fakes.service.invoke("{").await);
    for body in [r#"{"query":"hi"}"#, r#"{"query":1,"options":{"maxTokens":1,"tools":[1]}}"#, "{"] {
        told("POST", "/api/agent", &fakes.post("/api/agent", body).await);
        told("POST", "/api/agent/async", &fakes.post("/api/agent/async", body).await);
    }
    told("POST", "/api/agent", &fakes.service.ask("POST", "/api/agent").await);
    fakes.runs.append("run_1", Epoch(0), 0, &[Event::from(says("hi"))]).await.unwrap();
    let forged = request("GET", "/api/agent/jobs?status=x&limit=0", "");
    told("GET", "/api/agent/jobs", &fakes.service.send(bearer("u2", forged)).await);
    told("GET", "/api/agent/jobs", &fakes.ask("GET", "/api/agent/jobs", "").await);
    told("GET", "/api/agent/jobs/{jobId}", &fakes.get("/api/agent/jobs/nope").await);
    told("DELETE", "/api/agent/cache", &fakes.ask("DELETE", "/api/agent/cache", "").await);
    let turns = [Turn { id: "t".into(), run_id: "run_1".into(), at: 1, ..Turn::default() }];
    let key = ConversationKey::conversation("u3", "trip");
    fakes.conversations.claim(key, "o", ClaimTerms::default()).await.unwrap();
    fakes.conversations.settle(key, "o", &turns).await.unwrap();
    for (method, path, real) in [
        ("GET", "/api/agent/conversations", "/api/agent/conversations"),
        ("GET", "/api/agent/conversations", "/api/agent/conversations?limit=x&cursor=x"),
        ("GET", "/api/agent/conversations/{conversationId}", "/api/agent/conversations/trip"),
        ("DELETE", "/api/agent/conversations/{conversationId}", "/api/agent/conversations/trip"),
        ("DELETE", "/api/agent/conversations/{conversationId}", "/api/agent/conversations/trip"),
    ] {
        told(method, path, &fakes.service.send(bearer("u3", request(method, real, ""))).await);
    }
    for (path, real) in [
        ("/admin/tools", "/admin/tools"),
        ("/admin/tools/{name}", "/admin/tools/calculator"),
        ("/admin/tools/{name}", "/admin/tools/search"),
        ("/admin/tools/{name}", "/admin/tools/%20"),
        ("/admin/tools/{name}/versions", "/admin/tools/calculator/versions"),
        ("/admin/tools/{name}/diff", "/admin/tools/calculator/diff"),
        ("/admin/tools/{name}/diff", "/admin/tools/calculator/diff?from=x"),
        ("/admin/tools/{name}/audit", "/admin/tools/calculator/audit"),
        ("/admin/runs", "/admin/runs"),
        ("/admin/runs", "/admin/runs?limit=0"),
        ("/admin/runs/{runId}", "/admin/runs/run_1"),
        ("/admin/runs/{runId}", "/admin/runs/nope"),
        ("/admin/queue", "/admin/queue"),
        ("/admin/jobs", "/admin/jobs?user=u1"),
        ("/admin/jobs", "/admin/jobs"),
        ("/admin/jobs/{jobId}", "/admin/jobs/1"),
        ("/admin/status", "/admin/status"),
    ] {
        fakes.windows.fill("user:a1", 0);
        told("GET", path, &fakes.administer("GET", real, "").await);
    }
}

#[tokio::test]
async fn pages_are_what_the_document_says() {
    let service = both().service;
    let document = document(&service).await;
    for (path, real) in [
        ("/docs", "/docs"),
        ("/docs/api", "/docs/api"),
        ("/docs/{page}", "/docs/ARCHITECTURE"),
        ("/docs/{page}", "/docs/ARCHITECTURE.md"),
        ("/docs/{page}", "/docs/tools"),
        ("/docs/{page}", "/docs/style.css"),
        ("/docs/{page}", "/docs/search.js"),
        ("/docs/{page}", "/docs/icon.svg"),
        ("/docs/{page}", "/docs/search.json"),
        ("/docs/{page}", "/docs/nope"),
        ("/docs/{folder}/{page}", "/docs/api/streams"),
        ("/docs/{folder}/{page}", "/docs/api/streams.md"),
        ("/docs/{folder}/{page}", "/docs/images/soak-120-minutes.svg"),
        ("/docs/{folder}/{page}", "/docs/wit/tool.wit"),
        ("/llms.txt", "/llms.txt"),
    ] {
        let answer = service.get(real).await;
        assert_eq!(answer.status == StatusCode::NOT_FOUND, real == "/docs/nope", "{real}");
        is_told(&document, "GET", path, &answer);
    }
}

#[tokio::test]
async fn real_answers_to_clients_of_openai_are_what_the_document_says() {
    let fakes = both();
    let document = document(&fakes.service).await;
    let told = |method: &str, path: &str, answer: &Answer| is_told(&document, method, path, answer);
    for (path, real) in [("/v1/models", "/v1/models"), ("/v1/models/{model}", "/v1/models/agent")] {
        told("GET", path, &fakes.get(real).await);
        told("GET", path, &fakes.service.get(real).await);
    }
    told("GET", "/v1/models/{model}", &fakes.get("/v1/models/gpt-5").await);
    for more in ["", r#","n":2"#, r#","top_logprobs":2"#] {
        let chat = format!(r#"{{"model":"agent","messages":[{{"role":"user","content":"hi"}}]{more}}}"#);
        told("POST", "/v1/chat/completions", &fakes.post("/v1/chat/completions", chat).await);
        let response = format!(r#"{{"model":"agent","input":"hi"{more}}}"#);
        told("POST", "/v1/responses", &fakes.post("/v1/responses", response).await);
    }
}

/// Whether an answer has a status, headers and a body that the document describes.
fn is_told(document: &Value, method: &str, path: &str, answer: &Answer) {
    let place = format!("{method} {path} {}", answer.status);
    assert_ne!(answer.status, StatusCode::TOO_MANY_REQUESTS, "{place}: its window is full");
    let said = &document["paths"][path][method.to_lowercase()]["responses"][answer.status.as_str()];
    assert!(said.is_object(), "{place} is not described");
    for name in [
        "ratelimit-limit",
        "ratelimit-reset",
        "x-ratelimit-limit",
        "retry-after",
        "www-authenticate",
        "etag",
        "location",
    ] {
        let has = answer.header(name).is_some();
        assert!(!has || said["headers"][name].is_object(), "{place}: {name} is not described");
    }
    assert!(
        said["headers"]["x-request-id"].is_object() && answer.header("x-request-id").is_some(),
        "{place}"
    );
    if answer.body.is_empty() {
        assert_eq!(said["content"], Value::Null, "{place}");
        return;
    }
    let media = answer.header("content-type").unwrap().split(';').next().unwrap();
    let schema = &said["content"][media]["schema"];
    assert!(schema.is_object(), "{place}: {media} is not described");
    if media != "application/json" {
        return;
    }
    let body = answer.json();
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    assert!(jsonschema::is_valid(&whole, &body), "{place}: {body:#} is not as described: {schema:#}");
    let unknown = unknown_fields(document, &[schema], &body);
    assert!(unknown.is_empty(), "{place}: {unknown:?} are not described");
}

/// The fields of a value that none of these schemas names.
pub(crate) fn unknown_fields(document: &Value, schemas: &[&Value], value: &Value) -> Vec<String> {
    let schemas: Vec<_> = schemas.iter().flat_map(|schema| parts(document, schema)).collect();
    match value {
        Value::Object(fields) => {
            let inner = |name: &str| -> Vec<&Value> {
                let of = schemas.iter().map(|schema| match &schema["properties"][name] {
                    Value::Null => &schema["additionalProperties"],
                    property => property,
                });
                of.filter(|property| !property.is_null()).collect()
            };
            // A value of any form.
            if schemas
                .iter()
                .all(|schema| schema["properties"].is_null() && schema["additionalProperties"].is_null())
            {
                return vec![];
            }
            let each = fields.iter().flat_map(|(name, value)| match inner(name) {
                none if none.is_empty() => vec![name.clone()],
                schemas => unknown_fields(document, &schemas, value),
            });
            each.collect()
        }
        Value::Array(items) => {
            let of_items: Vec<_> =
                schemas.iter().map(|schema| &schema["items"]).filter(|items| !items.is_null()).collect();
            items.iter().flat_map(|item| unknown_fields(document, &of_items, item)).collect()
        }
        _ => vec![],
    }
}

/// The schemas that a schema is made of, without references.
fn parts<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    if let Some(name) = name {
        return parts(document, &document["components"]["schemas"][name]);
    }
    let inner = ["allOf", "anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten();
    let inner: Vec<_> = inner.flat_map(|part| parts(document, part)).collect();
    if inner.is_empty() { vec![schema] } else { inner }
}

#[tokio::test]
async fn every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() {
    let document = document(&both().service).await;
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    assert!(references.len() > 20, "{references:?}");
    for reference in references {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference}");
    }
    let all: Vec<_> =
        operations(&document).iter().map(|(_, _, operation)| operation["operationId"].clone()).collect();
    let names: BTreeSet<_> = all.iter().map(Value::to_string).collect();
    assert_eq!(names.len(), all.len());
}

fn collect_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect_references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, found)),
        _ => {}
    }
}

#[tokio::test]
async fn a_copy_that_is_the_newest_is_not_sent_again() {
    let service = Fakes::with_invoke(Answers).service;
    for path in [
        "/openapi.json",
        "/docs",
        "/docs/api",
        "/docs/api/streams.md",
        "/llms.txt",
        "/console",
        "/console/app.js",
        "/console/style.css",
    ] {
        let first = service.get(path).await;
        let tag = first.header("etag").unwrap().to_owned();
        assert_eq!(first.header("cache-control"), Some("no-cache"), "{path}");
        let ask = async |tag: &str| service.send(with(request("GET", path, ""), "if-none-match", tag)).await;
        for known in [&*tag, tag.trim_start_matches("W/"), "*", &format!("\"x\", {tag}")] {
            let answer = ask(known).await;
            answer.check_at(format_args!("{path} {known}"), StatusCode::NOT_MODIFIED, "");
            assert_eq!(answer.header("etag"), Some(&*tag));
            // A cache updates what it has by the headers of the 304, which are those of the text.
            let varies = Some("accept-encoding");
            assert_eq!((first.header("vary"), answer.header("vary")), (varies, varies), "{path}");
        }
        assert_eq!(ask("\"x\"").await.body, first.body);
        let head = service.ask("HEAD", path).await;
        assert_eq!((head.status, head.header("etag"), head.body.as_str()), (StatusCode::OK, Some(&*tag), ""));
    }
}

#[tokio::test]
async fn the_page_runs_its_own_script_only_and_needs_no_other_network() {
    let answer = Service::with_invoke(Answers).get("/docs/api").await;
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    let between = |from: &str, to: &str| {
        let rest = answer.body.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    let digest = |text: String| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let (script, style) = (digest(between("<script>", "</script>")), digest(between("<style>", "</style>")));
    let policy = answer.header("content-security-policy").unwrap();
    assert_eq!(
        policy,
        format!(
            "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'"
        )
    );
    for outside in ["http://", "https://", "innerHTML", "style=", "onclick", "eval("] {
        assert!(!answer.body.contains(outside), "{outside}");
    }
    assert!(answer.body.len() < 20_000, "{}", answer.body.len());
}
