//! Servers of the Model Context Protocol whose tools are served.

use tool_host::testing;

use super::parts;

/// A line is a message, until the answer is among them.
pub(crate) fn messages(input: &[u8]) {
    testing::take_in_messages(input.split(|byte| *byte == b'\n'));
}

/// A line is a tool of a list.
pub(crate) fn tool_list(input: &[u8]) {
    let [allowed, listed] = parts(input).map(String::from_utf8_lossy);
    let listed: Vec<_> = listed.lines().map(str::to_owned).collect();
    testing::list_tools(&listed, allowed.lines());
}

/// What a child process writes.
pub(crate) fn child_output(input: &[u8]) {
    testing::read_output(input);
}
