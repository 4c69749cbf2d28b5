//! Tools in Python: a virtual environment within the project, componentize-py in it, and the component that
//! it makes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::component::Made;
use crate::files::read_toml;
use crate::program::{Ended, Show, ask, run};
use crate::{Error, Progress, Result};

/// What makes components of Python; another one can be named in pyproject.toml, `[tool.agent-host]`.
pub(crate) const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// The oldest Python that it runs with.
const OLDEST: (u32, u32) = (3, 10);

/// The virtual environment, and the list of what was installed into it.
const ENVIRONMENT: &str = ".venv";
const INSTALLED: &str = "agent-host.txt";

/// What is run before the slow step: it imports the tools as a host would, and says what a host would refuse.
const CHECK: [&str; 3] = ["-B", "-m", SDK];
const SDK: &str = "agent_tool";

/// Runs componentize-py by the environment's own interpreter, whose path may have spaces or have changed.
const RUN_COMPONENTIZE: &str =
    "import sys; sys.argv[0] = 'componentize-py'; from componentize_py import script; sys.exit(script())";

pub(crate) fn build(folder: &Path, progress: &dyn Progress) -> Result<Made> {
    let wanted = read_requirements(folder)?;
    let python = environment(folder, progress)?;
    install(folder, &python, &wanted, progress)?;
    // Without the SDK the world has functions of its own, and there is nothing to ask.
    if folder.join(SDK).is_dir() {
        check(folder, &python, progress)?;
    }
    let made = folder.join(".build");
    fs::create_dir_all(&made).map_err(|error| Error::file("making the folder", &made, &error))?;
    let output = made.join("component.wasm");
    let mut componentize = Command::new(&python);
    componentize
        .args([
            "-B",
            "-c",
            RUN_COMPONENTIZE,
            "-d",
            "wit",
            "-w",
            "guest",
            "componentize",
            "app",
            "-p",
            ".",
            "-o",
        ])
        .arg(&output)
        .current_dir(folder);
    let ended =
        run(&mut componentize, "making a component of it with componentize-py", Show::Nothing, progress)?;
    if !ended.succeeded {
        return Err(explain(&ended, folder));
    }
    let bytes = fs::read(&output);
    let bytes = bytes.map_err(|error| Error::file("reading what componentize-py wrote", &output, &error))?;
    Ok(Made { bytes, took: ended.took })
}

fn check(folder: &Path, python: &Path, progress: &dyn Progress) -> Result<()> {
    let mut check = Command::new(python);
    let checked = run(check.args(CHECK).current_dir(folder), "checking the tools", Show::Nothing, progress)?;
    if checked.succeeded {
        return Ok(());
    }
    Err(Error::new("the tools cannot be loaded").at(&folder.join("tools.py")).why(checked.shown()).mend(
        "mend what the last lines name; `.venv/bin/python -m agent_tool` says it again, without a build",
    ))
}

/// What has to be installed: the toolchain, and what the project depends on.
fn read_requirements(folder: &Path) -> Result<Vec<String>> {
    let manifest = read_toml(&folder.join("pyproject.toml"))?;
    let strings = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let mut wanted = strings(&manifest["tool"]["agent-host"]["build"]);
    if wanted.is_empty() {
        wanted.push(COMPONENTIZE.to_owned());
    }
    wanted.extend(strings(&manifest["project"]["dependencies"]));
    match wanted.iter().find(|requirement| requirement.starts_with('-')) {
        Some(option) => Err(Error::new(format!("`{option}` is no package"))
            .at(&folder.join("pyproject.toml"))
            .mend("name packages there, such as \"python-dateutil==2.9.0\"")),
        None => Ok(wanted),
    }
}

