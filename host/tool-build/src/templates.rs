//! The files of new projects. They lie in `templates/`; the SDK and the contract are those of this
//! repository.

use crate::languages::Language;

/// What the new tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Example {
    /// A tool that greets: nothing has to be granted.
    Greeting,
    /// The tool asks an HTTP service that wants a key, under a policy.
    Http,
}

/// A file of a new project: its path and its text.
pub(crate) type File = (&'static str, &'static str);

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../templates/", $path))
    };
}

macro_rules! sdk {
    ($($file:literal),* $(,)?) => {
        &[$((concat!("sdk/src/", $file), include_str!(concat!("../../../guest-tools/sdk/src/", $file)))),*]
    };
}

/// The SDK for Rust, whole. A test holds this list against the folder.
pub(crate) const SDK: &[File] = sdk![
    "ask.rs",
    "bindings.rs",
    "clock.rs",
    "component.rs",
    "config.rs",
    "context.rs",
    "describe.rs",
    "export.rs",
    "failure.rs",
    "http/double.rs",
    "http/json.rs",
    "http/mod.rs",
    "http/response.rs",
    "http/wasi.rs",
    "key_value.rs",
    "lib.rs",
    "log.rs",
    "progress.rs",
    "secrets.rs",
    "toolbox.rs",
];

/// The contract.
pub(crate) const CONTRACT: &str = include_str!("../../../wit/tool.wit");

/// What it has since 0.1.2.
pub(crate) const ASK: &str = include_str!("../../../wit/ask/ask.wit");

/// The versions of libraries that our own tools are built with. cargo takes what a project needs of them.
pub(crate) const LOCK: &str = include_str!("../../../guest-tools/Cargo.lock");

/// The files of a project, before the names are put in.
pub(crate) fn files(language: Language, example: Example) -> Vec<File> {
    let mut files: Vec<File> = match example {
        Example::Greeting => vec![
            ("cases.toml", template!("shared/cases.toml")),
            ("policy.toml", template!("shared/policy.toml")),
        ],
        Example::Http => vec![
            ("cases.toml", template!("shared/http_cases.toml")),
            ("policy.toml", template!("shared/http_policy.toml")),
        ],
    };
    files.extend(match language {
        Language::Rust => RUST,
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
    });
    if language == Language::Rust {
        files.extend(SDK);
    } else {
        files.extend([("wit/deps/tool.wit", CONTRACT), ("wit/deps/ask.wit", ASK)]);
    }
    files.extend(match (language, example) {
        (Language::Rust, Example::Greeting) => vec![("src/lib.rs", template!("rust/lib.rs"))],
        (Language::Rust, Example::Http) => vec![("src/lib.rs", template!("rust/http_lib.rs"))],
        (Language::Python, Example::Greeting) => vec![
            ("tools.py", template!("python/tools.py")),
            ("test_tools.py", template!("python/test_tools.py")),
            ("wit/world.wit", template!("python/world.wit")),
        ],
        (Language::Python, Example::Http) => vec![
            ("tools.py", template!("python/http_tools.py")),
            ("test_tools.py", template!("python/http_test_tools.py")),
            ("wit/world.wit", template!("python/http_world.wit")),
        ],
        (Language::JavaScript, Example::Greeting) => vec![
            ("tools.js", template!("js/tools.js")),
            ("tools.test.js", template!("js/tools.test.js")),
            ("wit/world.wit", template!("js/world.wit")),
        ],
        (Language::JavaScript, Example::Http) => vec![
            ("tools.js", template!("js/http_tools.js")),
            ("tools.test.js", template!("js/http_tools.test.js")),
            ("wit/world.wit", template!("js/http_world.wit")),
        ],
    });
    files
}

const RUST: &[File] = &[
    (".gitignore", template!("rust/gitignore")),
    ("Cargo.toml", template!("rust/Cargo.toml")),
    ("Cargo.lock", LOCK),
    ("README.md", template!("shared/README.rust.md")),
    ("sdk/Cargo.toml", template!("rust/sdk.Cargo.toml")),
    ("sdk/wit/tool.wit", CONTRACT),
    ("sdk/wit/ask/ask.wit", ASK),
];

