//! `agent-tool publish`: a component, with its signature if it has one, to a registry.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use host_setup::component_file::{read_bounded, read_signature_beside, stem};
use host_setup::output::{json_line, print};
use host_setup::program::{Exit, install_tls};
use host_setup::settings::{ProcessEnv, Tools};
use serde_json::json;
use tokio::time::sleep;
use tool_host::MOST_COMPONENT_BYTES;
use tool_registry::{Client, Publication, Pushed, Reference};

use crate::sign;

/// What is quicker is not talked of.
const WORTH_A_WORD: Duration = Duration::from_secs(1);

/// What to publish, and where.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The component
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Where to: oci://registry/name or oci://registry/name:tag
    #[arg(value_name = "oci://…")]
    reference: String,
    /// Sign it with this key, for the last part of the reference as its name; without a key the signature
    /// that lies beside the file goes along
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Talk to the registry without TLS
    #[arg(long)]
    plain_http: bool,
}

pub(crate) async fn run(arguments: &Arguments, json: bool) -> anyhow::Result<Exit> {
    let config = Tools::from_vars(&ProcessEnv)?;
    let reference = Reference::parse_destination(&arguments.reference)?;
    let component = read_bounded(&arguments.file, MOST_COMPONENT_BYTES)
        .with_context(|| format!("reading {}", arguments.file.display()))?;
    let signed = signature(arguments, &reference, &component)?;
    install_tls();
    let client = Client::new(config.registry_options(arguments.plain_http))?;
    let signed_part = signed.as_ref().map(|signed| (&*signed.name, &*signed.signature));
    let publication = Publication { component, signed: signed_part };
    let pushed = pushed(&client, &reference, &publication).await?;
    if json {
        let signature = signed.as_ref().map(|Signed { name, by, .. }| json!({ "name": name, "signer": by }));
        print(&json_line(&json!({
            "reference": pushed.reference_pinned.to_string(), "component": pushed.component_digest.to_string(),
            "signature": signature,
        })))?;
        return Ok(Exit::Success);
    }
    print(&describe(&pushed, signed.as_ref(), &reference))?;
    Ok(Exit::Success)
}

fn describe(pushed: &Pushed, signed: Option<&Signed>, reference: &Reference) -> String {
    let mut text = format!(
        "published {}\n  component  {}\n  signature  ",
        pushed.reference_pinned, pushed.component_digest
    );
    match signed {
        None => text.push_str("none\n"),
        Some(Signed { name, by: Some(key), .. }) => text.push_str(&format!("{key}, for the name {name}\n")),
        Some(Signed { name, by: None, .. }) => {
            text.push_str(&format!("that beside the file, for the name {name}\n"));
        }
    }
    let other_name = signed.filter(|signed| signed.name != reference.last_part());
    if let Some(Signed { name, .. }) = other_name {
        text.push_str(&format!(
            "  mind       the signature holds where it is installed with --name {name}\n"
        ));
    }
    text
}

/// A signature, what name it is for, and the key that made it if that was now.
struct Signed {
    name: String,
    signature: Bytes,
    by: Option<String>,
}

fn signature(
    arguments: &Arguments,
    reference: &Reference,
    component: &[u8],
) -> anyhow::Result<Option<Signed>> {
    if let Some(file) = &arguments.key {
        let key = sign::read(file)?;
        let name = reference.last_part().to_owned();
        let signature = sign::signature(&key, &name, component).into();
        return Ok(Some(Signed { name, signature, by: Some(key.public().to_string()) }));
    }
    let Some(name) = stem(&arguments.file) else { return Ok(None) };
    let beside = read_signature_beside(&arguments.file)?;
    Ok(beside.map(|signature| Signed { name: name.to_owned(), signature, by: None }))
}

/// Pushes, and says so when it takes a while.
async fn pushed(
    client: &Client,
    reference: &Reference,
    publication: &Publication<'_>,
) -> Result<Pushed, tool_registry::Error> {
    let mut push = Box::pin(tool_registry::push(client, reference, publication));
    tokio::select! {
        pushed = &mut push => return pushed,
        () = sleep(WORTH_A_WORD) => {}
    }
    tell(&format!(
        "agent-tool: uploading {} bytes to {}\n",
        publication.component.len(),
        reference.registry()
    ));
    push.await
}

#[expect(clippy::print_stderr, reason = "whoever waits at a terminal is told for what")]
fn tell(text: &str) {
    eprint!("{text}");
}