/// The interpreter of the project's virtual environment, which is made if it is missing.
fn environment(folder: &Path, progress: &dyn Progress) -> Result<PathBuf> {
    let python = folder.join(ENVIRONMENT).join("bin/python3");
    if is_whole(folder, &python) {
        return Ok(python);
    }
    let install = "install Python 3.10 or newer, on Debian: apt-get install python3 python3-venv";
    let version = ask("python3", &["--version"], folder).ok_or_else(|| {
        Error::new("there is no `python3` on the PATH")
            .at(folder)
            .why("a tool in Python is built by it")
            .mend(install)
    })?;
    if read_version(&version).is_none_or(|found| found < OLDEST) {
        return Err(Error::new(format!("{version} is too old to build tools")).at(folder).mend(install));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv", "--clear", ENVIRONMENT]).current_dir(folder);
    let ended = run(&mut venv, "making the virtual environment .venv", Show::Nothing, progress)?;
    if ended.succeeded {
        return Ok(python);
    }
    Err(Error::new("the virtual environment .venv cannot be made")
        .at(folder)
        .why(ended.shown())
        .mend("install what makes them, on Debian: apt-get install python3-venv"))
}

/// Whether the environment can be used. Making one that was interrupted, or for which Debian lacks a package,
/// leaves an interpreter without pip.
fn is_whole(folder: &Path, python: &Path) -> bool {
    let answers = |arguments: &[&str]| ask(python, arguments, folder).is_some();
    let was_installed_into = folder.join(ENVIRONMENT).join(INSTALLED).is_file();
    answers(&["--version"]) && (was_installed_into || answers(&["-m", "pip", "--version"]))
}

/// `(3, 11)` of `Python 3.11.7`.
fn read_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(' ').nth(1)?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Installs what is wanted, unless that is what was installed last.
fn install(folder: &Path, python: &Path, wanted: &[String], progress: &dyn Progress) -> Result<()> {
    let list = folder.join(ENVIRONMENT).join(INSTALLED);
    let wanted_list = wanted.join("\n");
    if fs::read_to_string(&list).is_ok_and(|installed| installed == wanted_list) {
        return Ok(());
    }
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--"])
        .args(wanted)
        .current_dir(folder);
    let step = format!("installing {} into .venv, once", wanted.join(", "));
    let ended = run(&mut pip, &step, Show::Nothing, progress)?;
    if ended.succeeded {
        return fs::write(&list, wanted_list).map_err(|error| Error::file("writing", &list, &error));
    }
    let error = Error::new(format!("pip could not install {}", wanted.join(", "))).at(folder);
    Err(if ended.is_without_network() {
        error
            .why("they are not on this machine, and the package index cannot be reached")
            .mend("connect this machine to the network once: what is installed stays in .venv")
            .mend("copy .venv from the same folder of a machine with the same Python")
            .mend("name an index that can be reached in pip's settings (PIP_INDEX_URL)")
    } else {
        error
            .why(ended.shown())
            .mend("mend the versions in pyproject.toml: [tool.agent-host] build and [project] dependencies")
    })
}

fn explain(ended: &Ended, folder: &Path) -> Error {
    let error = Error::new("componentize-py could not make a component").at(folder).why(ended.shown());
    if ended.says(&["ModuleNotFoundError", "ImportError", "No module named"]) {
        return error.mend(
            "what the tools import has to be in the folder, in Python's standard library, or in [project] dependencies, and in \
             pure Python: there are no sockets, threads or processes in a sandbox",
        );
    }
    if ended.says(&["failed to parse package", "expected `", "world"]) {
        return error.mend("mend wit/world.wit: its world `guest` exports agent:tool/tool@0.1.1");
    }
    error.mend("mend what the last lines name: code at the top of a module runs when the component is made")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_environment_without_pip_is_half_of_one() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        fs::create_dir(folder.join(ENVIRONMENT)).unwrap();
        let python = folder.join(ENVIRONMENT).join("python3");
        assert!(!is_whole(folder, &python), "there is none");
        // Such a package has a version and no module that could be run.
        symlink("/bin/cat", &python).unwrap();
        assert!(!is_whole(folder, &python));
        fs::write(folder.join(ENVIRONMENT).join(INSTALLED), "").unwrap();
        assert!(is_whole(folder, &python), "pip has done what there was to do");
        fs::remove_file(folder.join(ENVIRONMENT).join(INSTALLED)).unwrap();
        fs::remove_file(&python).unwrap();
        symlink("/bin/true", &python).unwrap();
        assert!(is_whole(folder, &python));
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(
            read_version("Python 3.11.7") > Some(OLDEST) && read_version("Python 3.10.0") == Some(OLDEST)
        );
        assert!(read_version("Python 3.9.2") < Some(OLDEST) && read_version("Python x") < Some(OLDEST));
    }
}
