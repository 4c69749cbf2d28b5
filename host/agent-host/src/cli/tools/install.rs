//! `agent-host tool install`: from a registry or a file into the tools folder.
//!
//! In two steps, between which somebody can be asked: [`fetch`] has the bytes, checked against their digests;
//! `place` puts them where they serve.

mod place;

use std::path::{Path, PathBuf};

use agent_core::ports::Upload;
use agent_core::words::{ComponentRecord, ComponentVersion, is_component_name};
use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use clap::Args;
use host_setup::component_file::{read_bounded, read_signature_beside, stem};
use host_setup::output::{json_line, print};
use host_setup::program::install_tls;
use serde_json::json;
use tool_host::{MOST_COMPONENT_BYTES, PolicyFile, Standing};
use tool_registry::{Client, Digest, Options, Reference};

use super::{Exit, versions};
use crate::cli::progress_bar::{ProgressBar, mebibytes};
use crate::config::{ProcessEnv, Stores, Tools};
use place::{Pair, RealDisk, place};

/// How a component begins: the preamble of WebAssembly, of the layer "component".
const COMPONENT_PREAMBLE: &[u8] = b"\0asm\x0d\0\x01\0";

/// What to install, and where to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// NAME.wasm, or oci://registry/name@sha256:… or oci://registry/name:tag
    #[arg(value_name = "FILE.wasm | oci://…")]
    source: String,
    /// What to call it, instead of the file's name or the last part of the reference
    #[arg(long)]
    name: Option<String>,
    /// Talk to the registry without TLS
    #[arg(long)]
    plain_http: bool,
    /// The folder to install to, instead of TOOLS_DIR
    #[arg(long, value_name = "FOLDER")]
    tools_dir: Option<PathBuf>,
}

/// A component that is here and installed nowhere yet.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The component.
    pub(crate) bytes: Bytes,
    /// What belongs into its `.sig`, and the name that it is said to be for.
    pub(crate) signature: Option<(Bytes, Option<String>)>,
    /// Where it is from: a file, or a reference with a digest.
    pub(crate) source: String,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let mut config = Tools::from_vars(&ProcessEnv)?;
    if let Some(folder) = &arguments.tools_dir {
        if let PolicyFile::Beside(beside) = &mut config.policy {
            beside.clone_from(folder);
        }
        config.folder.clone_from(folder);
    }
    let folder = &config.folder;
    let shares = arguments.tools_dir.is_none() && Stores::from_vars(&ProcessEnv)?.database.is_some();
    ensure!(
        shares || folder.is_dir(),
        "the tools folder {} is no folder: make it, or name another one with TOOLS_DIR or --tools-dir",
        folder.display()
    );
    let name = name_of(arguments)?;
    let fetched = fetch(&arguments.source, config.registry_options(arguments.plain_http)).await?;
    let (pair, left_out) = pair_of(&fetched, &name);
    let standing = tool_host::standing(&config.policy, &name, &pair.component, pair.signature.as_deref());
    let standing = standing.with_context(|| format!("{} was not installed as {name}", fetched.source))?;
    if shares {
        return propose(&name, &pair, &fetched.source, json).await;
    }
    place(&mut RealDisk, folder, &name, &pair)?;
    let signature = match (&standing, left_out, pair.signature.is_some()) {
        (Standing::Signer(key), ..) => key.clone(),
        (_, Some(other), _) => format!("left out: it is for the name {other}, use --name {other} to keep it"),
        (Standing::Digest, None, true) => "kept, and not needed: the policy names the digest".to_owned(),
        (_, None, true) => "kept, and verified by nobody: the policy names no signer for it".to_owned(),
        (_, None, false) => "none".to_owned(),
    };
    let waits = config.needs_approval && matches!(standing, Standing::Unmentioned);
    let digest = Digest::of(&pair.component);
    if json {
        print(&json_line(&json!({
            "installed": name, "folder": folder, "digest": digest.to_string(), "from": fetched.source,
            "signature": signature, "waits": waits,
        })))?;
        return Ok(Exit::Success);
    }
    print(&format!(
        "installed {name} in {}\n  digest     {}\n  from       {}\n  signature  {signature}\n",
        folder.display(),
        digest,
        fetched.source,
    ))?;
    if waits {
        print(
            "  waits      TOOLS_APPROVAL is on and there is no DATABASE_URL: it serves once the policy names its digest or signer\n",
        )?;
    }
    Ok(Exit::Success)
}

