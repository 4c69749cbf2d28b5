//! Clients that are generated from the document of Variant B compile, and do what their users want: ask, wait
//! for a job, and read what an error says.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use acceptance::{Model, Service, Token};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{folder, python, succeed};

/// Where Node looks for packages.
const PACKAGES: &str = "node_modules";

/// A program of Node's packages.
fn node(place: &Path, program: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(place.join(PACKAGES).join(program));
    command
}

/// Generates and compiles the TypeScript client in that folder: what runs it.
async fn typescript(place: &Path, document: &str) -> Command {
    symlink(folder().join(PACKAGES), place.join(PACKAGES)).unwrap();
    fs::copy(folder().join("client.ts"), place.join("client.ts")).unwrap();
    fs::write(place.join("package.json"), r#"{"type":"module"}"#).unwrap();
    let mut generator = node(place, "openapi-typescript/bin/cli.js");
    succeed("openapi-typescript", generator.args([document, "-o", "schema.d.ts"]).current_dir(place)).await;
    let mut compiler = node(place, "typescript/lib/tsc.js");
    compiler.args(["--strict", "--target", "es2022", "--module", "nodenext", "client.ts"]);
    succeed("tsc", compiler.current_dir(place)).await;
    let mut client = Command::new("node");
    client.arg("client.js");
    client
}

/// Generates the Python client in that folder.
async fn python_client(place: &Path, document: &str) -> Command {
    fs::copy(folder().join("client.py"), place.join("client.py")).unwrap();
    // The generator would look for a formatter.
    fs::write(place.join("config.yaml"), "post_hooks: []\n").unwrap();
    let mut generator = python();
    generator.args(["-m", "openapi_python_client", "generate", "--url", document, "--config", "config.yaml"]);
    generator.args(["--meta", "none", "--output-path", "agent_host_client"]);
    succeed("openapi-python-client", generator.current_dir(place)).await;
    let mut checker = python();
    checker.args(["-m", "mypy", "--strict", "--cache-dir", "/dev/null", "agent_host_client", "client.py"]);
    succeed("mypy", checker.current_dir(place)).await;
    let mut client = python();
    client.arg("client.py");
    client
}

#[tokio::test]
async fn generated_clients_compile_and_are_answered_as_the_document_says() {
    let model = Model::openai().await;
    let service = Service::variant_b().model(&model).start().await;
    let document = format!("http://{}/openapi.json", service.address());
    let place = tempfile::tempdir().unwrap();
    let clients = [
        ("TypeScript", typescript(place.path(), &document).await),
        ("Python", python_client(place.path(), &document).await),
    ];
    for (language, mut client) in clients {
        model.says("hello").says("done");
        let user = service.user(Token::of(language).premium());
        client.env("BASE_URL", format!("http://{}", service.address())).env("TOKEN", user.token());
        let report = succeed(language, client.current_dir(place.path())).await;
        let report: Value = serde_json::from_str(report.trim())
            .unwrap_or_else(|error| panic!("{language}: {error}: {report}"));
        let expected = json!({
            "answer": ["hello", "completed", false],
            "job": ["completed", "done"],
            "refused": [400, [["too_small", ["query"], 1]]],
            "unknown": [404, { "error": "Not found" }],
        });
        assert_eq!(report, expected, "{language}");
    }
    service.stop().await;
}
