//! What commands print.

use std::io::{self, Write as _};

use agent_core::terminal_text::{shown, shown_json};
use anyhow::Context as _;
use clap::Command;
use clap_complete::Shell;
use tool_host::ToolListing;

/// Most characters of a line of a component's text.
const MOST_SHOWN: usize = 10_000;

/// Writes a text to the standard output. A reader that has seen enough, such as `head`, is no fault.
pub fn print(text: &str) -> io::Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// A value as a line, for programs, and for people who read it in a terminal: texts of strangers in it cannot
/// steer that.
pub fn json_line(value: &serde_json::Value) -> String {
    shown_json(&value.to_string()) + "\n"
}

/// A value as JSON of several lines; the same.
pub fn json_text(value: &impl serde::Serialize) -> serde_json::Result<String> {
    let json = serde_json::to_string_pretty(value)?;
    Ok(json.lines().map(|line| shown_json(line) + "\n").collect())
}

/// A text that a component or a model wrote, without what could play with the terminal of whoever looks at
/// it.
pub fn plain(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(|line| shown(line, MOST_SHOWN)).collect();
    lines.join("\n")
}

/// A tool as people read it.
pub fn describe_tool(tool: &ToolListing) -> String {
    let hints: Vec<_> = tool.hints.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let hints = if hints.is_empty() { String::new() } else { format!("  hints      {}\n", hints.join(" ")) };
    let hints = plain(&hints);
    let description = plain(tool.description.trim()).replace('\n', "\n             ");
    format!(
        "{}\n  component  {}@{}\n{hints}  what       {description}\n  arguments  {}\n",
        tool.tool,
        tool.component,
        tool.digest,
        shown_json(&tool.input_schema.to_string())
    )
}

/// The script that completes a program's commands and options in a shell.
pub fn completions(mut command: Command, shell: Shell) -> anyhow::Result<String> {
    let (mut script, name) = (Vec::new(), command.get_name().to_owned());
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8(script).context("the script is no text")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn json_steers_no_terminal_and_keeps_its_value() {
        let value = json!({"name": "a\u{9b}31m", "texts": ["\u{202e}\u{2028}x", "two\nlines"]});
        for text in [json_line(&value), json_text(&value).unwrap()] {
            assert!(text.ends_with("}\n") && text.replace('\n', "").is_ascii(), "{text}");
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        }
        assert_eq!(json_line(&value).lines().count(), 1);
    }
}
