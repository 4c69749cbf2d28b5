//! The deployment's instructions: what the model is told before every conversation, from a file that is read
//! once.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use agent_core::agent_loop::most_catalog_tokens;
use agent_core::words::prompt_tokens;

use super::error::WireError;
use crate::config;

/// Most bytes of the file. All of it is sent with every model call.
const MOST_BYTES: u64 = 64 << 10;

/// The text of the file that `AGENT_INSTRUCTIONS` names, if it names one. A service without the instructions
/// that it is to have does not start.
pub(crate) fn read(config: &config::Agent) -> Result<Option<Arc<str>>, WireError> {
    let Some(path) = &config.instructions else { return Ok(None) };
    let text = read_file(path, config.token_budget);
    text.map(|text| Some(text.into()))
        .map_err(|problem| WireError::Instructions { path: path.clone(), problem })
}

fn read_file(path: &Path, token_budget: u64) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| format!("which cannot be read: {error}"))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(format!("which has more than {MOST_BYTES} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "which is not UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Err("which is empty".to_owned());
    }
    // As much as the largest catalog may take: beside more than that the first model call of every run would
    // be its last.
    let (tokens, most) = (prompt_tokens(text.len() as u64), most_catalog_tokens(token_budget));
    if tokens > most {
        return Err(format!(
            "which is about {tokens} tokens long: TOKEN_BUDGET_PER_REQUEST={token_budget} leaves room for {most}"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_or_it_is_said_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instructions.md");
        let read = |bytes: &[u8], budget| {
            fs::write(&path, bytes).unwrap();
            read_file(&path, budget)
        };
        assert_eq!(read("Sei höflich.\n".as_bytes(), 10_000), Ok("Sei höflich.\n".into()));
        for (bytes, budget, problem) in [
            (&b" \n"[..], 10_000, "which is empty"),
            (b"\xff", 10_000, "which is not UTF-8"),
            (&vec![b'x'; (64 << 10) + 1], 1_000_000, "which has more than 65536 bytes"),
            (
                &vec![b'x'; 9_000],
                3_000,
                "which is about 3000 tokens long: TOKEN_BUDGET_PER_REQUEST=3000 leaves room for 988",
            ),
        ] {
            assert_eq!(read(bytes, budget), Err(problem.to_owned()));
        }
        let missing = read_file(&folder.path().join("nowhere"), 10_000).unwrap_err();
        assert!(missing.starts_with("which cannot be read: "), "{missing}");
    }
}