/// Proposes it to all replicas.
async fn propose(name: &str, pair: &Pair, source: &str, json: bool) -> anyhow::Result<Exit> {
    let upload = Upload { bytes: pair.component.clone(), signature: pair.signature.clone() };
    let proposed = versions::propose(name, upload, source).await?;
    let (view, changed) =
        proposed.context("DATABASE_URL is set, and versions of tools are not kept there")?;
    let (said, exit) = match changed {
        true => (format!("proposed {name} to every service on DATABASE_URL"), Exit::Success),
        false => known_already(name, &Digest::of(&pair.component).to_string(), &view.record),
    };
    if json {
        print(&json_line(
            &json!({ "proposed": name, "changed": changed, "from": source, "component": view }),
        ))?;
        return Ok(exit);
    }
    print(&format!("{said}\n  from       {source}\n"))?;
    print(&versions::describe(&view))?;
    Ok(exit)
}

/// The answer to a proposal that changed nothing, because its version is known already. A failure where that
/// version neither serves nor waits: the command does not have it serve.
fn known_already(name: &str, digest: &str, record: &ComponentRecord) -> (String, Exit) {
    let is_it = |version: &&ComponentVersion| version.digest == digest;
    let serves = record.active.as_deref() == Some(digest);
    let (state, exit) = match record.versions.iter().find(is_it) {
        Some(_) if serves && record.enabled => ("it serves".to_owned(), Exit::Success),
        Some(_) if serves => (format!("to have it serve: agent-host tools enable {name}"), Exit::Failure),
        Some(version) if versions::is_waiting(version) => {
            let approve = format!("agent-host tools approve {name} --digest {digest}");
            (format!("it waits for an approval: {approve}"), Exit::Success)
        }
        _ => {
            let action = if record.previous.iter().any(|one| one == digest) { "rollback" } else { "promote" };
            let command = format!("agent-host tools {action} {name} --digest {digest}");
            (format!("to have it serve: {command}"), Exit::Failure)
        }
    };
    (format!("this version of {name} is known already, and nothing was changed: {state}"), exit)
}

/// Gets a component from a file or a registry.
pub(crate) async fn fetch(source: &str, options: Options) -> anyhow::Result<Fetched> {
    let fetched = if source.starts_with("oci:") {
        pull(&Reference::parse(source)?, options).await?
    } else {
        read(Path::new(source))?
    };
    let source = &fetched.source;
    ensure!(
        fetched.bytes.starts_with(COMPONENT_PREAMBLE),
        "{source} is no WebAssembly component: `agent-tool build` and `wasm-tools component new` make components"
    );
    Ok(fetched)
}

async fn pull(reference: &Reference, options: Options) -> anyhow::Result<Fetched> {
    install_tls();
    let client = Client::new(options)?;
    let mut progress = ProgressBar::start("downloading", mebibytes);
    let pulled =
        tool_registry::pull(&client, reference, &mut |received, total| progress.show(received, total)).await;
    drop(progress);
    let pulled = pulled?;
    Ok(Fetched {
        bytes: pulled.component,
        signature: pulled.signature.map(|signature| (signature, pulled.signed_name)),
        source: pulled.reference_pinned.to_string(),
    })
}

/// Reads a file, and the signature beside it if there is one.
fn read(file: &Path) -> anyhow::Result<Fetched> {
    let bytes = read_bounded(file, MOST_COMPONENT_BYTES)
        .with_context(|| format!("{} cannot be installed", file.display()))?;
    let signature = read_signature_beside(file)?;
    Ok(Fetched {
        bytes,
        signature: signature.map(|signature| (signature, stem(file).map(str::to_owned))),
        source: file.display().to_string(),
    })
}

/// What the component is to be called. It becomes the name of a file, whoever chose it.
fn name_of(arguments: &Arguments) -> anyhow::Result<String> {
    let name = match &arguments.name {
        Some(name) => name.clone(),
        None if arguments.source.starts_with("oci:") => {
            Reference::parse(&arguments.source)?.last_part().to_owned()
        }
        None => match stem(Path::new(&arguments.source)) {
            None | Some("") => bail!(
                "{} is no file of the name NAME.wasm: name one, or oci://…, or say with --name what to call this one",
                arguments.source
            ),
            Some(name) => name.to_owned(),
        },
    };
    if !is_name(&name) {
        let shown: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        bail!(
            "`{shown}` cannot be the name of a component: choose up to 64 ASCII letters, digits, `_`, `.` and `-`, the first \
             one a letter or a digit, with --name"
        );
    }
    Ok(name)
}

