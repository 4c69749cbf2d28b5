//! Texts and pictures of the documentation, in the tables that `build.rs` makes of the repository, and where
//! each is served.

/// Texts by their paths in the repository.
pub(super) const TEXTS: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/texts.rs"));

/// Pictures in the same way.
pub(super) const PICTURES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/pictures.rs"));

/// Where a file of the repository is served, behind `/docs/`: in one folder at most.
pub(super) fn place(source: &str) -> &str {
    if source == "wit/ask/ask.wit" {
        return "wit/ask.wit";
    }
    source.strip_prefix("host/docs/").or_else(|| source.strip_prefix("host/")).unwrap_or(source)
}

/// Where a file of the repository is served, if it is.
pub(super) fn served(source: &str) -> Option<&str> {
    // What the front page of the repository says, the index of the documentation does.
    let source = if source == "README.md" { "host/docs/README.md" } else { source };
    let is_there =
        TEXTS.iter().any(|(path, _)| *path == source) || PICTURES.iter().any(|(path, _)| *path == source);
    is_there.then(|| place(source))
}
