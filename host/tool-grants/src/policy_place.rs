//! Where the policy's file may lie: not in the tools folder.

use std::path::{Path, PathBuf};

/// Where a policy that lies in the tools folder would be: it is not read, because whoever may drop a tool
/// must not thereby grant it anything. Blocks.
pub fn misplaced(folder: &Path) -> Option<PathBuf> {
    let inside = folder.join("policy.toml");
    inside.exists().then_some(inside)
}

/// Whether a file lies in a folder, links resolved. A file that is not there lies nowhere. Blocks.
pub fn lies_in(file: &Path, folder: &Path) -> bool {
    match (file.canonicalize(), folder.canonicalize()) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        _ => false,
    }
}

/// Whether a file lies in a folder by their paths alone, which is what can be said while the folder does not
/// answer.
pub fn seems_to_lie_in(file: &Path, folder: &Path) -> bool {
    match (std::path::absolute(file), std::path::absolute(folder)) {
        (Ok(file), Ok(folder)) => file.starts_with(folder),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_alone_say_whether_a_file_seems_to_lie_in_a_folder() {
        for (file, folder, lies_there) in [
            ("/srv/tools/policy.toml", "/srv/tools", true),
            ("tools/a/policy.toml", "./tools/", true),
            ("/srv/tools.policy.toml", "/srv/tools", false),
            ("policy.toml", "tools", false),
        ] {
            assert_eq!(seems_to_lie_in(Path::new(file), Path::new(folder)), lies_there, "{file} {folder}");
        }
    }
}
