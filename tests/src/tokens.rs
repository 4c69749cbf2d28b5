//! What a text costs, as language models count it: tokens of a public tokenizer (`peers/tokens.mjs`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::peer::{folder, search_path};

/// The tokens of each text, by the name of the vocabulary they are of. All texts are counted at once: reading
/// the vocabularies takes more than a second.
pub fn count_tokens(texts: &[String]) -> Vec<BTreeMap<String, usize>> {
    let folder = folder("js-tiktoken");
    let mut counter = Command::new("node")
        .arg(folder.join("tokens.mjs"))
        .env_clear()
        .env("PATH", search_path())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("node can be started");
    counter
        .stdin
        .take()
        .expect("a pipe")
        .write_all(json!(texts).to_string().as_bytes())
        .expect("the counter reads all of it");
    let output = counter.wait_with_output().expect("the counter ends");
    assert!(output.status.success(), "tokens.mjs failed");
    serde_json::from_slice(&output.stdout).expect("counts by vocabulary")
}
