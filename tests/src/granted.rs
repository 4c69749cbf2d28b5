//! Components with a policy that grants them something.

use std::fs;
use std::path::PathBuf;

use crate::service::Builder;
use crate::{Component, artifacts};

impl Component {
    /// One that is served only under a grant.
    pub fn granted(name: &str) -> Self {
        Self::new(name, artifacts::built_component("tools-granted", name))
    }

    /// The lines of a policy that grant it that.
    pub fn lines(&self, grants: &str) -> String {
        format!("[[component]]\nname = \"{}\"\ndigest = \"{}\"\n{grants}\n", self.name, self.digest())
    }
}

impl Builder {
    /// Serves these under what each is granted.
    #[must_use]
    pub fn granting<const N: usize>(self, components: [(&Component, &str); N]) -> Self {
        let file = self.policy_file();
        let lines: String = components.iter().map(|(component, grants)| component.lines(grants)).collect();
        fs::write(&file, lines).expect("the policy can be written");
        let this = self.env("TOOLS_POLICY", file);
        components.into_iter().fold(this, |this, (component, _)| this.tool(component.clone()))
    }

    /// Where [`Builder::granting`] puts the policy.
    pub fn policy_file(&self) -> PathBuf {
        self.home().join("policy.toml")
    }
}
