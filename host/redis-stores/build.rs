//! Lays out BullMQ's scripts, as they stand in the crate `bullmq-official` that Cargo.lock names, for
//! `src/bullmq/official_scripts.rs` to include. That crate keeps them to itself, and what it offers around
//! them does not do for us: see there.
#![allow(clippy::disallowed_methods, reason = "cargo tells a build script everything by its environment")]

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The number in a name is how many keys a script takes: one that takes others has another name.
const SCRIPTS: [&str; 12] = [
    "addStandardJob-9.lua",
    "changeDelay-4.lua",
    "extendLocks-1.lua",
    "moveJobFromActiveToWait-9.lua",
    "moveToActive-11.lua",
    "moveToDelayed-11.lua",
    "moveToFinished-14.lua",
    "promote-9.lua",
    "removeJob-2.lua",
    "reprocessJob-9.lua",
    "retryJob-11.lua",
    "updateJobScheduler-12.lua",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let from = find_crate()?.join("src/commands");
    let to = PathBuf::from(env::var("OUT_DIR")?);
    for script in SCRIPTS {
        let text = fs::read(from.join(script)).map_err(|error| format!("BullMQ's {script}: {error}"))?;
        fs::write(to.join(script), text)?;
    }
    Ok(())
}

/// Where cargo keeps the source of the crate.
fn find_crate() -> Result<PathBuf, Box<dyn Error>> {
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &env::var("TARGET")?])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo names no packages")?;
    let found = packages.iter().find(|package| package["name"] == "bullmq-official");
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    Ok(folder.ok_or("cargo does not know the crate bullmq-official")?.to_owned())
}
