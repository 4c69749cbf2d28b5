//! New projects: a folder with a tool that builds, its tests, the SDK and the contract.

use std::fs;
use std::path::{Path, PathBuf};

use crate::languages::Language;
use crate::name;
use crate::templates::{self, Example, LOCK};
use crate::{Error, Result};

#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// Of the project, its folder and its component; the tool's has underscores for hyphens.
    pub name: &'a str,
    pub language: Language,
    /// What it does.
    pub example: Example,
}

/// What has to be done before a tool is called that wants grants.
const OF_POLICY: &str = "
The call needs what `policy.toml` grants: write into it the digest that the build prints, anew after each build, and the address
of a service that you may ask. `PARTS_KEY` is that service's key.
";

/// Writes a project into a new folder within `parent` and returns its path.
///
/// # Errors
/// When the name is not allowed, the folder is there, or it cannot be written; nothing stays of a folder that
/// was begun.
pub fn create(parent: &Path, new: New<'_>) -> Result<PathBuf> {
    name::check(new.name, new.language)?;
    let folder = parent.join(new.name);
    // Not `create_dir_all`: a folder, file or link of that name is refused, whoever made it a moment ago.
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Error::new(format!("there is a `{}` already", new.name))
            .at(&folder)
            .why("a new project never writes over what is there")
            .mend("take another name, or move away what is there"),
        _ => Error::file("making the folder", &folder, &error),
    })?;
    let written = write_all(&folder, new);
    if written.is_err() {
        let _ = fs::remove_dir_all(&folder);
    }
    written.map(|()| std::path::absolute(&folder).unwrap_or(folder))
}

fn write_all(folder: &Path, new: New<'_>) -> Result<()> {
    for (path, text) in templates::files(new.language, new.example) {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| Error::file("making the folder", parent, &error))?;
        // What is ours is copied as it is.
        let is_verbatim = std::ptr::eq(text, LOCK) || path.starts_with(folder.join("sdk"));
        let text = if is_verbatim { text.to_owned() } else { fill(text, new) };
        fs::write(&path, text).map_err(|error| Error::file("writing", &path, &error))?;
    }
    Ok(())
}

/// Puts the names into a template.
fn fill(text: &str, new: New<'_>) -> String {
    let (features, call) = match (new.language, new.example) {
        (Language::Rust, Example::Http) => (", features = [\"http\"]", r#"{"part": "A-100"}"#),
        (Language::JavaScript, Example::Http) => ("\"http\"", r#"{"part": "A-100"}"#),
        (Language::Python, Example::Http) => ("", r#"{"part": "A-100"}"#),
        (_, Example::Greeting) => ("", r#"{"name": "Ada"}"#),
    };
    let (grants, policy) = match new.example {
        Example::Http => (" TOOLS_POLICY=policy.toml PARTS_KEY=…", OF_POLICY),
        Example::Greeting => ("", ""),
    };
    text.replace("{{name}}", new.name)
        .replace("{{tool}}", &new.name.replace('-', "_"))
        .replace("{{features}}", features)
        .replace("{{call}}", call)
        .replace("{{grants}}", grants)
        .replace("{{policy}}", policy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Project;

    #[test]
    fn every_template_is_a_project_with_no_blanks_left() {
        let home = tempfile::tempdir().unwrap();
        for language in [Language::Rust, Language::Python, Language::JavaScript] {
            for example in [Example::Greeting, Example::Http] {
                let name = format!("part-{example:?}-{language}").to_lowercase();
                let folder = create(home.path(), New { name: &name, language, example }).unwrap();
                let project = Project::open(&folder).unwrap();
                assert_eq!((project.name, project.language), (name, language));
                for (path, _) in templates::files(language, example) {
                    let text = fs::read_to_string(folder.join(path)).unwrap();
                    assert!(path.starts_with("sdk/") || !text.contains("{{"), "{path}: {text}");
                }
                let cases = folder.join("cases.toml");
                assert!(
                    crate::files::read_toml(&cases).unwrap()["case"]
                        .as_array()
                        .is_some_and(|cases| cases.len() == 2)
                );
                assert!(crate::files::read_toml(&folder.join("policy.toml")).is_ok());
                let readme = fs::read_to_string(folder.join("README.md")).unwrap();
                assert!(readme.contains("TOOLS_DIR=component") && readme.ends_with(".\n"), "{readme}");
                assert_eq!(readme.contains("TOOLS_POLICY=policy.toml"), example == Example::Http, "{readme}");
            }
        }
    }

    #[test]
    fn what_is_there_is_never_written_over() {
        let home = tempfile::tempdir().unwrap();
        let new = New { name: "greeter", language: Language::Python, example: Example::Greeting };
        fs::write(home.path().join("greeter"), "mine").unwrap();
        let refusal = create(home.path(), new).unwrap_err().to_string();
        assert!(
            refusal.starts_with("there is a `greeter` already\n  where  ") && refusal.contains("\n  mend   "),
            "{refusal}"
        );
        assert_eq!(fs::read(home.path().join("greeter")).unwrap(), b"mine");
        let refusal = create(&home.path().join("nowhere"), new).unwrap_err().to_string();
        assert!(refusal.contains("making the folder failed"), "{refusal}");
    }
}
