//! The corpora are small, and each entry is read as it was written.

use std::collections::BTreeSet;
use std::fs;

use fuzz::{TARGETS, corpus};

/// Most bytes of all files.
const MOST_BYTES: u64 = 200 << 10;

#[test]
fn each_target_has_a_file_and_all_are_small() {
    let folder = corpus::file("x").parent().unwrap().to_owned();
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let (names, bytes): (BTreeSet<_>, Vec<_>) =
        files.map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len())).unzip();
    let expected: BTreeSet<_> = TARGETS.iter().map(|target| format!("{}.txt", target.name)).collect();
    assert_eq!(names, expected);
    assert!(bytes.iter().sum::<u64>() <= MOST_BYTES, "{bytes:?}");
}

#[test]
fn entries_are_texts_and_bytes() {
    let text = "---- text\n{\"a\": 1}\n\n---- hex\n00 61\n73ff\n---- text\n\n";
    let expected = [&b"{\"a\": 1}\n"[..], b"\0as\xff", b""];
    assert_eq!(corpus::parse(text).unwrap(), expected);
    assert!(corpus::parse("a\n").is_err() && corpus::parse("---- hex\n0\n").is_err());
    let written: String = expected.iter().map(|entry| corpus::written(entry)).collect();
    assert_eq!(corpus::parse(&written).unwrap(), expected);
    for target in &TARGETS {
        assert!(!corpus::read(target.name).unwrap().is_empty(), "{}", target.name);
    }
}
