//! Which imports a capability answers.

/// Versions of `agent:tool` that this host serves.
pub(crate) const SERVED: &[&str] = &["0.1.0", "0.1.1"];

/// Imports, by their names `package/interface@version`.
pub(super) enum Imports {
    /// One interface of the contract, in every version that is served.
    Contract(&'static str),
    /// One interface of the contract that came later, by its whole name.
    Since(&'static str),
    /// All interfaces of these packages, in versions that begin so.
    Packages(&'static [&'static str], &'static str),
}

impl Imports {
    pub(super) fn include(&self, import: &str) -> bool {
        let Some((path, version)) = import.split_once('@') else { return false };
        let Some((package, interface)) = path.split_once('/') else { return false };
        match self {
            Self::Since(own) => import == *own,
            Self::Contract(own) => package == "agent:tool" && interface == *own && SERVED.contains(&version),
            Self::Packages(packages, compatible) => {
                packages.contains(&package) && version.starts_with(compatible)
            }
        }
    }
}
