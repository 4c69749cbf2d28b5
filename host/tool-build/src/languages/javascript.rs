//! Tools in JavaScript or TypeScript: the packages that the project's package.json pins, and the project's
//! own build script, which bundles the sources with esbuild and calls componentize-js.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::component::Made;
use crate::files::read_manifest;
use crate::program::{Ended, Show, ask, run};
use crate::{Error, Progress, Result};

/// The oldest Node that runs what builds.
const OLDEST: u32 = 20;

/// What lies in `.build` for as long as npm installs.
const BEGUN: &str = "npm-install";

/// The script that builds, with the path of the component to write.
const SCRIPT: &str = "build.mjs";

pub(crate) fn build(folder: &Path, progress: &dyn Progress) -> Result<Made> {
    if !folder.join(SCRIPT).is_file() {
        return Err(Error::new("this package is not a tool's")
            .at(folder)
            .why(format!("it has no {SCRIPT}, which makes a component of it"))
            .mend("make a tool with `agent-tool new my-tool --lang js`, and take its build.mjs, agent-tool/ and wit/"));
    }
    find_node(folder)?;
    let made = folder.join(".build");
    fs::create_dir_all(&made).map_err(|error| Error::file("making the folder", &made, &error))?;
    install(folder, &made.join(BEGUN), progress)?;
    let output = made.join("component.wasm");
    let mut node = Command::new("node");
    node.arg(SCRIPT).arg(&output).current_dir(folder);
    let ended = run(&mut node, "making a component of it with componentize-js", Show::Nothing, progress)?;
    if !ended.succeeded {
        return Err(explain(&ended, folder));
    }
    let bytes = fs::read(&output);
    let bytes = bytes.map_err(|error| Error::file("reading what build.mjs wrote", &output, &error))?;
    Ok(Made { bytes, took: ended.took })
}

fn find_node(folder: &Path) -> Result<()> {
    let mend = "install Node 20 or newer with npm, on Debian: apt-get install nodejs npm";
    let version = ask("node", &["--version"], folder).ok_or_else(|| {
        Error::new("there is no `node` on the PATH")
            .at(folder)
            .why("a tool in JavaScript is built by it")
            .mend(mend)
    })?;
    let number =
        version.trim_start_matches('v').split('.').next().and_then(|number| number.parse::<u32>().ok());
    if number.is_none_or(|number| number < OLDEST) {
        return Err(Error::new(format!("node {version} is too old to build tools")).at(folder).mend(mend));
    }
    Ok(())
}

/// Has npm install what package.json names, unless the versions that it pins are there. `begun` is a file
/// that is there meanwhile.
fn install(folder: &Path, begun: &Path, progress: &dyn Progress) -> Result<()> {
    remove_half(&folder.join("node_modules"), begun)?;
    let read = |path: &Path| -> Result<Value> {
        Ok(read_manifest(path)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
    };
    let manifest = read(&folder.join("package.json"))?;
    let mut missing = Vec::new();
    for list in ["dependencies", "devDependencies"] {
        for (name, version) in manifest[list].as_object().into_iter().flatten() {
            let installed = read(&folder.join("node_modules").join(name).join("package.json"))?;
            let wanted = version.as_str().unwrap_or_default();
            let found = installed["version"].as_str();
            if found.is_none() || (is_pinned(wanted) && found != Some(wanted)) {
                missing.push(format!("{name}@{wanted}"));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let what = missing.join(", ");
    if ask("npm", &["--version"], folder).is_none() {
        return Err(Error::new("there is no `npm` on the PATH")
            .at(folder)
            .why(format!("it installs {what}"))
            .mend("install it, on Debian: apt-get install npm"));
    }
    let mut npm = Command::new("npm");
    // Under NODE_ENV=production, which the service's own shell may have, npm leaves out what builds.
    npm.args([
        "install",
        "--include=dev",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retries=1",
        "--prefer-offline",
    ]);
    fs::write(begun, "").map_err(|error| Error::file("writing", begun, &error))?;
    let step = format!("installing {what} into node_modules, once");
    let ended = run(npm.current_dir(folder), &step, Show::Nothing, progress)?;
    // Also behind a failure: npm takes back itself what it could not finish.
    fs::remove_file(begun).map_err(|error| Error::file("removing", begun, &error))?;
    if ended.succeeded {
        return Ok(());
    }
    let error = Error::new(format!("npm could not install {what}")).at(folder);
    Err(if ended.is_without_network() {
        error
            .why("they are not on this machine, and the package registry cannot be reached")
            .mend("connect this machine to the network once: what is installed stays in node_modules")
            .mend("copy node_modules from a machine of the same kind")
            .mend("name a registry that can be reached in npm's settings (npm_config_registry)")
    } else {
        error.why(ended.shown()).mend("mend the versions in package.json")
    })
}

/// Removes what an npm that was killed has left: packages that have their package.json and not all else,
/// which npm itself would take for installed.
fn remove_half(modules: &Path, begun: &Path) -> Result<()> {
    if !begun.is_file() {
        return Ok(());
    }
    match fs::remove_dir_all(modules) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::file("removing", modules, &error)),
        _ => fs::remove_file(begun).map_err(|error| Error::file("removing", begun, &error)),
    }
}

/// Whether that is one version, such as 1.2.3 or 1.2.3-next.1, and no range, such as 1.2 or ^1.2.3.
fn is_pinned(version: &str) -> bool {
    let numbers: Vec<_> = version.split(['-', '+']).next().unwrap_or_default().split('.').collect();
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.len() == 3 && numbers.iter().all(is_number)
}

fn explain(ended: &Ended, folder: &Path) -> Error {
    let error = Error::new("the component could not be made").at(folder).why(ended.shown());
    if ended.says(&["Cannot find module", "Cannot find package", "Could not resolve"]) {
        return error.mend("add the package that is missing to package.json, or mend the path of the import");
    }
    error.mend("mend what is named above; `npm test` runs the tools natively, without a build")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{is_pinned, remove_half};

    #[test]
    fn what_a_killed_npm_left_is_removed_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let (modules, begun) = (home.path().join("node_modules"), home.path().join("begun"));
        fs::create_dir_all(modules.join("esbuild")).unwrap();
        remove_half(&modules, &begun).unwrap();
        assert!(modules.is_dir(), "npm has ended");
        for _ in 0..2 {
            fs::write(&begun, "").unwrap();
            remove_half(&modules, &begun).unwrap();
            assert!(!modules.exists() && !begun.exists());
        }
    }

    /// A range counts as installed with any version: npm would else be asked again at every build.
    #[test]
    fn versions_are_told_from_ranges() {
        assert!(["0.28.2", "1.0.0-next.1", "1.0.0+build"].into_iter().all(is_pinned));
        let ranges = ["0.28", "1", "1.x", "1.2.x", "^1.2.3", "1.0.0 - 2.0.0", "latest", "", "file:../a"];
        assert!(!ranges.into_iter().any(is_pinned));
    }
}
