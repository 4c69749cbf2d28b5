//! Publishing tools in a registry and installing them from there, as the command line does it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use acceptance::{Component, Ended, Registry, Service};
use tempfile::TempDir;

/// What an author and an operator have: a file, a key, a tools folder.
struct Home {
    folder: TempDir,
    registry: Registry,
}

impl Home {
    async fn with(component: &Component) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tools")).unwrap();
        fs::write(folder.path().join(component.file()), &component.bytes).unwrap();
        Self { folder, registry: Registry::start().await }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn reference(&self, rest: &str) -> String {
        format!("oci://{}/tools/{rest}", self.registry.name())
    }

    async fn tool(&self, arguments: &[&str]) -> Ended {
        let program = match arguments.first() {
            Some(&("publish" | "key" | "sign")) => Service::author(arguments),
            _ => Service::command(&[&["tools"], arguments].concat()),
        };
        program.env("TOOLS_DIR", self.path("tools")).run().await
    }

    /// Publishes and says by which reference it can be installed.
    async fn publish(&self, file: &str, rest: &str, more: &[&str]) -> String {
        let (file, reference) = (self.path(file), self.reference(rest));
        let arguments = [&["publish", &file, &reference, "--plain-http"], more].concat();
        let ended = self.tool(&arguments).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let first = ended.stdout.lines().next().unwrap_or_default();
        first.strip_prefix("published ").unwrap_or_else(|| panic!("{ended:?}")).to_owned()
    }

    async fn install(&self, reference: &str, more: &[&str]) -> Ended {
        self.tool(&[&["install", reference, "--plain-http"], more].concat()).await
    }

