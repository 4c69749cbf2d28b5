//! The command that makes a call again, for a shell.

use agent_core::terminal_text::shown_json;
use serde_json::{Map, Value};

/// Longest arguments that are written into a command; longer ones belong into a file.
pub const MOST_BYTES: usize = 2 << 10;

/// `agent-host tool run …` for a component in a folder.
pub fn to_call_again(folder: &str, tool: &str, arguments: &Map<String, Value>) -> String {
    let arguments = shown_json(&Value::Object(arguments.clone()).to_string());
    format!("TOOLS_DIR={} agent-host tool run {} {}", word(folder), word(tool), word(&arguments))
}

/// [`to_call_again`] with the arguments in a file.
pub fn to_call_again_from(folder: &str, tool: &str, file: &str) -> String {
    format!("TOOLS_DIR={} agent-host tool run {} - < {}", word(folder), word(tool), word(file))
}

/// A word that a shell takes as it is.
fn word(text: &str) -> String {
    let is_plain =
        |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-' | '.' | '/' | ':' | '=' | '@');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_shell_would_read_is_quoted() {
        let arguments = json!({"text": "it's $HOME"});
        insta::assert_snapshot!(to_call_again("/srv/my tools", "shout", arguments.as_object().unwrap()),
            @r#"TOOLS_DIR='/srv/my tools' agent-host tool run shout '{"text":"it'\''s $HOME"}'"#);
        let steering = json!({"text": "\u{202e}\u{9b}31m"});
        insta::assert_snapshot!(to_call_again("tools", "shout", steering.as_object().unwrap()),
            @r#"TOOLS_DIR=tools agent-host tool run shout '{"text":"\u202e\u009b31m"}'"#);
        insta::assert_snapshot!(to_call_again_from("tools", "shout", "/tmp/a.json"),
            @"TOOLS_DIR=tools agent-host tool run shout - < /tmp/a.json");
    }
}
