//! Restate: its server journals every step before the next one, and calls a service that has the agent.

use std::process::Command;

use serde_json::{Value, json};

use super::{AS_IT_SHIPS, Deployment, Engine, absent, get, node, post, script, scripts, server};
use crate::provider::query;
use crate::site::Site;

const SERVER: &str = "node_modules/@restatedev/restate-server-linux-x64/bin/restate-server";

pub(crate) struct Restate;

impl Engine for Restate {
    fn name(&self) -> String {
        "Restate 1.7.12".to_owned()
    }

    fn strictness(&self) -> String {
        AS_IT_SHIPS.to_owned()
    }

    fn absent(&self) -> Option<String> {
        absent(&scripts().join(SERVER))
    }

    fn start(&self, site: &Site) -> Deployment {
        let [ingress, admin] = [1, 2].map(|index| site.address(index));
        let mut command = Command::new(scripts().join(SERVER));
        command
            .args(["--no-logo", "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"])
            .args(["--bind-port", &site.ports[3].to_string(), "--node-name", "bench", "--base-dir"])
            .arg(site.home().join("restate"))
            .env("RESTATE_INGRESS__BIND_ADDRESS", ingress.to_string())
            .env("RESTATE_ADMIN__BIND_ADDRESS", admin.to_string())
            .env("RESTATE_DISABLE_TELEMETRY", "true")
            .env("RESTATE_LOG_FILTER", "error");
        let server = server(&mut command, &[ingress, admin]);
        let mut command = node("restate.mjs", site, 0);
        let service = script(
            command.env("RESTATE_ADMIN_URL", format!("http://{admin}")).env("RESTATE_LOGGING", "ERROR"),
        );
        Deployment { address: ingress, server: Some(server), service: vec![service] }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        post(&format!("/agent/{run}/run/send"), "", json!({ "query": query(run) }))
    }

    fn read(&self, run: usize, _submitted: &Value) -> Vec<u8> {
        get(&format!("/restate/workflow/agent/{run}/attach"), "")
    }
}
