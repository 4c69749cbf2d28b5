//! Documentation of typed components: the doc comments of a project's WIT become the custom section
//! `package-docs` of its component, in the form in which WIT tools write it. Linkers leave it out, and hosts
//! describe tools by it.

use std::path::Path;

use wasmparser::{Parser, Payload};
use wit_parser::{PackageMetadata, Resolve};

use crate::Progress;

/// The folder of a project's WIT.
const FOLDER: &str = "wit";

/// The longest section that hosts read.
const MOST_BYTES: usize = 256 << 10;

/// Adds the section to a component with functions of its own. One that has it stays as it is, and so does one
/// of a project without WIT, or with WIT that says nothing. A component is never refused for its
/// documentation.
pub(crate) fn add(mut component: Vec<u8>, project: &Path, progress: &dyn Progress) -> Vec<u8> {
    let folder = project.join(FOLDER);
    if !folder.is_dir() || has_section(&component) {
        return component;
    }
    match read(&folder) {
        Ok(section) if section.len() > MOST_BYTES => progress.step(&format!(
            "the documentation in wit/ has {} bytes and hosts read {MOST_BYTES}: it is left out, shorten it",
            section.len()
        )),
        Ok(section) => append(&mut component, &section),
        Err(error) => {
            progress.step(&format!("the documentation in wit/ cannot be read and is left out: {error}"))
        }
    }
    component
}

fn read(folder: &Path) -> Result<Vec<u8>, String> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(folder).map_err(|error| error.to_string())?;
    PackageMetadata::extract(&resolve, package).encode().map_err(|error| error.to_string())
}

/// Tells if the outermost component has documentation.
fn has_section(component: &[u8]) -> bool {
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(component).filter_map(Result::ok) {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section)
                if depth == 0 && section.name() == PackageMetadata::SECTION_NAME =>
            {
                return true;
            }
            _ => {}
        }
    }
    false
}

/// A custom section: 0, its length, the name with its length, the content.
fn append(component: &mut Vec<u8>, content: &[u8]) {
    let name = PackageMetadata::SECTION_NAME.as_bytes();
    let mut section = Vec::with_capacity(content.len() + name.len() + 1);
    write_length(&mut section, name.len());
    section.extend_from_slice(name);
    section.extend_from_slice(content);
    component.push(0);
    write_length(component, section.len());
    component.extend_from_slice(&section);
}

/// In LEB128.
fn write_length(bytes: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;

    use super::*;

    #[derive(Default)]
    struct ReportedSteps(RefCell<Vec<String>>);

    impl Progress for ReportedSteps {
        fn step(&self, text: &str) {
            self.0.borrow_mut().push(text.to_owned());
        }
    }

    /// A component without anything.
    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn built_with(wit: &str) -> (Vec<u8>, Vec<String>) {
        let project = tempfile::tempdir().unwrap();
        fs::create_dir_all(project.path().join("wit")).unwrap();
        fs::write(project.path().join("wit/world.wit"), wit).unwrap();
        let said = ReportedSteps::default();
        (add(EMPTY.to_vec(), project.path(), &said), said.0.into_inner())
    }

    #[test]
    fn what_the_wit_says_is_in_the_component() {
        let long = "Adds. ".repeat(100);
        let (component, said) = built_with(&format!(
            "package acme:shop;\nworld guest {{\n    /// {long}\n    export add: func(a: s32) -> s32;\n}}\n"
        ));
        assert_eq!(said, Vec::<String>::new());
        let sections: Vec<_> = Parser::new(0)
            .parse_all(&component)
            .filter_map(|payload| match payload.unwrap() {
                Payload::CustomSection(section) => Some((section.name().to_owned(), section.data().to_vec())),
                _ => None,
            })
            .collect();
        let [(name, content)] = sections.as_slice() else { panic!("{sections:?}") };
        let docs: serde_json::Value = serde_json::from_slice(&content[1..]).unwrap();
        assert_eq!(name, "package-docs");
        assert_eq!(
            docs["worlds"]["guest"]["func_exports"]["add"]["docs"].as_str().map(str::trim),
            Some(long.trim())
        );
        let again = add(component.clone(), Path::new("/nowhere"), &ReportedSteps::default());
        assert!(again == component, "without WIT it stays as it is");
    }

    #[test]
    fn a_component_is_not_refused_for_its_documentation() {
        let (component, said) = built_with("package acme:");
        assert_eq!((component.as_slice(), said.len()), (EMPTY, 1), "{said:?}");
        assert!(said[0].contains("cannot be read and is left out"), "{said:?}");
        let long = "x".repeat(MOST_BYTES);
        let (component, said) = built_with(&format!("package acme:shop;\n/// {long}\nworld guest {{}}\n"));
        assert!(component == EMPTY && said[0].contains("shorten it"), "{said:?}");
    }
}