/// Whether a policy can name it, and no hidden file is meant and no option of a command.
fn is_name(name: &str) -> bool {
    is_component_name(name) && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// What is placed. A signature for another name holds for nothing: it is left out, and whose it is said.
fn pair_of(fetched: &Fetched, name: &str) -> (Pair, Option<String>) {
    let component = fetched.bytes.clone();
    match &fetched.signature {
        Some((_, Some(other))) if other != name => (Pair { component, signature: None }, Some(other.clone())),
        signature => {
            let signature = signature.as_ref().map(|(signature, _)| signature.clone());
            (Pair { component, signature }, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use agent_core::words::{ComponentFacts, VersionSource, VersionStatus};

    use super::*;

    #[test]
    fn a_version_that_is_known_already_fails_where_it_does_not_serve_and_does_not_wait() {
        let approved = || VersionStatus::Approved { by: "policy".into(), at: 1 };
        let version = |digest: &str, status: VersionStatus| ComponentVersion {
            digest: digest.into(),
            source: VersionSource::Folder,
            proposed_at: 1,
            status,
            facts: ComponentFacts::default(),
        };
        let record = ComponentRecord {
            enabled: true,
            active: Some("new".into()),
            previous: vec!["old".into()],
            versions: vec![
                version("waits", VersionStatus::Waiting { because: vec![] }),
                version("new", approved()),
                version("tried", approved()),
                version("old", approved()),
            ],
            ..ComponentRecord::default()
        };
        let disabled = ComponentRecord { enabled: false, ..record.clone() };
        for (record, digest, exit, said) in [
            (&record, "new", Exit::Success, "nothing was changed: it serves"),
            (
                &record,
                "waits",
                Exit::Success,
                "it waits for an approval: agent-host tools approve echo --digest waits",
            ),
            (&record, "old", Exit::Failure, "agent-host tools rollback echo --digest old"),
            (&record, "tried", Exit::Failure, "agent-host tools promote echo --digest tried"),
            (&disabled, "new", Exit::Failure, "agent-host tools enable echo"),
        ] {
            let (text, ended) = known_already("echo", digest, record);
            assert!(text.ends_with(said) && ended == exit, "{digest}: {text}");
        }
    }

    #[test]
    fn a_name_is_no_path_and_no_hidden_file() {
        for good in ["calculator", "text-stats", "A1.b_c", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        let long = "x".repeat(65);
        for bad in
            ["", ".", "..", "../evil", "a/b", "/etc/passwd", ".hidden", "-rf", "a b", "ä", "a\0b", &long]
        {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_name_is_the_operators_and_not_the_registrys() {
        let named = |source: &str, name: Option<&str>| {
            let name = name.map(str::to_owned);
            name_of(&Arguments { source: source.into(), name, plain_http: false, tools_dir: None })
        };
        assert_eq!(named("oci://registry/tools/adder:1", None).unwrap(), "adder");
        assert_eq!(named("some/where/adder.wasm", None).unwrap(), "adder");
        assert_eq!(named("adder.wasm", Some("sum")).unwrap(), "sum");
        assert_eq!(named("adder", Some("sum")).unwrap(), "sum");
        for (source, name) in [("adder.wasm", Some("../sum")), ("..wasm", None), ("adder", Some(""))] {
            let error = named(source, name).unwrap_err().to_string();
            assert!(error.contains("cannot be the name") && error.contains("--name"), "{source}: {error}");
        }
        for source in ["adder", "/etc/passwd", "/", ".wasm", ""] {
            let error = named(source, None).unwrap_err().to_string();
            let expected = format!("{source} is no file of the name NAME.wasm");
            assert!(error.starts_with(&expected) && error.contains("--name"), "{source}: {error}");
        }
    }

    #[test]
    fn a_signature_for_another_name_is_left_out() {
        let fetched = |for_name: Option<&str>| Fetched {
            bytes: Bytes::from_static(b"x"),
            signature: Some((Bytes::from_static(b"s"), for_name.map(str::to_owned))),
            source: String::new(),
        };
        assert_eq!(pair_of(&fetched(Some("adder")), "sum").1.as_deref(), Some("adder"));
        assert_eq!(pair_of(&fetched(Some("adder")), "sum").0.signature, None);
        for known in [Some("sum"), None] {
            assert!(pair_of(&fetched(known), "sum").0.signature.is_some());
        }
    }
}
