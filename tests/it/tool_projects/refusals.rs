//! What goes wrong for authors, and what they are told to do about it.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{Desk, run};

/// What a command that fails says, without what differs from run to run.
fn refusal(desk: &Desk, command: &mut Command) -> String {
    let done = run(command);
    assert!(!done.succeeded && done.stdout.is_empty(), "{done:?}");
    let home = desk.home.path().to_str().unwrap();
    let is_step =
        |line: &&str| line.starts_with("agent-tool: ") && line.ends_with(" s") || line.ends_with(" so far");
    let lines: Vec<_> = done.stderr.lines().filter(|line| !is_step(line)).collect();
    lines.join("\n").replace(home, "[home]")
}

#[test]
fn a_name_that_cannot_be_is_refused_and_nothing_is_written() {
    let desk = Desk::new();
    for name in ["../evil", "Greeter", "con", ""] {
        let refusal = refusal(&desk, &mut desk.command(&["new", name, "--lang", "rust"]));
        assert!(refusal.contains("cannot be the name") && refusal.contains("\n  mend   take a"), "{refusal}");
    }
    assert_eq!(fs::read_dir(desk.path()).unwrap().count(), 0);
    assert_eq!(fs::read_dir(desk.home.path()).unwrap().count(), 1);
    desk.new_project("greeter", "python", "greeting");
    let again = refusal(&desk, &mut desk.command(&["new", "greeter", "--lang", "rust"]));
    insta::assert_snapshot!(again, @r"
    agent-tool: there is a `greeter` already
      where  [home]/tools of mine/greeter
      why    a new project never writes over what is there
      mend   take another name, or move away what is there
    ");
}

#[test]
fn folders_that_are_no_tools_are_told_apart() {
    let desk = Desk::new();
    let mut said = Vec::new();
    let mut build = |folder: &str| said.push(refusal(&desk, &mut desk.command(&["build", folder])));
    build("nowhere");
    let write = |file: &str, text: &str| {
        let file = desk.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    };
    write("empty/notes.txt", "");
    build("empty");
    write("library/Cargo.toml", "[package]\nname = \"library\"\n");
    build("library");
    write("rlib/Cargo.toml", "[package]\nname = \"rlib\"\n[lib]\ncrate-type = [\"rlib\"]\n");
    build("rlib");
    write("workspace/Cargo.toml", "[workspace]\nmembers = []\n");
    build("workspace");
    write("garbled/Cargo.toml", "[package\n");
    build("garbled");
    write("nameless/pyproject.toml", "[project]\n");
    build("nameless");
    write("climber/package.json", "{\"name\": \"../climber\"}");
    build("climber");
    write("website/package.json", "{\"name\": \"website\"}");
    build("website");
    insta::assert_snapshot!(said.join("\n\n"));
}

#[test]
fn a_toolchain_that_is_missing_is_named_with_how_to_get_it() {
    let desk = Desk::new();
    let nothing = desk.path().join("nothing");
    fs::create_dir(&nothing).unwrap();
    let mut said = Vec::new();
    for (name, language) in [("in-rust", "rust"), ("in-python", "python"), ("in-js", "js")] {
        desk.new_project(name, language, "greeting");
        said.push(refusal(&desk, desk.command(&["build", name]).env("PATH", &nothing)));
    }
    // Of these programs, but too old.
    for (program, version) in [("python3", "Python 3.8.2"), ("node", "v16.1.0")] {
        let script = nothing.join(program);
        fs::write(&script, format!("#!/bin/sh\necho {version}\n")).unwrap();
        make_executable(&script);
    }
    for name in ["in-python", "in-js"] {
        said.push(refusal(&desk, desk.command(&["build", name]).env("PATH", &nothing)));
    }
    insta::assert_snapshot!(said.join("\n\n"));
}

fn make_executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn without_a_network_and_without_a_cache_it_says_what_to_do() {
    let desk = Desk::new();
    let cache = desk.home.path().join("cache");
    // Nothing listens there.
    let registry = "http://127.0.0.1:9/";
    let mut said = Vec::new();
    for (name, language) in [("in-rust", "rust"), ("in-python", "python"), ("in-js", "js")] {
        let folder = desk.new_project(name, language, "greeting");
        if language == "js" {
            fs::remove_file(folder.join("node_modules")).unwrap();
        }
        let mut build = desk.command(&["build", name]);
        build
            .env("CARGO_HOME", &cache)
            .env("CARGO_NET_OFFLINE", "true")
            .env("PIP_INDEX_URL", registry)
            .env("PIP_NO_CACHE_DIR", "1")
            .env("npm_config_registry", registry)
            .env("npm_config_cache", &cache);
        let refusal = refusal(&desk, &mut build);
        let error = refusal.lines().skip_while(|line| {
            !line.starts_with("agent-tool: ")
                || line.starts_with("agent-tool: compiling")
                || line.contains(", once")
                || line.contains("virtual environment")
        });
        said.push(error.collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!(said.join("\n\n"));
}

#[test]
fn what_builds_is_installed_though_the_shell_is_that_of_a_service() {
    let desk = Desk::new();
    let folder = desk.new_project("in-js", "js", "greeting");
    let modules = folder.join("node_modules");
    let installed = fs::read_link(&modules).unwrap();
    fs::remove_file(&modules).unwrap();
    // As npm does under NODE_ENV=production: without the flag it leaves out what package.json has in
    // devDependencies.
    let programs = desk.home.path().join("programs");
    fs::create_dir(&programs).unwrap();
    let npm = programs.join("npm");
    let link = format!("ln -s '{}' node_modules", installed.display());
    fs::write(
        &npm,
        format!("#!/bin/sh\ncase \"$*\" in --version) echo 11 ;; *--include=dev*) {link} ;; esac\n"),
    )
    .unwrap();
    make_executable(&npm);
    #[expect(
        clippy::disallowed_methods,
        reason = "what the test was started with is looked for programs, too"
    )]
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    // The build ends at the source's first word, after what it imports was found.
    fs::write(folder.join("tools.js"), "const x = ;").unwrap();
    let mut build = desk.command(&["build", "in-js"]);
    let said = refusal(&desk, build.env("NODE_ENV", "production").env("PATH", path));
    assert!(said.contains("tools.js:1:10") && !said.contains("ERR_MODULE_NOT_FOUND"), "{said}");
}

#[test]
fn what_a_host_would_refuse_is_refused_before_the_slow_step() {
    let desk = Desk::new();
    let folder = desk.new_project("in-js", "js", "greeting");
    let source = folder.join("tools.js");
    let good = fs::read_to_string(&source).unwrap();
    let build = |text: &str| {
        fs::write(&source, text).unwrap();
        refusal(&desk, &mut desk.command(&["build", "in-js"]))
    };
    let said = build(&good.replace("name: 'in_js'", "name: 'In JS'"));
    assert!(said.contains("`In JS` cannot be a tool's name") && said.contains("\n  mend   "), "{said}");
    let said = build(&good.replace("'Writes a greeting", "' ' || '"));
    assert!(said.contains("`in_js` has no description"), "{said}");
    let said = build("export const nothing = 1;");
    assert!(said.contains("there is no tool: call `defineTool`"), "{said}");
    let said = build("import 'not-there';");
    assert!(said.contains("not-there") && said.contains("add the package that is missing"), "{said}");
    let said = build("const x = ;");
    assert!(said.contains("Unexpected \";\"") && said.contains("tools.js:1:10"), "{said}");
}
