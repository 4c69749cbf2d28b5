//! LangGraph's server in memory: what its standalone one needs a licence for is not compared.

use std::process::Command;

use serde_json::{Value, json};

use super::{Deployment, Engine, absent, get, post, python, scripts, server, told};
use crate::provider::query;
use crate::site::Site;

pub(crate) struct LangGraph;

impl Engine for LangGraph {
    fn name(&self) -> String {
        "LangGraph server 0.16.7, in memory".to_owned()
    }

    fn strictness(&self) -> String {
        "nothing; it cannot be made strict".to_owned()
    }

    fn absent(&self) -> Option<String> {
        absent(&python("langgraph"))
    }

    fn start(&self, site: &Site) -> Deployment {
        // The server writes into the folder of its configuration.
        for file in ["langgraph.json", "langgraph_agent.py", "agent.py"] {
            std::fs::copy(scripts().join(file), site.home().join(file)).unwrap();
        }
        let address = site.address(0);
        let mut command = Command::new(python("langgraph"));
        told(&mut command, site)
            .current_dir(site.home())
            .args(["dev", "--no-browser", "--no-reload", "--n-jobs-per-worker", "10"])
            .args([
                "--server-log-level",
                "ERROR",
                "--host",
                "127.0.0.1",
                "--port",
                &address.port().to_string(),
            ])
            .env("LANGSMITH_TRACING", "false")
            .env("LANGGRAPH_CLI_NO_ANALYTICS", "1");
        let service = server(&mut command, &[address]);
        Deployment { address, server: None, service: vec![service] }
    }

    fn submit(&self, run: usize) -> Vec<u8> {
        let said = json!([{ "role": "user", "content": query(run) }]);
        let body =
            json!({ "assistant_id": "agent", "if_not_exists": "create", "input": { "messages": said } });
        post(&format!("/threads/{}/runs", thread(run)), "", &body)
    }

    fn read(&self, run: usize, submitted: &Value) -> Vec<u8> {
        let id = submitted["run_id"].as_str().expect("the id of a run");
        get(&format!("/threads/{}/runs/{id}/join", thread(run)), "")
    }
}

/// A UUID, which an id has to be there.
fn thread(run: usize) -> String {
    format!("00000000-0000-4000-8000-{run:012}")
}
