//! A target under libFuzzer. Which one it is stands in the name of the program, `fuzz-<target>`, of which
//! `guided.rs` makes a link for each: libFuzzer takes every argument for its own.
#![no_main]
#![allow(unsafe_code, reason = "libFuzzer, which is C++, calls functions by their names")]

use std::path::Path;
use std::sync::OnceLock;

use fuzz::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<Option<&Target>> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let target = TARGET.get_or_init(|| {
        let program = std::env::args_os().next()?;
        let name = Path::new(&program).file_name()?.to_str()?.strip_prefix("fuzz-")?;
        TARGETS.iter().find(|target| target.name == name)
    });
    assert!(target.is_some(), "the program's name ends with a target's");
    if let Some(target) = target {
        (target.run)(input);
    }
});
