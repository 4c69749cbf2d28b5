//! Commands that are the author's: `agent-tool` has them. What runs compilers and package managers has no
//! place in the image of a server.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Those that `agent-host` and `agent-host tools` had once.
const MOVED: [&str; 10] =
    ["new", "build", "dev", "test", "check", "inspect", "key", "sign", "publish", "replay"];

/// Where a command went that is not known here, if it went anywhere.
pub(super) fn sentence(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    // Behind an option of the command it is told as a conflict with that.
    let is_of_subcommand = matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict);
    let is_moved = is_of_subcommand && MOVED.contains(&name.as_str());
    is_moved.then(|| {
        format!("`agent-tool {name}` does that: a program of its own, which packages install beside agent-host and images leave out")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Arguments;

    fn said(line: &str) -> Option<String> {
        sentence(&Arguments::try_parse_from(line.split(' ')).unwrap_err())
    }

    #[test]
    fn a_command_that_moved_says_where_it_went() {
        for name in MOVED {
            for line in ["tools NAME", "tool NAME", "tools NAME x --lang rust", "tools --json NAME --key k -"]
            {
                let line = format!("agent-host {}", line.replace("NAME", name));
                let sentence = said(&line).unwrap_or_else(|| panic!("{line}"));
                assert!(
                    sentence.starts_with(&format!("`agent-tool {name}` does that")),
                    "{line}: {sentence}"
                );
            }
        }
        assert!(said("agent-host replay run_1 --json").is_some());
        for line in ["agent-host tools bulid", "agent-host tools call", "agent-host --no-such replay"] {
            assert_eq!(said(line), None, "{line}");
        }
    }
}
