//! Temporal: its development server, which keeps runs in a file of SQLite, and a worker of Python.

use std::process::Command;

use serde_json::{Value, json};

use super::{AS_IT_SHIPS, Deployment, Engine, absent, get, post, python, script, scripts, server, told};
use crate::provider::query;
use crate::site::Site;

const WORKFLOWS: &str = "/api/v1/namespaces/default/workflows";

pub(crate) struct Temporal {
    /// With SQLite's log in place of its journal, which is as strict and flushes less often.
    pub(crate) has_log: bool,
}

impl Engine for Temporal {
    fn name(&self) -> String {
        "Temporal 1.32.0 (development server, SQLite)".to_owned()
    }

    fn strictness(&self) -> String {
        let with_log = "every commit: `journal_mode=WAL`, `synchronous=FULL`";
        if self.has_log { with_log } else { AS_IT_SHIPS }.to_owned()
    }

    fn absent(&self) -> Option<String> {
        absent(&python("temporal"))
    }

    fn start(&self, site: &Site) -> Deployment {
        let [grpc, http] = [1, 2].map(|index| site.address(index));
        let mut command = Command::new(python("temporal"));
        command
            .args(["server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "never"])
            .args(["--port", &site.ports[1].to_string(), "--http-port", &site.ports[2].to_string()])
            .args(["--metrics-port", &site.ports[3].to_string(), "--db-filename"])
            .arg(site.home().join("temporal.db"));
        if self.has_log {
            command.args(["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=FULL"]);
        }
        let server = server(&mut command, &[grpc, http]);
        let mut command = Command::new(python("python3"));
        told(command.arg(scripts().join("temporal.py")), site).env("TEMPORAL_ADDRESS", grpc.to_string());
        let service = script(&mut command);
        Deployment { address: http, server: Some(server), service: vec![service] }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        let body = json!({
            "workflowType": { "name": "agent" },
            "taskQueue": { "name": "bench" },
            "input": [query(run)],
            "requestId": run.to_string(),
        });
        post(&format!("{WORKFLOWS}/run-{run}"), "", &body)
    }

    fn read(&self, run: usize, _submitted: &Value) -> Vec<u8> {
        let closed = "waitNewEvent=true&historyEventFilterType=HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT";
        get(&format!("{WORKFLOWS}/run-{run}/history?{closed}"), "")
    }
}
