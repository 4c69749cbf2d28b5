//! schemathesis, which sends what the document allows and what it forbids, finds nothing: no status, header
//! or body that the document does not have, nothing refused that it allows, nothing taken that it forbids,
//! no 500.

use acceptance::{Model, Service, Token, says};

use super::{folder, python, succeed};

/// A model that says the same whatever it is asked.
async fn answering() -> Model {
    let model = Model::openai().await;
    model.expects_any_tools().expects_any_temperature().always(|_| says("42"));
    model
}

/// Runs it with more arguments, which say what of the document it is to look at. It begins anew with the same
/// seed, so it sends the same each time.
async fn finds_nothing(service: &Service, token: &str, part: &[&str]) {
    let notes = tempfile::tempdir().unwrap();
    let mut fuzzer = python();
    fuzzer
        .args(["-m", "schemathesis.cli", "--config-file"])
        .arg(folder().join("schemathesis.toml"))
        .arg("run")
        .arg(format!("http://{}/openapi.json", service.address()))
        .args(["--phases", "examples,coverage,fuzzing", "-n", "10", "--seed", "1", "--continue-on-failure"])
        .args(["--generation-database", "none", "--no-color"])
        .args(part)
        .env("SCHEMATHESIS_HOOKS", "fuzzer_hooks")
        .env("TOKEN", token)
        .env("PYTHONPATH", folder())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        // The fuzzer leaves notes where it runs.
        .current_dir(notes.path());
    let found = succeed("schemathesis", &mut fuzzer).await;
    assert!(found.contains(" passed"), "nothing was tried: {found}");
}

#[tokio::test]
async fn a_fuzzer_finds_nothing_on_variant_a() {
    let model = answering().await;
    let service = Service::variant_a().without_windows().model(&model).start().await;
    finds_nothing(&service, "none", &[]).await;
    service.stop().await;
}

/// Looks at a part of what Variant B's document has. Each part has a test and a service of its own, so that
/// the parts run beside each other.
async fn finds_nothing_on_variant_b(part: &[&str]) {
    let model = answering().await;
    let service = Service::variant_b().without_windows().model(&model).start().await;
    let token = Token::of("u1").premium().admin().to_string();
    finds_nothing(&service, &token, part).await;
    service.stop().await;
}

#[tokio::test]
async fn a_fuzzer_finds_nothing_on_variant_b() {
    finds_nothing_on_variant_b(&["--include-path-regex", "^/api/"]).await;
}

#[tokio::test]
async fn a_fuzzer_finds_nothing_on_the_protocols_beside_variant_b() {
    // The stream of changes to the tools does not end.
    let beside = ["--exclude-operation-id", "followMcpChanges", "--exclude-path-regex", "^/(admin|api)/"];
    finds_nothing_on_variant_b(&beside).await;
}

#[tokio::test]
async fn a_fuzzer_finds_nothing_on_what_administrators_have() {
    finds_nothing_on_variant_b(&["--include-path-regex", "^/admin/"]).await;
}
