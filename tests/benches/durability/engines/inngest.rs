//! Inngest stands in the table with the reason why it is not measured.

use serde_json::Value;

use super::{Deployment, Engine};
use crate::site::Site;

pub(crate) struct Inngest;

impl Engine for Inngest {
    fn name(&self) -> String {
        "Inngest".to_owned()
    }

    fn strictness(&self) -> String {
        "-".to_owned()
    }

    fn absent(&self) -> Option<String> {
        let why = "the npm package `inngest-cli` holds an installer, which fetches the server from outside of registries";
        Some(why.to_owned())
    }

    fn start(&self, _site: &Site) -> Deployment {
        unreachable!("it is absent")
    }

    fn submit(&self, _run: usize) -> Vec<u8> {
        Vec::new()
    }

    fn read(&self, _run: usize, _submitted: &Value) -> Vec<u8> {
        Vec::new()
    }
}