const PYTHON: &[File] = &[
    (".gitignore", template!("python/gitignore")),
    ("README.md", template!("shared/README.python.md")),
    ("pyproject.toml", template!("python/pyproject.toml")),
    ("app.py", template!("python/app.py")),
    ("agent_tool/__init__.py", template!("python/agent_tool/__init__.py")),
    ("agent_tool/__main__.py", template!("python/agent_tool/__main__.py")),
    ("agent_tool/ask.py", template!("python/agent_tool/ask.py")),
    ("agent_tool/clock.py", template!("python/agent_tool/clock.py")),
    ("agent_tool/component.py", template!("python/agent_tool/component.py")),
    ("agent_tool/config.py", template!("python/agent_tool/config.py")),
    ("agent_tool/context.py", template!("python/agent_tool/context.py")),
    ("agent_tool/failure.py", template!("python/agent_tool/failure.py")),
    ("agent_tool/host.py", template!("python/agent_tool/host.py")),
    ("agent_tool/http.py", template!("python/agent_tool/http.py")),
    ("agent_tool/key_value.py", template!("python/agent_tool/key_value.py")),
    ("agent_tool/log.py", template!("python/agent_tool/log.py")),
    ("agent_tool/progress.py", template!("python/agent_tool/progress.py")),
    ("agent_tool/secrets.py", template!("python/agent_tool/secrets.py")),
    ("agent_tool/tools.py", template!("python/agent_tool/tools.py")),
    ("wit/deps/wasi-clocks.wit", template!("wit/wasi-clocks.wit")),
    ("wit/deps/wasi-http.wit", template!("wit/wasi-http.wit")),
    ("wit/deps/wasi-io.wit", template!("wit/wasi-io.wit")),
];

const JAVASCRIPT: &[File] = &[
    (".gitignore", template!("js/gitignore")),
    ("README.md", template!("shared/README.js.md")),
    ("package.json", template!("js/package.json")),
    ("build.mjs", template!("js/build.mjs")),
    ("agent-tool/ask.js", template!("js/agent-tool/ask.js")),
    ("agent-tool/check.mjs", template!("js/agent-tool/check.mjs")),
    ("agent-tool/failure.js", template!("js/agent-tool/failure.js")),
    ("agent-tool/http.js", template!("js/agent-tool/http.js")),
    ("agent-tool/index.js", template!("js/agent-tool/index.js")),
    ("agent-tool/key-value.js", template!("js/agent-tool/key-value.js")),
    ("agent-tool/log.js", template!("js/agent-tool/log.js")),
    ("agent-tool/native.mjs", template!("js/agent-tool/native.mjs")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::files::read_toml;

    /// The files below a folder, but for those whose name begins with one of the given words.
    fn list(folder: &Path, inside: &str, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = format!("{inside}{}", entry.file_name().into_string().unwrap());
            if entry.path().is_dir() {
                list(&entry.path(), &format!("{name}/"), found);
            } else {
                found.insert(name);
            }
        }
    }

    fn repository() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    #[test]
    fn the_sdk_is_whole() {
        let mut there = BTreeSet::new();
        list(&repository().join("guest-tools/sdk/src"), "sdk/src/", &mut there);
        let embedded: BTreeSet<_> = SDK.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, there);
        let mut there = BTreeSet::new();
        let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        for folder in ["python/agent_tool", "js/agent-tool"] {
            let name = folder.split('/').next_back().unwrap();
            list(&templates.join(folder), &format!("{name}/"), &mut there);
        }
        there.retain(|path| !path.contains("__pycache__"));
        let embedded = PYTHON.iter().chain(JAVASCRIPT).map(|(path, _)| (*path).to_owned());
        let embedded: BTreeSet<_> = embedded.filter(|path| path.starts_with("agent")).collect();
        assert_eq!(embedded, there);
    }

    #[test]
    fn there_is_one_contract_and_its_copies_equal_it() {
        let copy = fs::read_to_string(repository().join("guest-tools/sdk/wit/tool.wit")).unwrap();
        assert!(
            copy == CONTRACT,
            "guest-tools/sdk/wit/tool.wit differs: cp wit/tool.wit guest-tools/sdk/wit/"
        );
        let copy = fs::read_to_string(repository().join("guest-tools/sdk/wit/ask/ask.wit")).unwrap();
        assert!(
            copy == ASK,
            "guest-tools/sdk/wit/ask/ask.wit differs: cp wit/ask/ask.wit guest-tools/sdk/wit/ask/"
        );
    }

    #[test]
    fn the_sdk_outside_depends_on_what_it_depends_on_inside() {
        let workspace = read_toml(&repository().join("guest-tools/Cargo.toml")).unwrap();
        let inside = read_toml(&repository().join("guest-tools/sdk/Cargo.toml")).unwrap();
        let outside =
            read_toml(&Path::new(env!("CARGO_MANIFEST_DIR")).join("templates/rust/sdk.Cargo.toml")).unwrap();
        let names = |manifest: &serde_json::Value| -> Vec<String> {
            manifest["dependencies"].as_object().unwrap().keys().cloned().collect()
        };
        assert_eq!(names(&outside), names(&inside));
        for name in names(&outside) {
            let (theirs, ours) =
                (&outside["dependencies"][&name], &workspace["workspace"]["dependencies"][&name]);
            assert_eq!(
                (&theirs["version"], &theirs["features"]),
                (&ours["version"], &ours["features"]),
                "{name}"
            );
        }
        assert_eq!(outside["features"], inside["features"]);
        assert_eq!(outside["package"]["rust-version"], workspace["workspace"]["package"]["rust-version"]);
    }
}
