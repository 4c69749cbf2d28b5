//! The tool calls of a recorded run, made again without the network.

use std::fs;
use std::path::Path;

use acceptance::{Builder, Component, Model, Service, Upstream};
use serde_json::{Value, json};

const SECRET: &str = "never-to-be-seen-here";

/// What is said of a picture, in the component and in one that was changed.
const SAID: &[u8] = b"this tool reads text only";
const SAID_NOW: &[u8] = b"that tool reads text only";

/// Two servers, the component that may ask them, and the folder of the database.
struct World {
    page: Upstream,
    picture: Upstream,
    fetcher: Component,
    folder: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        Self {
            // The page repeats the credential that it was sent.
            page: Upstream::answering(200, "text/plain", "a page for never-to-be-seen-here").await,
            picture: Upstream::answering(200, "image/png", "\0\u{1}\u{2}").await,
            fetcher: Component::granted("http-fetch"),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// The tool under its grants, and the database.
    fn tools(&self, builder: Builder) -> Builder {
        let line = |server: &Upstream| {
            let url = server.url("/");
            let port = url.rsplit(':').next().unwrap().trim_end_matches('/').to_owned();
            format!(
                "[[component.http]]\nscheme = \"http\"\nhost = \"127.0.0.1\"\nport = {port}\nprivate = true\n"
            )
        };
        let lines = line(&self.page)
            + &line(&self.picture)
            + "[[component.secret]]\nname = \"key\"\nenv = \"FETCH_KEY\"\nheader = \"x-key\"\nhosts = [\"127.0.0.1\"]\n";
        builder.granting([(&self.fetcher, &lines)]).sqlite_in(self.folder.path())
    }

    /// A run that reads the page and the picture. Returns its id once the service has ended.
    async fn run(&self, recorded: bool) -> String {
        let model = Model::openai().await;
        model.asks_for("fetch", json!({ "url": self.page.url("/page") }));
        model.asks_for("fetch", json!({ "url": self.picture.url("/picture") })).says("read");
        let builder = self.tools(Service::variant_a().model(&model)).env("FETCH_KEY", SECRET);
        let builder = if recorded { builder.env("TOOLS_RECORD_HTTP", "on") } else { builder };
        let service = builder.start().await;
        let result = service.result_of("what is there?").await;
        assert_eq!(result["toolCalls"][0]["outcome"], "ok", "{result:#}");
        assert_eq!(result["toolCalls"][1]["outcome"], "failed", "{result:#}");
        service.stop().await;
        result["id"].as_str().unwrap().to_owned()
    }

    /// The command without the credential: it is sent nowhere.
    async fn replay(&self, arguments: &[&str]) -> acceptance::Ended {
        self.tools(Service::author(&[&["replay"], arguments].concat())).run().await
    }

    fn requests(&self) -> usize {
        self.page.received().len() + self.picture.received().len()
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

fn files(folder: &Path) -> Vec<Vec<u8>> {
    fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn a_recorded_run_is_the_same_again_without_the_network_and_its_secrets_are_nowhere() {
    let world = World::new().await;
    let id = world.run(true).await;
    assert_eq!((world.requests(), world.page.received()[0].header("x-key")), (2, SECRET));
    let kept = files(world.folder.path());
    assert!(kept.iter().any(|file| contains(file, b"a page for [secret key]")), "it was recorded");
    assert!(!kept.iter().any(|file| contains(file, SECRET.as_bytes())), "a credential is in the database");

    let again = world.replay(&[&id]).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(world.requests(), 2, "nothing was asked of the servers");
    for part in ["fetch", "same", "outcome    ok", "outcome    failed", &world.fetcher.id(), "1 request"] {
        assert!(again.stdout.contains(part), "{part}: {}", again.stdout);
    }
    assert!(again.stdout.ends_with(&format!("{id}: 2 tool calls, 2 same, 0 differ\n")), "{}", again.stdout);
}

#[tokio::test]
async fn another_component_differs_where_it_does_and_has_the_grants_of_the_one_it_replaces() {
    let world = World::new().await;
    let id = world.run(true).await;
    let mut bytes = world.fetcher.bytes.clone();
    let place = bytes.windows(SAID.len()).position(|window| window == SAID).unwrap();
    bytes[place..place + SAID.len()].copy_from_slice(SAID_NOW);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("http-fetch.wasm");
    fs::write(&file, bytes).unwrap();
    let with = file.to_str().unwrap();

    let text = world.replay(&[&id, "--with", with]).await;
    assert_eq!(text.code, Some(1), "{text:?}");
    assert!(text.stdout.contains("2 tool calls, 1 same, 1 differ"), "{}", text.stdout);
    assert!(text.stdout.contains("differs in output"), "{}", text.stdout);
    let json = world.replay(&[&id, "--with", with, "--json"]).await;
    let compared: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(compared[0]["verdict"], json!({ "is": "same" }), "{compared:#}");
    assert_eq!(compared[1]["verdict"], json!({ "is": "differs", "in": ["output"] }), "{compared:#}");
    assert_ne!(compared[1]["then"]["component"], compared[1]["now"]["component"]);
    let diff = compared[1]["outputDiff"].to_string();
    assert!(diff.contains("this tool reads") && diff.contains("that tool reads"), "{diff}");
    assert_eq!(world.requests(), 2);
}

#[tokio::test]
async fn what_was_not_recorded_is_not_made_again() {
    let world = World::new().await;
    let id = world.run(false).await;
    assert!(!files(world.folder.path()).iter().any(|file| contains(file, br#""version":1,"method":"GET""#)));
    let again = world.replay(&[&id]).await;
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stdout.contains("TOOLS_RECORD_HTTP=on"), "{}", again.stdout);
    assert_eq!(world.requests(), 2);
    let unknown = world.replay(&["run_00000000000000000000000000000000"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(unknown.stderr.contains("the store has no run"), "{unknown:?}");
}