    /// Makes a key and says what a policy names it by.
    async fn key(&self, name: &str) -> (String, String) {
        let file = self.path(name);
        let ended = self.tool(&["key", &file]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        (file, ended.stdout)
    }

    /// The policy beside the tools folder.
    fn policy(&self, component: &str, line: &str) {
        let text = format!("[[component]]\nname = \"{component}\"\n{line}");
        fs::write(self.path("tools.policy.toml"), text).unwrap();
    }

    fn installed(&self) -> BTreeMap<String, Vec<u8>> {
        contents(Path::new(&self.path("tools")))
    }
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    files.map(|path| (named(&path), fs::read(&path).unwrap())).collect()
}

#[tokio::test]
async fn what_one_publishes_another_installs_by_digest_or_by_tag() {
    let calculator = Component::shipped("calculator");
    let home = Home::with(&calculator).await;
    let pinned = home.publish("calculator.wasm", "calculator:1.0", &[]).await;
    assert!(pinned.starts_with(&home.reference("calculator@sha256:")), "{pinned}");
    for reference in [&pinned, &home.reference("calculator:1.0")] {
        let ended = home.install(reference, &[]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let lines: Vec<_> = ended.stdout.lines().map(str::trim).collect();
        let expected = [
            format!("installed calculator in {}", home.path("tools")),
            format!("digest     {}", calculator.digest()),
            format!("from       {pinned}"),
            "signature  none".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
    assert_eq!(home.installed(), BTreeMap::from([("calculator.wasm".to_owned(), calculator.bytes)]));
    let called = home.tool(&["call", "calculate", r#"{"expression": "6 * 7"}"#]).await;
    assert!(called.stdout.contains("42"), "{called:?}");
    let renamed = home.install(&pinned, &["--name", "abacus"]).await;
    assert_eq!(renamed.code, Some(0), "{renamed:?}");
    assert_eq!(home.installed().into_keys().collect::<Vec<_>>(), ["abacus.wasm", "calculator.wasm"]);
}

#[tokio::test]
async fn a_signature_travels_along_and_the_policy_says_whose_counts() {
    let calculator = Component::shipped("calculator");
    let home = Home::with(&calculator).await;
    let (own, signer) = home.key("own.pem").await;
    let (other, _) = home.key("other.pem").await;
    home.policy("calculator", &signer);
    let by_other = home.publish("calculator.wasm", "calculator:other", &["--key", &other]).await;
    let unsigned = home.publish("calculator.wasm", "calculator:unsigned", &[]).await;
    let of_another = home.publish("calculator.wasm", "abacus", &["--key", &own]).await;
    for (reference, more, reason) in [
        (&by_other, &[][..], "made by none of the keys that the policy trusts"),
        (&unsigned, &[], "this one has no signature: have it published"),
        (&of_another, &["--name", "calculator"], "this one has no signature"),
    ] {
        let ended = home.install(reference, more).await;
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.stderr.contains(reason) && ended.stderr.contains("was not installed"), "{ended:?}");
        assert_eq!(home.installed(), BTreeMap::new());
    }
    let by_own = home.publish("calculator.wasm", "calculator:1.0", &["--key", &own]).await;
    let ended = home.install(&by_own, &[]).await;
    let key = signer.trim().trim_start_matches("signer = ").trim_matches('"');
    assert!(ended.code == Some(0) && ended.stdout.contains(&format!("signature  {key}")), "{ended:?}");
    // The signature is the file that `agent-tool sign` writes.
    let signed = home.tool(&["sign", &home.path("calculator.wasm"), "--key", &own]).await;
    assert_eq!(signed.code, Some(0), "{signed:?}");
    let beside = fs::read(home.path("calculator.wasm.sig")).unwrap();
    assert_eq!(home.installed()["calculator.wasm.sig"], beside);
    // And that file goes along where no key is given.
    let along = home.publish("calculator.wasm", "calculator:along", &[]).await;
    assert_eq!(along, by_own);
    let listed = home.tool(&[]).await;
    assert!(listed.code == Some(0) && listed.stdout.starts_with("calculate"), "{listed:?}");
}

#[tokio::test]
async fn a_file_is_installed_with_the_signature_beside_it() {
    let calculator = Component::shipped("calculator");
    let home = Home::with(&calculator).await;
    let (own, _) = home.key("own.pem").await;
    home.tool(&["sign", &home.path("calculator.wasm"), "--key", &own]).await;
    let ended = home.tool(&["install", &home.path("calculator.wasm")]).await;
    assert!(ended.code == Some(0) && ended.stdout.contains("verified by nobody"), "{ended:?}");
    assert_eq!(home.installed().len(), 2);
    let renamed = home.tool(&["install", &home.path("calculator.wasm"), "--name", "abacus"]).await;
    assert!(renamed.stdout.contains("left out: it is for the name calculator"), "{renamed:?}");
    assert!(!home.installed().contains_key("abacus.wasm.sig"));
}

#[tokio::test]
async fn what_cannot_be_installed_leaves_the_folder_as_it_was() {
    let home = Home::with(&Component::shipped("calculator")).await;
    fs::write(home.path("module.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let (calculator, module, nothing) =
        (home.path("calculator.wasm"), home.path("module.wasm"), home.path("nothing.wasm"));
    let absent = home.reference("calculator:1.0");
    let nowhere = home.path("nowhere");
    for (arguments, reason) in [
        (&["install", &calculator, "--name", "../evil"][..], "cannot be the name of a component"),
        (&["install", &calculator, "--tools-dir", &nowhere], "is no folder"),
        (&["install", "oci://registry.example.org/../calculator:1"], "is no name of a repository"),
        (&["install", "oci://registry.example.org/calculator"], "says neither which tag nor which digest"),
        (&["install", &module], "is no WebAssembly component"),
        (&["install", &nothing], "No such file"),
        (&["install", &absent, "--plain-http"], "check the name and the tag or digest"),
        (&["install", &absent], "--plain-http is for a registry without TLS"),
        (&["publish", &module, &absent, "--plain-http"], "core module"),
    ] {
        let ended = home.tool(arguments).await;
        assert_eq!(ended.code, Some(1), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(reason), "{arguments:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    assert_eq!(home.installed(), BTreeMap::new());
    assert!(!Path::new(&home.path("evil.wasm")).exists());
}
