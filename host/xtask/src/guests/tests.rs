//! What one tool asks of a library is not in another's component.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{crates, modules_of, new_build};

/// A workspace in which the tool `one` uses the crate `shared`, whose word depends on a feature.
fn write_workspace(workspace: &Path) {
    let manifest = "[workspace]\nresolver = \"3\"\nmembers = [\"[a-z]*\"]\n\
                    [profile.release]\nlto = true\ncodegen-units = 1\npanic = \"abort\"\nstrip = true\n";
    fs::write(workspace.join("Cargo.toml"), manifest).unwrap();
    let shared = "#![no_std]\npub static WORD: &[u8] = if cfg!(feature = \"loud\") { b\"LOUD\" } else { b\"quiet\" };\n";
    write_crate(workspace, "shared", "[features]\nloud = []\n", shared);
    write_tool(workspace, "one", "");
}

fn write_tool(workspace: &Path, name: &str, features: &str) {
    let rest = format!(
        "[lib]\ncrate-type = [\"cdylib\"]\n[dependencies]\nshared = {{ path = \"../shared\", features = [{features}] }}\n"
    );
    let code = "#[unsafe(no_mangle)]\npub extern \"C\" fn word() -> *const u8 { shared::WORD.as_ptr() }\n";
    write_crate(workspace, name, &rest, code);
}

fn write_crate(workspace: &Path, name: &str, rest: &str, code: &str) {
    let folder = workspace.join(name);
    fs::create_dir_all(folder.join("src")).unwrap();
    let manifest = format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}");
    fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.join("src/lib.rs"), code).unwrap();
}

#[test]
fn a_tool_has_the_same_bytes_whatever_its_neighbours_ask_of_what_they_share() {
    let home = tempfile::tempdir().unwrap();
    let workspace = home.path().canonicalize().unwrap();
    write_workspace(&workspace);
    let compiler = tool_build::languages::rust::find(
        None,
        tool_build::languages::rust::Install::Packages,
        &workspace,
        &super::Shown,
    )
    .unwrap();
    // Kept for the next time: with some compilers the standard library is in it.
    let target_folder = crate::repository().join("target/tmp/xtask-guests");
    let build = new_build(&workspace, &target_folder, &compiler);
    let bytes = || {
        let (tools, _) = crates::survey(&workspace).unwrap();
        let modules = tools.iter().flat_map(|tool| {
            let modules = modules_of(&build, tool).unwrap();
            modules.into_iter().map(|module| (module.name, fs::read(module.file).unwrap()))
        });
        modules.collect::<BTreeMap<_, _>>()
    };
    let holds = |module: &[u8], word: &[u8]| module.windows(word.len()).any(|window| window == word);

    let alone = bytes();
    assert!(alone.len() == 1 && holds(&alone["one"], b"quiet"));
    write_tool(&workspace, "two", "\"loud\"");
    let beside = bytes();
    assert!(holds(&beside["two"], b"LOUD"), "the feature makes a difference");
    assert_eq!(beside["one"], alone["one"]);
}
