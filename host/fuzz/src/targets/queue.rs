//! Jobs as BullMQ's hashes have them, which Node and others write.

use backends::testing;

/// A line is a field, `name=value`; `state` and `stacktrace` are among them.
pub(crate) fn job_hash(input: &[u8]) {
    let lines = input.split(|byte| *byte == b'\n');
    let field = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b'=')?;
        let name = String::from_utf8_lossy(line.get(..at)?).into_owned();
        Some((name, line.get(at + 1..)?.to_vec()))
    };
    testing::read_job(lines.filter_map(field).collect());
}
